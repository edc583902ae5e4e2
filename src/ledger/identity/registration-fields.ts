import type { CertificateBinding, Digest, Micros, WorkloadRole } from '../types.js';

/**
 * A registration as its holder proved it (identity.md, Workload registration). Each field has been checked for its form,
 * and the signature verified under the key that it names; whether it may stand is decided in the transaction.
 */
export interface ProvedRegistration {
  /** SPIFFE ID of the service that the proof is meant for. */
  readonly audience: string;
  readonly incarnation: bigint;
  readonly domainId: string;
  readonly registrationId: string;
  /** A reconciler's is `effect-system:` and the authority system. */
  readonly workloadId: string;
  readonly role: WorkloadRole;
  /** `*` or a harness. */
  readonly recipientScope: string;
  readonly processId: string;
  readonly processStartTime: Micros;
  readonly sessionId: string;
  /** Of the domain: the trust domain has been compared. */
  readonly spiffeId: string;
  readonly certificateBinding: CertificateBinding;
  readonly certificateDigest: Digest | null;
  readonly proofKeyJwk: string;
  readonly proofKeyThumbprint: string;
  readonly credentialEpoch: bigint;
  readonly revocationEpoch: bigint;
  /** Both or neither. */
  readonly parentEventId: string | null;
  readonly grantId: string | null;
  /** Of a standing registration for effects; empty otherwise. */
  readonly sinks: readonly string[];
  readonly issuedAt: Micros;
  /** At most 1 h after `issuedAt`. */
  readonly expiresAt: Micros;
  readonly renewableUntil: Micros | null;
  /** SHA-256 of the exact bytes that were signed. */
  readonly possessionDigest: Digest;
  /** The token, kept with the version. */
  readonly possessionJws: Buffer;
}

/** What a workload id of a reconciler begins with (effects.md, Transitions 9). */
export const RECONCILER_WORKLOAD_PREFIX = 'effect-system:';

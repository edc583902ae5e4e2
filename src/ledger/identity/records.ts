import type { CertificateBinding, Digest, Micros, RecordStatus, WorkloadRole } from '../types.js';

/** identity.md, Workload registration: the current version. */
export interface RegistrationRow {
  readonly registrationId: string;
  readonly workloadId: string;
  readonly role: WorkloadRole;
  /** `*` or a harness. */
  readonly recipientScope: string;
  readonly processId: string;
  readonly processStartTime: Micros;
  readonly sessionId: string;
  readonly spiffeId: string;
  readonly certificateBinding: CertificateBinding;
  readonly certificateDigest: Digest | null;
  readonly proofKeyThumbprint: string;
  readonly credentialEpoch: bigint;
  readonly revocationEpoch: bigint;
  /** Null for a standing registration. */
  readonly parentEventId: string | null;
  readonly grantId: string | null;
  /** Of a standing registration; empty otherwise. */
  readonly sinks: readonly string[];
  readonly status: RecordStatus;
  readonly issuedAt: Micros;
  readonly expiresAt: Micros;
  readonly renewableUntil: Micros | null;
  /** Of its first version. */
  readonly firstIssuedAt: Micros;
  /** SHA-256 of the possession statement that made this version: an exact repeat is a duplicate. */
  readonly possessionDigest: Digest;
  readonly updatedAt: Micros;
}

/** Every version that ever was; append-only. */
export interface RegistrationVersionRow {
  readonly registrationId: string;
  readonly credentialEpoch: bigint;
  readonly role: WorkloadRole;
  readonly spiffeId: string;
  readonly certificateDigest: Digest | null;
  readonly proofKeyThumbprint: string;
  readonly status: RecordStatus;
  readonly possessionJws: Buffer | null;
  readonly storedAt: Micros;
}

/** Content-addressed: the thumbprint is of the key. */
export interface ProofKeyRow {
  readonly thumbprint: string;
  readonly publicJwk: string;
  readonly firstSeenAt: Micros;
}

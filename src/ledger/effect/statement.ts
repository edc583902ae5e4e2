import type { Digest, EffectState, Micros, WorkloadRole } from '../types.js';

/**
 * What a workload signed for one transition (identity.md, Transition proof; effects.md, Transitions by workloads). Each
 * field has been checked for its form; whether it is true is decided in the transaction (transition rule 3).
 */
export interface StatementFields {
  /** SPIFFE ID of the service that the statement is meant for. */
  readonly audience: string;
  /** Incarnation of the store, positive. */
  readonly incarnation: bigint;
  readonly domainId: string;
  readonly registrationId: string;
  readonly workloadId: string;
  readonly role: WorkloadRole;
  readonly processId: string;
  readonly processStart: Micros;
  readonly sessionId: string;
  /** From 1. */
  readonly credentialEpoch: bigint;
  /** From 1. */
  readonly revocationEpoch: bigint;
  readonly parentEventId: string;
  readonly grantId: string;
  readonly effectId: string;
  /** Positive, 63 bits. */
  readonly fence: bigint;
  readonly fromState: EffectState;
  readonly toState: EffectState;
  /** SHA-256 of the exact evidence bytes. */
  readonly evidenceDigest: Digest;
  readonly issuedAt: Micros;
  /** 24 to 256 printable ASCII characters without spaces. */
  readonly nonce: string;
}

import type { Digest, Micros, TerminalState } from '../types.js';

/** Why an executor does not know the outcome (effects.md, Transitions by workloads). */
export type UncertaintyReason = 'TIMEOUT' | 'COMMIT_RESPONSE_LOST' | 'TRANSPORT_DISCONNECT';

/** What an executor says when it starts. */
export interface ExecutionEvidence {
  /** 16 to 256 octets. */
  readonly attemptId: string;
  /** 16 to 256 octets, new per process. */
  readonly executorInstanceId: string;
  /** SHA-256 of the exact request that will be sent. */
  readonly requestDigest: Digest;
  /** By the executor's clock. */
  readonly startedAt: Micros;
}

/** What an executor says when it does not know the outcome. */
export interface UncertaintyEvidence {
  readonly attemptId: string;
  readonly reason: UncertaintyReason;
  readonly observationDigest: Digest;
  /** By the executor's clock. */
  readonly observedAt: Micros;
}

/** What an executor says when it knows the outcome. */
export interface TerminalEvidence {
  readonly attemptId: string;
  /** 8 to 512 octets. */
  readonly externalReceiptId: string;
  readonly externalReceiptDigest: Digest;
  /** By the executor's clock. */
  readonly observedAt: Micros;
}

/** What a reconciler says after it asked the authority system. */
export interface ReconciliationEvidence {
  readonly attemptId: string;
  /** 3 to 256 octets. */
  readonly authoritySystemId: string;
  /** 8 to 512 octets. */
  readonly queryId: string;
  readonly queryResponseDigest: Digest;
  /** By the reconciler's clock. */
  readonly observedAt: Micros;
  readonly terminalState: TerminalState;
}

/** The fields of each kind of evidence, by the kind's name. */
export interface EvidenceFields {
  execution: ExecutionEvidence;
  uncertainty: UncertaintyEvidence;
  terminal: TerminalEvidence;
  reconciliation: ReconciliationEvidence;
}

export type EvidenceKind = keyof EvidenceFields;

/** Evidence as it came: its exact bytes are what is hashed, signed over and kept. */
export interface Evidence<K extends EvidenceKind = EvidenceKind> {
  readonly bytes: Buffer;
  /** SHA-256 of `bytes`. */
  readonly digest: Digest;
  readonly fields: EvidenceFields[K];
}

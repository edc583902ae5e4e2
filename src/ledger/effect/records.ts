import type {
  ActorKind,
  DataClass,
  Digest,
  EffectState,
  Micros,
  StateSource,
  WorkloadRole,
} from '../types.js';

/** effects.md: one reserved effect. */
export interface EffectRow {
  readonly effectId: string;
  /** Digest of (event, sink, request digest); the identity within the domain. */
  readonly identityDigest: Digest;
  readonly eventId: string;
  readonly sink: string;
  readonly requestDigest: Digest;
  readonly actorKind: ActorKind;
  readonly actorId: string;
  readonly harnessId: string;
  /** The harness's at the reservation; at a repeat the current ones count. */
  readonly assurance: string;
  readonly credentialEpoch: bigint;
  readonly grantId: string;
  readonly action: string;
  readonly resource: string;
  readonly inputSource: string;
  readonly dataClass: DataClass;
  /** As the caller gave it; empty where the default stands. */
  readonly effectKey: string;
  readonly keyDigest: Digest;
  readonly holdsKey: boolean;
  readonly repeatable: boolean;
  /** As the caller gave it, null where absent. */
  readonly reservationTtl: Micros | null;
  readonly executionDeadline: Micros | null;
  readonly startBefore: Micros;
  readonly policyRevision: bigint;
  readonly decisionId: string;
  readonly fence: bigint;
  readonly state: EffectState;
  readonly stateSource: StateSource;
  readonly reservedAt: Micros;
  /** The audit position and leaf of the reservation: what the first reply said. */
  readonly reserveSeq: bigint;
  readonly reserveLeaf: Digest;
  readonly attemptId: string | null;
  readonly executorRegistrationId: string | null;
  readonly executorSessionId: string | null;
  readonly executorProcessId: string | null;
  readonly executorProcessStart: Micros | null;
  readonly startedAt: Micros | null;
  /** When the execution counts as lost. */
  readonly lostAt: Micros | null;
  /** The sink's at the start. */
  readonly sendWindow: Micros | null;
  readonly unknownAt: Micros | null;
  readonly settledAt: Micros | null;
  readonly reconcilerRegistrationId: string | null;
  /** SHA-256 of the evidence that led to the present state. */
  readonly evidenceDigest: Digest | null;
  /** When the present state was entered, by the store's clock. */
  readonly stateAt: Micros;
  /** The provenance digest of the tool output, once terminal by a workload. */
  readonly outputDigest: Digest | null;
  readonly disputed: boolean;
  readonly lateEvidenceCount: number;
  /** Steps in the audit so far. */
  readonly step: bigint;
  /** The audit position of the last step, and the step that entered the present state. */
  readonly lastSeq: bigint;
  readonly stateStep: bigint;
  readonly stateSeq: bigint;
  readonly stateLeaf: Digest;
}

/** What of an effect's row its tombstone keeps, as it stood. */
export type KeptOfEffect = Pick<
  EffectRow,
  | 'effectId'
  | 'identityDigest'
  | 'eventId'
  | 'sink'
  | 'actorKind'
  | 'actorId'
  | 'harnessId'
  | 'grantId'
  | 'keyDigest'
  | 'holdsKey'
  | 'startBefore'
  | 'decisionId'
  | 'fence'
  | 'state'
  | 'stateSource'
  | 'reserveSeq'
  | 'reserveLeaf'
  | 'attemptId'
  | 'executorRegistrationId'
  | 'reconcilerRegistrationId'
  | 'evidenceDigest'
  | 'outputDigest'
  | 'step'
  | 'lastSeq'
>;

/** effects.md, Archival: what answers for ever for an effect whose row and receipts were exported and removed. */
export interface TombstoneRow extends KeptOfEffect {
  /** Of what a repeated reservation must equal. */
  readonly tupleDigest: Digest;
  /** Of the row and its receipts, as they stand in the archive. */
  readonly recordDigest: Digest;
  /** The domain's archive that holds them. */
  readonly archiveNumber: bigint;
  readonly archivedAt: Micros;
}

/** One archive of a domain: an export that effects went into before they were removed. */
export interface ArchiveRow {
  /** From 1, without a gap within the domain. */
  readonly archiveNumber: bigint;
  /** Names the file. */
  readonly archiveId: string;
  /** SHA-256 of the whole file. */
  readonly exportDigest: Digest;
  /** The part of the log that the file carries: behind this position, up to that one, with the chain hash there. */
  readonly logAfterSeq: bigint;
  readonly logLastSeq: bigint;
  readonly logChainHash: Digest;
  readonly archivedAt: Micros;
}

/** One entry per effect that is not terminal: the row exists while the work is pending. */
export interface PendingWorkRow {
  readonly effectId: string;
  readonly openedAt: Micros;
}

/** What a workload proved at one step; append-only. */
export interface TransitionRow {
  readonly effectId: string;
  readonly step: bigint;
  readonly fromState: EffectState;
  readonly toState: EffectState;
  readonly late: boolean;
  readonly registrationId: string;
  readonly role: WorkloadRole;
  readonly workloadId: string;
  readonly spiffeId: string;
  /** SHA-256 of the leaf that sent it. */
  readonly leafDigest: Digest;
  readonly keyThumbprint: string;
  readonly credentialEpoch: bigint;
  readonly attemptId: string;
  readonly evidence: Buffer;
  readonly evidenceDigest: Digest;
  readonly proof: Buffer;
  readonly proofEncoding: 'jws' | 'dsse';
  readonly statementDigest: Digest;
  /** Store's clock minus the evidence's time. */
  readonly skew: Micros;
  readonly receivedAt: Micros;
}

/** A nonce that a registration spent; kept until no token with it can verify any more. */
export interface TransitionNonceRow {
  readonly registrationId: string;
  readonly nonceDigest: Digest;
  readonly statementDigest: Digest;
  readonly expiresAt: Micros;
}

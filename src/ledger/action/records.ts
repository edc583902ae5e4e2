import type { Digest, Micros } from '../types.js';
import type { ActionEventKind, ActionState, FailureReason, ReceiptClass } from './states.js';

/** actions.md: one governed action. The first group never changes (I1). */
export interface ActionRow {
  readonly actionId: string;
  readonly idempotencyKey: string;
  readonly source: string;
  /** May be empty; it can never be dispatched then. */
  readonly sourceRef: string;
  readonly type: string;
  readonly toolName: string;
  /** The bytes that came. */
  readonly payload: Buffer;
  readonly payloadDigest: Digest;
  /** Of all that never changes and that an owner approves (`action-digest.ts`). */
  readonly actionDigest: Digest;
  /** Always 1. */
  readonly maxAttempts: number;
  readonly createdAt: Micros;
  /** The audit position of the proposal: the order of lists. */
  readonly proposedSeq: bigint;
  readonly proposerSpiffeId: string;
  /** Thumbprints of the keys that the proposer had: its certificate's and, where it signs, its own. */
  readonly proposerKeys: readonly string[];
  /** As the caller gave it, null where absent. */
  readonly proposalTtl: Micros | null;
  readonly proposalExpiresAt: Micros | null;

  readonly state: ActionState;
  /** The store's incarnation in which the present state was entered: what a restore ends is of an earlier one. */
  readonly stateIncarnation: bigint;
  /** 0, or 1 from the dispatch on (I6). */
  readonly attemptCount: number;
  readonly updatedAt: Micros;
  readonly nextAttemptAt: Micros;
  /** Null: nobody holds it; then all that is of the lease is null or empty. */
  readonly leaseToken: bigint | null;
  readonly leaseHolder: string | null;
  readonly leaseRegistrationId: string | null;
  /** Thumbprints of the keys that the holder had when it took the lease. */
  readonly leaseKeys: readonly string[];
  readonly leasedAt: Micros | null;
  readonly leaseExpiresAt: Micros | null;
  readonly dispatchedAt: Micros | null;
  /** The event of the dispatch: what is recorded behind it can witness it. */
  readonly dispatchEvent: bigint | null;
  readonly executionDigest: Digest | null;
  /** What the sweeps look for; the contract itself decides. */
  readonly observationDeadline: Micros | null;
  readonly maxObservations: number | null;
  readonly observationCount: number;
  readonly effectId: string | null;
  readonly acceptanceReceiptKey: string | null;
  readonly resultDigest: Digest | null;
  readonly failureReason: FailureReason | null;
  /** Recorded and never honoured (I10). */
  readonly retryable: boolean;
  readonly endedAt: Micros | null;
  /** General receipts so far. */
  readonly receiptCount: number;
  /** Events so far, and the audit position of the last. */
  readonly eventCount: bigint;
  readonly lastSeq: bigint;
}

/** I2: append-only. What is null or empty belongs to gates or to observations alone. */
export interface ActionReceiptRow {
  readonly actionId: string;
  readonly receiptClass: ReceiptClass;
  readonly receiptKey: string;
  readonly kind: string;
  readonly status: string;
  readonly externalId: string;
  readonly evidence: Buffer;
  readonly evidenceDigest: Digest;
  readonly actorSpiffeId: string;
  readonly createdAt: Micros;
  /** The event that recorded it. */
  readonly eventNumber: bigint;
  /** Of a gate. */
  readonly decisionId: string | null;
  /** Of a gate: the owner who approved it, or whose bounded grant stands for that. */
  readonly approverSpiffeId: string | null;
  /** Of a gate: thumbprints of the keys that the approver had: its certificate's and the one that signed. */
  readonly approverKeys: readonly string[];
  /** Of a gate: the key that signed it or the bounded grant. */
  readonly signingKeyThumbprint: string | null;
  /** Of a gate by an owner: the token, exactly as it came. */
  readonly signature: Buffer | null;
  /** Of a gate under one. */
  readonly boundedGrantId: string | null;
  /** Of an observation: what an exact repeat of the call names. */
  readonly requestId: string | null;
}

/** I8: append-only, contiguous from 1 in the action, each with its entry in the log. */
export interface ActionEventRow {
  readonly actionId: string;
  readonly eventNumber: bigint;
  readonly kind: ActionEventKind;
  /** Null at the proposal. */
  readonly fromState: ActionState | null;
  readonly toState: ActionState;
  /** Null: the service itself. */
  readonly actorSpiffeId: string | null;
  readonly leaseToken: bigint | null;
  readonly receiptClass: ReceiptClass | null;
  readonly receiptKey: string | null;
  readonly observationNumber: number | null;
  readonly failureReason: FailureReason | null;
  /** What an exact repeat of the call is known by, where the call has one event of its own. */
  readonly requestDigest: Digest | null;
  readonly occurredAt: Micros;
  readonly auditSeq: bigint;
}

/** Every lease that ever was; append-only. */
export interface ActionLeaseRow {
  readonly leaseToken: bigint;
  readonly actionId: string;
  readonly holderSpiffeId: string;
  readonly registrationId: string;
  readonly requestId: string;
  /** Of all that the request asked for: the same id for something else is a conflict. */
  readonly requestDigest: Digest;
  readonly leasedAt: Micros;
  readonly expiresAt: Micros;
}

/** I10: what is left of an action that failed; append-only. */
export interface DeadLetterRow {
  readonly actionId: string;
  readonly failureReason: FailureReason;
  /** What the failing worker said. */
  readonly detail: string;
  readonly retryable: boolean;
  readonly fromState: ActionState;
  readonly failedAt: Micros;
  /** The action as it was, without its payload: JSON (`snapshot.ts`). */
  readonly snapshot: Buffer;
  readonly snapshotDigest: Digest;
  readonly auditSeq: bigint;
}

/** actions.md, Bounded grant: signed by an owner, used up dispatch by dispatch. It is not a task grant. */
export interface BoundedGrantRow {
  readonly boundedGrantId: string;
  readonly ownerSpiffeId: string;
  /** Thumbprints of the keys that the owner had: its certificate's and the one that signed. */
  readonly ownerKeys: readonly string[];
  readonly signingKeyThumbprint: string;
  readonly sources: readonly string[];
  readonly types: readonly string[];
  readonly tools: readonly string[];
  readonly maxUses: bigint;
  readonly uses: bigint;
  /** Null: it does not end by itself. */
  readonly expiresAt: Micros | null;
  readonly revokedAt: Micros | null;
  readonly issuedAt: Micros;
  readonly createdAt: Micros;
  /** The store's incarnation that it was signed for: what a restore forgot of its uses is not known any more. */
  readonly incarnation: bigint;
  /** SHA-256 of the signed payload. */
  readonly statementDigest: Digest;
  /** The token, kept so that it verifies years later. */
  readonly jws: Buffer;
  /** The audit position of its last change. */
  readonly auditSeq: bigint;
}

/** A use of a bounded grant; append-only. */
export interface BoundedGrantUseRow {
  readonly boundedGrantId: string;
  readonly actionId: string;
  readonly usedAt: Micros;
}

import type { ActionEventKind, ActionState, FailureReason, ReceiptClass } from '../action/states.js';
import type { DomainCounters } from '../admission/records.js';
import type { Digest, EffectState, Micros, StateSource } from '../types.js';
import type { Reason } from '../refusal.js';

/** The locked row of a domain: head of its log, fence counter, last time. */
export interface DomainHead {
  readonly seq: bigint;
  readonly chainHash: Digest;
  /** The incarnation of the last entry; 0 before the first. */
  readonly incarnation: bigint;
  /** Fences given out in the present incarnation. */
  readonly fenceCounter: bigint;
  readonly lastTime: Micros;
  /** What the domain has let through (authority.md, Admission). */
  readonly counters: DomainCounters;
}

export type AuditKind =
  | 'effect_step'
  | 'effect_late_evidence'
  | 'decision'
  | 'command_intent'
  | 'command'
  | 'event'
  | 'provenance'
  | 'workload'
  | 'bootstrap'
  | 'domain_created'
  | 'archival'
  | 'action_event'
  | 'bounded_grant'
  | 'restore';

/** A step of an effect, as the log says it. */
export interface EffectAudit {
  readonly effectId: string;
  readonly step: bigint;
  /** Undefined at the reservation. */
  readonly fromState?: EffectState;
  readonly toState: EffectState;
  readonly source: StateSource;
  readonly fence: bigint;
  readonly attemptId?: string;
  readonly evidenceDigest?: Digest;
  readonly proofDigest?: Digest;
  readonly registrationId?: string;
  readonly grantCurrent?: boolean;
  readonly sink: string;
  readonly identityDigest: Digest;
  readonly provenanceDigest?: Digest;
  readonly disputed?: boolean;
  readonly decisionId?: string;
  readonly grantId?: string;
  readonly eventId?: string;
}

export interface DecisionAudit {
  readonly decisionId: string;
  readonly allowed: boolean;
  readonly reason?: Reason;
  readonly harnessId: string;
  readonly actorId: string;
  readonly action: string;
  readonly resource: string;
  readonly contextDigest: Digest;
}

export interface RecordAudit {
  readonly type: string;
  readonly id: string;
  readonly revision: bigint;
  readonly operation: string;
  readonly digest: Digest;
}

/** What an operator signed, before anything of it is done. */
export interface CommandAudit {
  /** The id that the operator chose. */
  readonly adminCommandId: string;
  readonly operation: string;
  readonly payloadDigest: Digest;
  readonly expectedPolicyRevision: bigint;
  readonly expectedEntityRevision: bigint;
  /** RFC 7638, of the key that signed. */
  readonly keyThumbprint: string;
}

/** An event of a governed action, as the log says it. */
export interface ActionAudit {
  readonly actionId: string;
  readonly eventNumber: bigint;
  readonly kind: ActionEventKind;
  /** Undefined at the proposal. */
  readonly fromState?: ActionState;
  readonly toState: ActionState;
  readonly leaseToken?: bigint;
  readonly receiptClass?: ReceiptClass;
  readonly receiptKey?: string;
  readonly evidenceDigest?: Digest;
  readonly observationNumber?: number;
  readonly failureReason?: FailureReason;
  readonly actionDigest: Digest;
  readonly executionDigest?: Digest;
  readonly effectId?: string;
  readonly boundedGrantId?: string;
  readonly signatureDigest?: Digest;
}

/** What a decision wants to have in the log; position, time and hashes are given when it is appended. */
export interface AuditDraft {
  readonly kind: AuditKind;
  /** Undefined: the service itself. */
  readonly actorSpiffeId?: string;
  readonly commandId: string;
  readonly effect?: EffectAudit;
  readonly decision?: DecisionAudit;
  readonly record?: RecordAudit;
  readonly command?: CommandAudit;
  /** In the completion of a command: where its intent stands. */
  readonly intentSeq?: bigint;
  readonly action?: ActionAudit;
}

/** An entry with its place. */
export interface AuditFields extends AuditDraft {
  readonly domainId: string;
  readonly seq: bigint;
  readonly incarnation: bigint;
  readonly time: Micros;
  /** In the first entry of an incarnation: the chain hash before it. */
  readonly previousHead?: Digest;
}

/** A row of the log. */
export interface AuditRow {
  readonly seq: bigint;
  readonly entry: Buffer;
  readonly leafHash: Digest;
  readonly chainHash: Digest;
  readonly effectId: string | null;
  readonly effectStep: bigint | null;
}

/** Turns an entry into the bytes that are hashed; the lane gives the protobuf one (`src/lane/audit-codec.ts`). */
export interface AuditCodec {
  encode(fields: AuditFields): Buffer;
  /** What a stored entry says about an effect; undefined where it does not parse or is about something else. */
  decodeEffect(
    entry: Uint8Array,
  ): { effectId: string; step: bigint; toState: EffectState; fence: bigint } | undefined;
}

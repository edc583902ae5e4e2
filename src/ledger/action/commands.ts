import type { CommandBase } from '../decision.js';
import type { Caller, Digest, Micros } from '../types.js';
import type {
  ActionLeaseRow,
  ActionReceiptRow,
  ActionRow,
  BoundedGrantRow,
  DeadLetterRow,
} from './records.js';
import type { LeasableState } from './states.js';

/**
 * What can be asked of governed actions (actions.md, RPCs), and what is answered. Each has its decision in a file of its own
 * name. Forms (lengths, digests, JSON) were checked before; what depends on rows or on the clock is decided.
 */

/** Who asks, admitted as this kind; its rows must still say so. */
export interface ActionCaller<Kind extends string> {
  readonly caller: Caller;
  readonly kind: Kind;
  /** For a worker: the registration that it speaks as, a selector; undefined: any in force. */
  readonly registrationId?: string | undefined;
}

/** An owner's signature over the exact evidence that comes with it; it verified, and the payload was the evidence. */
export interface EvidenceSignature {
  /** The token, exactly as it came. */
  readonly jws: Buffer;
  /** The key under which it verified. */
  readonly keyThumbprint: string;
}

/** A receipt as a caller brings it. */
export interface ReceiptContent {
  readonly receiptKey: string;
  readonly kind: string;
  readonly status: string;
  readonly externalId: string;
  readonly evidence: Buffer;
}

/** Which actions a worker is for; what is null or empty does not narrow. At most one of the two sources is set. */
export interface ActionScope {
  readonly source: string | null;
  readonly sourcePrefix: string | null;
  readonly types: readonly string[];
  readonly actionIds: readonly string[];
}

/** What most calls answer. */
export interface ActionReply {
  readonly action: ActionRow;
  /** Whether an earlier call did it. */
  readonly duplicate: boolean;
}

export interface ReceiptReply extends ActionReply {
  readonly receipt: ActionReceiptRow;
}

// --- proposing and approving

/** `proposeAction` in propose-action.ts → {@link ActionReply}. */
export interface ProposeAction extends CommandBase, ActionCaller<'harness' | 'worker'> {
  /** Minted by the rpc layer. */
  readonly actionId: string;
  readonly idempotencyKey: string;
  readonly source: string;
  readonly sourceRef: string;
  readonly type: string;
  readonly toolName: string;
  readonly payload: Buffer;
  readonly proposalTtl: Micros | null;
}

/** `gateAction` in gate-action.ts → {@link ReceiptReply}. */
export interface GateAction extends CommandBase, ActionCaller<'owner' | 'harness' | 'worker'> {
  readonly actionId: string;
  readonly receiptKey: string;
  readonly approvalId: string;
  readonly decisionId: string;
  readonly evidence: Buffer;
  /** Null: none came. */
  readonly signature: EvidenceSignature | null;
}

/** `rejectAction` in reject-action.ts → {@link ReceiptReply}. */
export interface RejectAction extends CommandBase, ActionCaller<'owner'> {
  readonly actionId: string;
  readonly receiptKey: string;
  readonly decisionId: string;
  readonly evidence: Buffer;
  readonly signature: EvidenceSignature;
}

/** What an owner signed, of `surety.action.v1.BoundedGrantStatement`. */
export interface BoundedGrantStatement {
  readonly audience: string;
  readonly incarnation: bigint;
  readonly domainId: string;
  readonly boundedGrantId: string;
  readonly ownerSpiffeId: string;
  readonly sources: readonly string[];
  readonly types: readonly string[];
  readonly tools: readonly string[];
  readonly maxUses: bigint;
  /** Null: it does not end by itself. */
  readonly expiresAt: Micros | null;
  readonly issuedAt: Micros;
}

export interface BoundedGrantReply {
  readonly grant: BoundedGrantRow;
  readonly duplicate: boolean;
}

/** `addBoundedGrant` in add-bounded-grant.ts → {@link BoundedGrantReply}. */
export interface AddBoundedGrant extends CommandBase, ActionCaller<'owner'> {
  readonly statement: BoundedGrantStatement;
  /** SHA-256 of the signed payload. */
  readonly statementDigest: Digest;
  readonly keyThumbprint: string;
  readonly jws: Buffer;
}

/** `revokeBoundedGrant` in revoke-bounded-grant.ts → {@link BoundedGrantReply}. */
export interface RevokeBoundedGrant extends CommandBase, ActionCaller<'owner'> {
  readonly boundedGrantId: string;
}

/** `addReceipt` in add-receipt.ts → {@link ReceiptReply}. */
export interface AddReceipt extends CommandBase, ActionCaller<'harness' | 'worker' | 'owner'> {
  readonly actionId: string;
  readonly receipt: ReceiptContent;
}

// --- leasing

/** A worker's call that takes a lease. */
interface LeaseRequest extends CommandBase, ActionCaller<'worker'> {
  readonly requestId: string;
  readonly scope: ActionScope;
  readonly duration: Micros;
}

/** `leaseNext` in lease-next.ts → {@link LeaseReply}. */
export interface LeaseNext extends LeaseRequest {
  /** Not empty. */
  readonly states: readonly LeasableState[];
}

/** `leaseObservation` in lease-observation.ts → {@link ObservationLeaseReply}. */
export interface LeaseObservation extends LeaseRequest {}

/** The action and the lease that the request got; both undefined: nothing is ready. */
export interface LeaseReply {
  readonly leased: { readonly action: ActionRow; readonly lease: ActionLeaseRow } | undefined;
  readonly duplicate: boolean;
}

export interface ObservationLeaseReply extends LeaseReply {
  /** How many were ended as ambiguous on the way. */
  readonly ended: number;
}

// --- the leaseholder

/** A call by whoever holds the lease (I3). */
export interface HolderCommand extends CommandBase, ActionCaller<'worker'> {
  readonly actionId: string;
  readonly leaseToken: bigint;
}

/** `beginDispatch` in begin-dispatch.ts → {@link BeginDispatchReply}. */
export interface BeginDispatch extends HolderCommand {
  readonly source: string;
  readonly sourceRef: string;
  readonly type: string;
  readonly payload: Buffer;
  readonly gateReceiptKey: string;
  readonly approvalId: string;
  readonly decisionId: string;
  readonly executionDigest: Digest;
  readonly observationWindow: Micros;
  readonly maxObservations: number;
  /** What a validator of the caller's own judged, and until when that is good; null: none. */
  readonly authorization: { readonly viewDigest: Digest; readonly expiresAt: Micros } | null;
  /** Null: no effect. */
  readonly effectId: string | null;
  /** What was checked before the transaction, with what it was checked on. */
  readonly checks: DispatchChecks;
}

/** Checks that cost I/O or an evaluator: they run before the lane, and what they looked at is compared in the transaction. */
export interface DispatchChecks {
  /**
   * The owner's signature that the stored gate carries, verified once more over the stored evidence; null: the gate that was
   * looked at has none, or there was no such gate.
   */
  readonly signature: {
    /** SHA-256 of the token. */
    readonly signatureDigest: Digest;
    readonly evidenceDigest: Digest;
    readonly keyThumbprint: string;
    readonly verified: boolean;
  } | null;
  /** The condition of the type, evaluated; null: there was none in force. */
  readonly condition: {
    /** `conditionDigest` of the expression. */
    readonly conditionDigest: Digest;
    readonly payloadDigest: Digest;
    readonly evidenceDigest: Digest;
    readonly verdict: 'true' | 'false' | 'error';
  } | null;
}

export interface BeginDispatchReply {
  readonly action: ActionRow;
  readonly contract: ActionReceiptRow;
}

/** `beginObservation` in begin-observation.ts → {@link BeginObservationReply}. */
export interface BeginObservation extends HolderCommand {
  readonly requestId: string;
  readonly executionDigest: Digest;
}

export interface BeginObservationReply extends ActionReply {
  /** Undefined: the action ended as ambiguous. */
  readonly observation: ActionReceiptRow | undefined;
  /** From 1; 0: the action ended as ambiguous. */
  readonly observationNumber: number;
}

/** `deferObservation` in defer-observation.ts → {@link ActionReply}. */
export interface DeferObservation extends HolderCommand {
  readonly executionDigest: Digest;
  /** Of the last observation; 0: there was none. */
  readonly observationNumber: number;
  readonly delay: Micros;
}

/** `deferLeased` in defer-leased.ts → {@link ActionReply}. */
export interface DeferLeased extends HolderCommand {
  readonly delay: Micros;
}

/** `acceptAction` in accept-action.ts → {@link ReceiptReply}. */
export interface AcceptAction extends HolderCommand {
  readonly receipt: ReceiptContent;
}

/** `verifyAction` in verify-action.ts → {@link VerifyActionReply}. */
export interface VerifyAction extends HolderCommand {
  readonly witnessReceiptKeys: readonly string[];
  /** Null: the witnesses speak for themselves. */
  readonly receipt: ReceiptContent | null;
}

export interface VerifyActionReply extends ActionReply {
  readonly receipt: ActionReceiptRow | undefined;
}

/** `completeAction` in complete-action.ts → {@link ActionReply}. */
export interface CompleteAction extends HolderCommand {
  readonly resultDigest: Digest;
}

/** `failAction` in fail-action.ts → {@link FailActionReply}. */
export interface FailAction extends HolderCommand {
  readonly detail: string;
  readonly resultDigest: Digest | null;
  readonly retryable: boolean;
}

export interface FailActionReply extends ActionReply {
  readonly deadLetter: DeadLetterRow;
}

// --- what time alone does

/** `reapLease` in reap-lease.ts → {@link ReapReply}: one action, found outside and judged again. */
export interface ReapLease extends CommandBase {
  readonly actionId: string;
  /** The operator who asks for it; undefined: the sweep. */
  readonly operator?: Caller | undefined;
}

export interface ReapReply {
  readonly outcome: 'released' | 'ended' | 'nothing';
  /** Whether anything changed, for the sweeps. */
  readonly changed: boolean;
}

/** `expireProposal` in expire-proposal.ts → whether it ended the proposal. */
export interface ExpireProposal extends CommandBase {
  readonly actionId: string;
}

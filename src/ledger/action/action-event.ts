import { sha256 } from '../encoding.js';
import type { Digest } from '../types.js';
import type { Draft } from '../working-set.js';
import type { ActionEventRow, ActionReceiptRow, ActionRow } from './records.js';
import type { ActionEventKind, FailureReason } from './states.js';

/** What of an action an event changes; its number, place in the log and time follow from that. */
export type ActionChange = Partial<Omit<ActionRow, 'actionId' | 'eventCount' | 'lastSeq' | 'updatedAt'>>;

/** What an event says besides what the action's row does. */
export interface EventDetail {
  readonly kind: ActionEventKind;
  readonly commandId: string;
  /** Undefined: the service itself. */
  readonly actorSpiffeId?: string | undefined;
  /** The lease that it was done under, or that began or ended. */
  readonly leaseToken?: bigint | null;
  /** The receipt that it records or rests on. */
  readonly receipt?: ActionReceiptRow | undefined;
  readonly observationNumber?: number;
  readonly failureReason?: FailureReason;
  /** What an exact repeat of the call is known by. */
  readonly requestDigest?: Digest;
}

/** Nothing of a lease: what letting go of one changes. */
export const NO_LEASE = {
  leaseToken: null,
  leaseHolder: null,
  leaseRegistrationId: null,
  leaseKeys: [],
  leasedAt: null,
  leaseExpiresAt: null,
} as const satisfies ActionChange;

/** The number of the event that comes next. */
export function nextEventNumber(action: ActionRow): bigint {
  return action.eventCount + 1n;
}

/**
 * Takes an action one event on: its row, the event, and its entry in the log (actions.md, I8; provenance-audit-replay.md,
 * Audit: every state change, receipt and lease appends one).
 */
export function takeEvent(
  draft: Draft,
  action: ActionRow,
  change: ActionChange,
  detail: EventDetail,
): ActionRow {
  return storeEvent(draft, action, { ...action, ...change, eventCount: nextEventNumber(action) }, detail);
}

/** Stores a new action with its first event. `first` is as it will be, but for its place in the log. */
export function beginAction(draft: Draft, first: ActionRow, detail: EventDetail): ActionRow {
  return storeEvent(draft, undefined, first, detail);
}

function storeEvent(
  draft: Draft,
  before: ActionRow | undefined,
  after: ActionRow,
  detail: EventDetail,
): ActionRow {
  const { receipt, failureReason, requestDigest } = detail;
  const leaseToken = detail.leaseToken ?? null;
  const { seq } = draft.append({
    kind: 'action_event',
    commandId: detail.commandId,
    ...(detail.actorSpiffeId === undefined ? {} : { actorSpiffeId: detail.actorSpiffeId }),
    action: {
      actionId: after.actionId,
      eventNumber: after.eventCount,
      kind: detail.kind,
      ...(before ? { fromState: before.state } : {}),
      toState: after.state,
      ...(leaseToken === null ? {} : { leaseToken }),
      ...(receipt ? receiptAudit(receipt) : {}),
      ...(detail.observationNumber === undefined ? {} : { observationNumber: detail.observationNumber }),
      ...(failureReason === undefined ? {} : { failureReason }),
      actionDigest: after.actionDigest,
      ...(after.executionDigest === null ? {} : { executionDigest: after.executionDigest }),
      ...(after.effectId === null ? {} : { effectId: after.effectId }),
    },
  });
  const event: ActionEventRow = {
    actionId: after.actionId,
    eventNumber: after.eventCount,
    kind: detail.kind,
    fromState: before?.state ?? null,
    toState: after.state,
    actorSpiffeId: detail.actorSpiffeId ?? null,
    leaseToken,
    receiptClass: receipt?.receiptClass ?? null,
    receiptKey: receipt?.receiptKey ?? null,
    observationNumber: detail.observationNumber ?? null,
    failureReason: failureReason ?? null,
    requestDigest: requestDigest ?? null,
    occurredAt: draft.now,
    auditSeq: seq,
  };
  draft.put('action_events', event);
  const row: ActionRow = {
    ...after,
    stateIncarnation: before?.state === after.state ? before.stateIncarnation : draft.facts.incarnation,
    updatedAt: draft.now,
    lastSeq: seq,
    ...(before ? {} : { proposedSeq: seq }),
  };
  draft.put('actions', row);
  return row;
}

function receiptAudit(receipt: ActionReceiptRow) {
  return {
    receiptClass: receipt.receiptClass,
    receiptKey: receipt.receiptKey,
    evidenceDigest: receipt.evidenceDigest,
    ...(receipt.boundedGrantId === null ? {} : { boundedGrantId: receipt.boundedGrantId }),
    ...(receipt.signature === null ? {} : { signatureDigest: sha256(receipt.signature) }),
  };
}

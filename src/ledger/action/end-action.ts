import { sha256 } from '../encoding.js';
import type { Digest } from '../types.js';
import type { Draft } from '../working-set.js';
import { type EventDetail, NO_LEASE, takeEvent } from './action-event.js';
import type { ActionRow, DeadLetterRow } from './records.js';
import { actionSnapshot } from './snapshot.js';
import type { FailureReason } from './states.js';

/** How an action fails. */
export interface Failure {
  readonly reason: FailureReason;
  readonly detail: string;
  readonly resultDigest: Digest | null;
  readonly retryable: boolean;
}

/** The reasons for which nobody knows what the dispatch did. */
export type AmbiguousReason = Exclude<FailureReason, 'worker' | 'rejected' | 'proposal_expired'>;

/** An action that failed, and what is left of it. */
export interface FailedAction {
  readonly action: ActionRow;
  readonly deadLetter: DeadLetterRow;
}

/**
 * Failure is terminal and evident (actions.md, I10): FAILED, the lease cleared and the dead letter, in one transaction.
 * `retryable` is recorded and never honoured.
 */
export function failAction(
  draft: Draft,
  action: ActionRow,
  failure: Failure,
  detail: Omit<EventDetail, 'failureReason' | 'leaseToken'>,
): FailedAction {
  const { reason, resultDigest, retryable } = failure;
  const change = {
    ...NO_LEASE,
    state: 'FAILED',
    failureReason: reason,
    resultDigest,
    retryable,
    endedAt: draft.now,
  } as const;
  const failed = takeEvent(draft, action, change, {
    ...detail,
    leaseToken: action.leaseToken,
    failureReason: reason,
  });
  const snapshot = actionSnapshot(action);
  const deadLetter: DeadLetterRow = {
    actionId: action.actionId,
    failureReason: reason,
    detail: failure.detail,
    retryable,
    fromState: action.state,
    failedAt: draft.now,
    snapshot,
    snapshotDigest: sha256(snapshot),
    auditSeq: failed.lastSeq,
  };
  draft.put('dead_letters', deadLetter);
  return { action: failed, deadLetter };
}

/**
 * Ends an action whose outcome nobody can tell (actions.md, I7 and Contract and journal): its result says `ambiguous`, the
 * state of the effect `unknown`, and the digest, the observations and the reason.
 */
export function endAmbiguous(
  draft: Draft,
  action: ActionRow,
  reason: AmbiguousReason,
  detail: Pick<EventDetail, 'commandId' | 'actorSpiffeId' | 'requestDigest'>,
): ActionRow {
  const result = ambiguousResult(action, reason);
  const failure = { reason, detail: result, resultDigest: sha256(result), retryable: false };
  return failAction(draft, action, failure, { ...detail, kind: 'failed' }).action;
}

/** The result of an ambiguous end, as JSON with its members in order. */
export function ambiguousResult(action: ActionRow, reason: AmbiguousReason): string {
  return JSON.stringify({
    result: 'ambiguous',
    effect_state: 'unknown',
    execution_digest: action.executionDigest?.toString('hex') ?? null,
    attempts: action.attemptCount,
    observations: action.observationCount,
    reason,
  });
}

import { notVisible } from '../../audit/current-reader.js';
import { mergeReads, type Reads } from '../../reads.js';
import { refusal } from '../../refusal.js';
import { Refused } from '../../run-decision.js';
import type { Digest } from '../../types.js';
import type { Draft } from '../../working-set.js';
import { type CurrentCaller, currentWorker, partyReads } from '../action-callers.js';
import type { HolderCommand } from '../commands.js';
import { repeatReads, wasDone } from '../exact-repeat.js';
import type { ActionRow } from '../records.js';
import { type ActionState, isEnded } from '../states.js';
import { readAction } from '../verified-action.js';

/** The rows that any call of a leaseholder is judged by. */
export function holderReads(command: HolderCommand, request?: Digest): Reads {
  const repeat = request ? [repeatReads(command.actionId, request)] : [];
  return mergeReads([partyReads(command, command.actionId), ...repeat]);
}

/** A leaseholder's call before its lease has been looked at. */
export interface HeldAction {
  readonly action: ActionRow;
  readonly worker: Extract<CurrentCaller, { as: 'worker' }>;
  /** Whether an earlier call that said exactly the same was done. */
  readonly repeated: boolean;
}

/**
 * The worker, current, and the action, if it is a party of it. Needs {@link holderReads}.
 *
 * @throws {Refused} the reasons of `currentRegistrations`; NOT_VISIBLE; DATA_CORRUPT
 */
export function heldAction(draft: Draft, command: HolderCommand, request?: Digest): HeldAction {
  const worker = currentWorker(draft, command);
  const { spiffeId } = command.caller;
  const known = draft.find('leasesOfHolder', command.actionId, spiffeId).length > 0;
  const action = known ? readAction(draft, command.actionId) : undefined;
  if (!action) throw new Refused(notVisible());
  return { action, worker, repeated: request !== undefined && wasDone(draft, action.actionId, request) };
}

/**
 * Single-writer leases (actions.md, I3): the caller's own lease, with the token that the call repeats, unexpired by the
 * store's clock; and the state is one that the call is for.
 *
 * @throws {Refused} ACTION_STATE_CONFLICT, LEASE_LOST
 */
export function requireLease(
  draft: Draft,
  action: ActionRow,
  command: HolderCommand,
  states: readonly ActionState[],
): void {
  // What has ended has no lease: that it ended says more.
  if (isEnded(action.state)) throw stateConflict(action);
  const rule = leaseFault(draft, action, command);
  if (rule !== undefined) {
    const message = 'The caller does not hold the lease of the action, or not any more.';
    throw new Refused(refusal('LEASE_LOST', message, { metadata: { rule } }));
  }
  if (!states.includes(action.state)) throw stateConflict(action);
}

function leaseFault(draft: Draft, action: ActionRow, command: HolderCommand): string | undefined {
  if (action.leaseToken === null) return 'absent';
  if (action.leaseToken !== command.leaseToken) return 'token';
  if (action.leaseHolder !== command.caller.spiffeId) return 'holder';
  return action.leaseExpiresAt === null || action.leaseExpiresAt <= draft.now ? 'expired' : undefined;
}

/** The refusal of a call that is for another state. */
export function stateConflict(action: ActionRow): Refused {
  return new Refused(
    refusal('ACTION_STATE_CONFLICT', `The action is ${action.state}.`, {
      metadata: { state: action.state },
      resource: { type: 'action', name: action.actionId },
    }),
  );
}

/** @throws {Refused} EXPECTATION_MISMATCH, naming the field */
export function requireExpected(equal: boolean, field: string): void {
  if (equal) return;
  throw new Refused(
    refusal('EXPECTATION_MISMATCH', 'What the caller believes is not what is stored.', {
      metadata: { field },
    }),
  );
}

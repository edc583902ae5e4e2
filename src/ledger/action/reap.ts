import { ANY_ACTION } from '../reads.js';
import type { Draft } from '../working-set.js';
import { NO_LEASE, takeEvent } from './action-event.js';
import { endAmbiguous } from './end-action.js';
import { REAPED_PER_LEASE } from './limits.js';
import type { ActionRow } from './records.js';
import { ambiguity } from './recovery.js';
import { isUnchanged } from './verified-action.js';

/** Who reaps. */
export interface Reaper {
  readonly commandId: string;
  /** Undefined: the service itself. */
  readonly actorSpiffeId?: string | undefined;
}

/** What became of an action that was looked at. */
export type Reaped = 'released' | 'ended' | 'nothing';

/** Whether a lease ran out, by the store's clock. */
export function isLeaseExpired(action: ActionRow, now: bigint): boolean {
  return action.leaseExpiresAt !== null && action.leaseExpiresAt <= now;
}

/**
 * Takes back a lease that ran out (actions.md, ReapLeases): GATED, ACCEPTED and VERIFIED are released; DISPATCHED only with a
 * valid contract and something left to observe, else it ends as ambiguous, also when no lease is on it.
 *
 * Needs the reads `receiptsOf` of the classes `recovery` and `observation`, where the action is DISPATCHED.
 */
export function reap(draft: Draft, action: ActionRow, reaper: Reaper): Reaped {
  const expired = isLeaseExpired(action, draft.now);
  if (!expired && !(action.state === 'DISPATCHED' && action.leaseToken === null)) return 'nothing';
  if (action.state === 'DISPATCHED') {
    const reason = ambiguity(draft, action);
    if (reason !== undefined) {
      endAmbiguous(draft, action, reason, reaper);
      return 'ended';
    }
  }
  if (!expired) return 'nothing';
  takeEvent(draft, action, NO_LEASE, { ...reaper, kind: 'reaped', leaseToken: action.leaseToken });
  return 'released';
}

/**
 * Takes back the leases that ran out and were read with the batch, 20 at most, so that a worker that comes for the next action
 * finds what others have lost. Needs the read `expiredLeases`.
 *
 * @returns how many were ended as ambiguous
 */
export function reapExpired(draft: Draft, reaper: Pick<Reaper, 'commandId'>): number {
  const expired = draft
    .find('leasedActions', ANY_ACTION)
    .filter((action) => isLeaseExpired(action, draft.now) && isReapable(draft, action))
    .sort(byExpiry)
    .slice(0, REAPED_PER_LEASE);
  return expired.filter((action) => reap(draft, action, reaper) === 'ended').length;
}

/**
 * What came into the batch by another command's reads may lack its contract, and what was changed behind the service's back is
 * left to a call that names it: one bad row must not stop the others.
 */
function isReapable(draft: Draft, action: ActionRow): boolean {
  const { actionId, state } = action;
  if (!isUnchanged(draft.domainId, action)) return false;
  return (
    state !== 'DISPATCHED' ||
    (draft.isGathered('receiptsOf', actionId, 'recovery') &&
      draft.isGathered('receiptsOf', actionId, 'observation'))
  );
}

function byExpiry(a: ActionRow, b: ActionRow): number {
  const [left, right] = [a.leaseExpiresAt ?? 0n, b.leaseExpiresAt ?? 0n];
  if (left !== right) return left < right ? -1 : 1;
  return a.actionId < b.actionId ? -1 : 1;
}

import { canonicalDigest, type Part } from '../encoding.js';
import type { Reads } from '../reads.js';
import type { Digest } from '../types.js';
import type { Draft } from '../working-set.js';

/**
 * What an exact repeat of a call is known by (actions.md, Repeating a call whose answer was lost): the method, who calls, and
 * all that it says.
 */
export function requestDigest(method: string, spiffeId: string, parts: readonly Part[]): Digest {
  return canonicalDigest('surety-action-request-v1', [method, spiffeId, ...parts]);
}

/** The read that {@link wasDone} needs. */
export function repeatReads(actionId: string, digest: Digest): Reads {
  return { requestEvents: [{ actionId, requestDigest: digest }] };
}

/** Whether an earlier call that said exactly the same was done. */
export function wasDone(draft: Draft, actionId: string, digest: Digest): boolean {
  return draft.find('eventOfRequest', actionId, digest).length > 0;
}

import { sameDigest, sha256 } from '../encoding.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Draft, WorkingSet } from '../working-set.js';
import { actionDigest } from './action-digest.js';
import type { ActionRow } from './records.js';

/** Whether an action's payload and identity still have the digests that they were stored with (actions.md, I1). */
export function isUnchanged(domainId: string, action: ActionRow): boolean {
  return (
    sameDigest(sha256(action.payload), action.payloadDigest) &&
    sameDigest(actionDigest(domainId, action), action.actionDigest)
  );
}

/** @throws {Refused} DATA_CORRUPT, naming the action, where it is not what was proposed */
export function requireUnchanged(domainId: string, action: ActionRow): ActionRow {
  if (isUnchanged(domainId, action)) return action;
  throw new Refused(
    refusal('DATA_CORRUPT', 'The stored action contradicts its digest.', {
      metadata: { record: `action/${action.actionId}` },
    }),
  );
}

/** The action, verified; undefined where there is none. Needs the read `actions` or `gateContext`. */
export function readAction(rows: Draft | WorkingSet, actionId: string): ActionRow | undefined {
  const action = rows.get('actions', actionId);
  return action && requireUnchanged(rows.domainId, action);
}

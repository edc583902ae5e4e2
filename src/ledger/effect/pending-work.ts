import { changePending } from '../admission/admit-effect.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Draft } from '../working-set.js';

/**
 * Ends an effect's pending work, and the domain's counter of it. The entry is there exactly while the effect is not terminal.
 *
 * @throws Refused PENDING_WORK_CONFLICT where it is not pending
 */
export function releasePendingWork(draft: Draft, effectId: string): void {
  const entry = draft.get('pending_work', effectId);
  if (!entry) throw new Refused(refusal('PENDING_WORK_CONFLICT', "The effect's work is not pending."));
  draft.remove('pending_work', entry);
  changePending(draft, -1);
}

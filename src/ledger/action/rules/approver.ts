import type { OwnerRow } from '../../authority/records.js';
import { refusal } from '../../refusal.js';
import { Refused } from '../../run-decision.js';
import { ownerNotCurrent, uncoveredScope } from '../action-callers.js';
import type { ActionRow } from '../records.js';

/**
 * Whether an owner's word is good for an action now: active, with the key that signed still registered, and in scope
 * (actions.md, Owner's signature: "Owner and key must be active at gating and at dispatch").
 *
 * @throws {Refused} OWNER_NOT_CURRENT, OWNER_SCOPE_MISSING
 */
export function requireApprover(
  owner: OwnerRow | undefined,
  signingKeyThumbprint: string,
  action: ActionRow,
): OwnerRow {
  if (owner?.status !== 'active') throw ownerNotCurrent('owner');
  if (owner.signingKeyThumbprint !== signingKeyThumbprint) throw ownerNotCurrent('key');
  const field = uncoveredScope(owner, action.source, action.type);
  if (field === undefined) return owner;
  throw new Refused(
    refusal('OWNER_SCOPE_MISSING', "The owner's scopes do not cover it.", { metadata: { field } }),
  );
}

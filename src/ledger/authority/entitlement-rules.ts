import { type Refusal, refusal } from '../refusal.js';
import type { Draft } from '../working-set.js';
import { WILDCARD } from './grant-rules.js';
import type { EntitlementRow } from './records.js';

/** Whether an entitlement is in force: not revoked, not expired, and of the domain's current policy revision. */
export function isEntitlementCurrent(draft: Draft, entitlement: EntitlementRow): boolean {
  return (
    entitlement.revokedAt === null &&
    entitlement.expiresAt > draft.now &&
    entitlement.policyRevision === draft.domain.policyRevision
  );
}

/**
 * The entitlement of a principal for exactly this action and resource, else for the action and `*` (authority.md,
 * Deciding). Needs the reads `entitlements` or `entitlementsOfCaller`.
 */
export function currentEntitlement(
  draft: Draft,
  principalId: string,
  action: string,
  resource: string,
): { readonly entitlement: EntitlementRow } | { readonly refused: Refusal } {
  const found = [
    ...draft.find('entitlementsOf', principalId, action, resource),
    ...(resource === WILDCARD ? [] : draft.find('entitlementsOf', principalId, action, WILDCARD)),
  ];
  const entitlement = found.find((row) => isEntitlementCurrent(draft, row));
  if (entitlement) return { entitlement };
  const refused =
    found.length === 0
      ? refusal('ENTITLEMENT_MISSING', 'The principal has no entitlement for the action and resource.')
      : refusal('ENTITLEMENT_STALE', 'The entitlement is of another policy revision, expired or revoked.');
  return { refused };
}

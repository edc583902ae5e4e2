import {
  ADMIN_ONLY,
  type MutationRule,
  nextRevision,
  requireRecord,
  requireRevision,
} from '../mutation-rule.js';

export interface RevokeEntitlement {
  readonly kind: 'revoke_entitlement';
  readonly entitlementId: string;
}

/** Takes an entitlement out of force at once. */
export const revokeEntitlement: MutationRule<RevokeEntitlement> = {
  roles: ADMIN_ONLY,
  reads: ({ entitlementId }) => ({ entitlementsById: [entitlementId] }),
  apply: (draft, { entitlementId }, context) => {
    const before = requireRecord(draft.get('entitlements', entitlementId), 'entitlement');
    requireRevision(context, before);
    const row =
      before.revokedAt === null
        ? { ...before, revokedAt: draft.now, revision: nextRevision(before) }
        : before;
    if (row !== before) draft.put('entitlements', row);
    return { type: 'entitlement', id: entitlementId, revision: row.revision };
  },
};

import {
  ADMIN_ONLY,
  type MutationRule,
  nextRevision,
  requireRecord,
  requireRevision,
} from '../mutation-rule.js';

export interface RevokeGrant {
  readonly kind: 'revoke_grant';
  readonly grantId: string;
}

/** Ends a grant for ever; what was started under it can still be settled (effects.md, Transitions 10). */
export const revokeGrant: MutationRule<RevokeGrant> = {
  roles: ADMIN_ONLY,
  reads: ({ grantId }) => ({ grants: [grantId] }),
  apply: (draft, { grantId }, context) => {
    const before = requireRecord(draft.get('grants', grantId), 'grant');
    requireRevision(context, before);
    const row =
      before.revokedAt === null
        ? { ...before, revokedAt: draft.now, revision: nextRevision(before) }
        : before;
    if (row !== before) draft.put('grants', row);
    return { type: 'grant', id: grantId, revision: row.revision };
  },
};

import {
  ADMIN_ONLY,
  type MutationRule,
  nextRevision,
  requireRecord,
  requireRevision,
} from '../mutation-rule.js';

export interface RevokeCredential {
  readonly kind: 'revoke_credential';
  readonly credentialId: string;
}

/** Ends a credential for ever. */
export const revokeCredential: MutationRule<RevokeCredential> = {
  roles: ADMIN_ONLY,
  reads: ({ credentialId }) => ({ credentials: [credentialId] }),
  apply: (draft, { credentialId }, context) => {
    const before = requireRecord(draft.get('credentials', credentialId), 'credential');
    requireRevision(context, before);
    if (before.status === 'revoked')
      return { type: 'credential', id: credentialId, revision: before.revision };
    const row = { ...before, status: 'revoked' as const, revision: nextRevision(before) };
    draft.put('credentials', row);
    return { type: 'credential', id: credentialId, revision: row.revision };
  },
};

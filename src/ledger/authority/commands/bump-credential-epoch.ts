import {
  ADMIN_ONLY,
  type MutationRule,
  nextRevision,
  requireRecord,
  requireRevision,
} from '../mutation-rule.js';

export interface BumpCredentialEpoch {
  readonly kind: 'bump_credential_epoch';
  readonly harnessId: string;
}

/** Makes a harness's credentials and grants of the present epoch stale. */
export const bumpCredentialEpoch: MutationRule<BumpCredentialEpoch> = {
  roles: ADMIN_ONLY,
  reads: ({ harnessId }) => ({ harnesses: [harnessId] }),
  apply: (draft, { harnessId }, context) => {
    const before = requireRecord(draft.get('harnesses', harnessId), 'harness');
    requireRevision(context, before);
    const row = { ...before, credentialEpoch: before.credentialEpoch + 1n, revision: nextRevision(before) };
    draft.put('harnesses', row);
    return { type: 'harness', id: harnessId, revision: row.revision };
  },
};

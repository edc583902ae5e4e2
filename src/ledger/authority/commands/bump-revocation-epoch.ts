import { ADMIN_ONLY, type MutationRule, requireRevision } from '../mutation-rule.js';
import { changeDomain } from './change-domain.js';

export interface BumpRevocationEpoch {
  readonly kind: 'bump_revocation_epoch';
}

/** Makes every workload registration of the domain stale at once (identity.md, Workload registration: revoke). */
export const bumpRevocationEpoch: MutationRule<BumpRevocationEpoch> = {
  roles: ADMIN_ONLY,
  reads: () => ({}),
  apply: (draft, _mutation, context) => {
    requireRevision(context, draft.domain);
    return changeDomain(draft, { revocationEpoch: draft.domain.revocationEpoch + 1n });
  },
};

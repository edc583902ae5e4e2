import { ADMIN_ONLY, type MutationRule, requireRevision } from '../mutation-rule.js';
import { changeDomain } from './change-domain.js';

export interface BumpPolicyRevision {
  readonly kind: 'bump_policy_revision';
}

/** Makes entitlements, grants and events of the present policy revision stale (authority.md, Records: domain). */
export const bumpPolicyRevision: MutationRule<BumpPolicyRevision> = {
  roles: ADMIN_ONLY,
  reads: () => ({}),
  apply: (draft, _mutation, context) => {
    requireRevision(context, draft.domain);
    return changeDomain(draft, { policyRevision: draft.domain.policyRevision + 1n });
  },
};

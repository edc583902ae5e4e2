import type { RecordStatus } from '../../types.js';
import { ADMIN_ONLY, type MutationRule, requireRevision } from '../mutation-rule.js';
import { changeDomain } from './change-domain.js';

/** The domain's status and settings. */
export interface UpdateDomain {
  readonly kind: 'update_domain';
  readonly status: Exclude<RecordStatus, 'revoked'>;
  readonly allowStanding: boolean;
}

/** Suspends or resumes a domain, and allows or forbids standing registrations. */
export const updateDomain: MutationRule<UpdateDomain> = {
  roles: ADMIN_ONLY,
  reads: () => ({}),
  apply: (draft, { status, allowStanding }, context) => {
    requireRevision(context, draft.domain);
    return changeDomain(draft, { status, allowStanding });
  },
};

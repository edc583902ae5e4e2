import { MAX_LIMIT, MIN_REQUESTS_PER_MINUTE } from '../../admission/limits.js';
import { Refused } from '../../run-decision.js';
import type { Draft } from '../../working-set.js';
import { roleMissing } from '../current-operator.js';
import { ADMIN_ONLY, commandFieldInvalid, type MutationRule, requireRevision } from '../mutation-rule.js';
import { changeDomain } from './change-domain.js';

/** The domain's share of the service's limit. */
export interface SetShare {
  readonly kind: 'set_share';
  readonly requestsPerMinute: number;
}

/** Changes a domain's share, by an operator of all domains: a domain could otherwise give itself what is others'. */
export const setShare: MutationRule<SetShare> = {
  roles: ADMIN_ONLY,
  reads: () => ({ shares: ['all'] }),
  apply: (draft, { requestsPerMinute }, context) => {
    if (!context.operator.everywhere) throw new Refused(roleMissing());
    requireRevision(context, draft.domain);
    requireShare(draft, requestsPerMinute, 'set_share.requests_per_minute', draft.shares.others);
    return changeDomain(draft, { limits: { ...draft.domain.limits, requestsPerMinute } });
  },
};

/**
 * A share is a quota, and with `others`, the shares of the other domains, within the service's limit (authority.md,
 * Admission: the sum is checked when configured). Needs the read `shares`.
 *
 * @param field path within the command
 * @throws {Refused} FIELD_INVALID
 */
export function requireShare(draft: Draft, share: number, field: string, others: number): void {
  if (share < MIN_REQUESTS_PER_MINUTE || share > MAX_LIMIT) {
    throw commandFieldInvalid(field, `must be ${MIN_REQUESTS_PER_MINUTE} to ${MAX_LIMIT}`);
  }
  const left = draft.shares.service - others;
  if (share <= left) return;
  throw commandFieldInvalid(
    field,
    `must leave the sum of all shares within the service's limit; ${Math.max(left, 0)} are left`,
  );
}

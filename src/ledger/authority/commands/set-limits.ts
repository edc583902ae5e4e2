import { MAX_HOPS_LIMIT, MAX_LIMIT, MIN_REQUESTS_PER_MINUTE } from '../../admission/limits.js';
import type { DomainLimits } from '../../admission/records.js';
import type { FieldViolation } from '../../refusal.js';
import { ADMIN_ONLY, commandFieldsInvalid, type MutationRule, requireRevision } from '../mutation-rule.js';
import { changeDomain } from './change-domain.js';

/** What the domain lets through; a field that is 0 stays as it is. The share is another command's. */
export interface SetLimits extends Omit<DomainLimits, 'requestsPerMinute'> {
  readonly kind: 'set_limits';
}

type LimitName = keyof Omit<SetLimits, 'kind'>;

const BOUNDS: { readonly [Name in LimitName]: readonly [field: string, least: number, most: number] } = {
  actorRequestsPerMinute: ['actor_requests_per_minute', MIN_REQUESTS_PER_MINUTE, MAX_LIMIT],
  pendingCeiling: ['pending_ceiling', 1, MAX_LIMIT],
  fairnessBurst: ['fairness_burst', 1, MAX_LIMIT],
  maxHops: ['max_hops', 1, MAX_HOPS_LIMIT],
};

/** Changes the domain's limits; the batch behind this one goes by them, on every replica (authority.md, Admission). */
export const setLimits: MutationRule<SetLimits> = {
  roles: ADMIN_ONLY,
  reads: () => ({}),
  apply: (draft, mutation, context) => {
    requireRevision(context, draft.domain);
    const limits = { ...draft.domain.limits };
    const violations: FieldViolation[] = [];
    for (const name of Object.keys(BOUNDS) as LimitName[]) {
      const value = mutation[name];
      if (value === 0) continue;
      const [field, least, most] = BOUNDS[name];
      if (value < least || value > most) {
        violations.push({
          field: `set_limits.${field}`,
          rule: `must be ${least} to ${most}, or 0 to leave it`,
        });
      }
      limits[name] = value;
    }
    if (violations.length > 0) throw commandFieldsInvalid(violations);
    return changeDomain(draft, { limits });
  },
};

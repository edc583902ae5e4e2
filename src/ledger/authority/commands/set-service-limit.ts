import { MAX_LIMIT, MIN_REQUESTS_PER_MINUTE } from '../../admission/limits.js';
import { Refused } from '../../run-decision.js';
import { roleMissing } from '../current-operator.js';
import { ADMIN_ONLY, commandFieldInvalid, type MutationRule, requireRevision } from '../mutation-rule.js';
import { changeDomain } from './change-domain.js';

/** What all domains together may ask for. */
export interface SetServiceLimit {
  readonly kind: 'set_service_limit';
  readonly requestsPerMinute: number;
}

const FIELD = 'set_service_limit.requests_per_minute';

/**
 * Changes the service's limit, in its own domain and by an operator of all; never below what is given out. It
 * is a revision of that domain.
 */
export const setServiceLimit: MutationRule<SetServiceLimit> = {
  roles: ADMIN_ONLY,
  reads: () => ({ shares: ['all'] }),
  apply: (draft, { requestsPerMinute }, context) => {
    if (draft.domainId !== draft.facts.serviceDomainId || !context.operator.everywhere) {
      throw new Refused(roleMissing());
    }
    const { others } = draft.shares;
    requireRevision(context, draft.domain);
    if (requestsPerMinute < MIN_REQUESTS_PER_MINUTE || requestsPerMinute > MAX_LIMIT) {
      throw commandFieldInvalid(FIELD, `must be ${MIN_REQUESTS_PER_MINUTE} to ${MAX_LIMIT}`);
    }
    const given = others + draft.domain.limits.requestsPerMinute;
    if (requestsPerMinute < given) {
      throw commandFieldInvalid(FIELD, `must not be below the sum of the shares, ${given}`);
    }
    draft.setServiceLimit(requestsPerMinute);
    return changeDomain(draft, {});
  },
};

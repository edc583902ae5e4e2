import { initialLimits } from '../../admission/limits.js';
import { Refused } from '../../run-decision.js';
import { roleMissing } from '../current-operator.js';
import { ADMIN_ONLY, type MutationRule, recordExists, requireRevision } from '../mutation-rule.js';
import type { DomainRow } from '../records.js';
import { requireShare } from './set-share.js';

/** A new domain; in the service's own domain, by an operator of all domains. */
export interface CreateDomain {
  readonly kind: 'create_domain';
  /** A SPIFFE trust domain. */
  readonly newDomainId: string;
  readonly allowStanding: boolean;
  /** Its share of the service's limit. */
  readonly requestsPerMinute: number;
}

/** Makes a domain (authority.md, Bootstrap): its first operators are put by the commands that follow. */
export const createDomain: MutationRule<CreateDomain> = {
  roles: ADMIN_ONLY,
  reads: ({ newDomainId }) => ({ otherDomains: [newDomainId], shares: ['all'] }),
  apply: (draft, { newDomainId, allowStanding, requestsPerMinute }, context) => {
    if (draft.domainId !== draft.facts.serviceDomainId || !context.operator.everywhere) {
      throw new Refused(roleMissing());
    }
    if (draft.domainExists(newDomainId)) throw new Refused(recordExists('domain', newDomainId));
    requireRevision(context, undefined);
    const given = draft.shares.others + draft.domain.limits.requestsPerMinute;
    requireShare(draft, requestsPerMinute, 'create_domain.requests_per_minute', given);
    const row: DomainRow = {
      status: 'active',
      policyRevision: 1n,
      revocationEpoch: 1n,
      frozen: false,
      freezeReason: null,
      allowStanding,
      limits: initialLimits(requestsPerMinute),
      revision: 1n,
      createdAt: draft.now,
    };
    draft.createDomain(newDomainId, row);
    const changed = { type: 'domain', id: newDomainId, revision: row.revision };
    draft.append({
      kind: 'domain_created',
      actorSpiffeId: context.caller.spiffeId,
      commandId: context.commandId,
      record: { ...changed, operation: 'create_domain', digest: context.payloadDigest },
    });
    return changed;
  },
};

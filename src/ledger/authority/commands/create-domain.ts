import { Refused } from '../../run-decision.js';
import { roleMissing } from '../current-operator.js';
import { ADMIN_ONLY, type MutationRule, recordExists, requireRevision } from '../mutation-rule.js';
import type { DomainRow } from '../records.js';

/** A new domain; in the service's own domain, by an operator of all domains. */
export interface CreateDomain {
  readonly kind: 'create_domain';
  /** A SPIFFE trust domain. */
  readonly newDomainId: string;
  readonly allowStanding: boolean;
}

/** Makes a domain (authority.md, Bootstrap): its first operators are put by the commands that follow. */
export const createDomain: MutationRule<CreateDomain> = {
  roles: ADMIN_ONLY,
  reads: ({ newDomainId }) => ({ otherDomains: [newDomainId] }),
  apply: (draft, { newDomainId, allowStanding }, context) => {
    if (draft.domainId !== draft.facts.serviceDomainId || !context.operator.everywhere) {
      throw new Refused(roleMissing());
    }
    if (draft.domainExists(newDomainId)) throw new Refused(recordExists('domain', newDomainId));
    requireRevision(context, undefined);
    const row: DomainRow = {
      status: 'active',
      policyRevision: 1n,
      revocationEpoch: 1n,
      frozen: false,
      freezeReason: null,
      allowStanding,
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

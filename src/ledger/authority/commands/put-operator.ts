import { Refused } from '../../run-decision.js';
import type { OperatorRole, RecordStatus } from '../../types.js';
import { roleMissing } from '../current-operator.js';
import {
  ADMIN_ONLY,
  commandFieldInvalid,
  type MutationRule,
  nextRevision,
  putCaller,
  requireRevision,
  requireStatusChange,
} from '../mutation-rule.js';
import type { OperatorRow } from '../records.js';

/** Somebody who administers or audits. */
export interface PutOperator {
  readonly kind: 'put_operator';
  readonly spiffeId: string;
  /** Null only for one who only audits. */
  readonly signingKeyJwk: string | null;
  readonly signingKeyThumbprint: string | null;
  readonly roles: readonly OperatorRole[];
  /** Null in a domain's own row; in the service's own domain null covers every domain. */
  readonly scopeDomainId: string | null;
  readonly status: RecordStatus;
}

/**
 * Creates an operator, or changes its key, roles, scope and status; a revocation is final. In the service's own domain it
 * takes an operator of all domains: one whose scope is a single domain could otherwise give himself the others.
 */
export const putOperator: MutationRule<PutOperator> = {
  roles: ADMIN_ONLY,
  reads: ({ spiffeId }) => ({ operators: [spiffeId], callers: [spiffeId] }),
  apply: (draft, { kind: _, ...fields }, context) => {
    if (draft.domainId === draft.facts.serviceDomainId) {
      if (!context.operator.everywhere) throw new Refused(roleMissing());
    } else if (fields.scopeDomainId !== null && fields.scopeDomainId !== draft.domainId) {
      throw commandFieldInvalid('put_operator.operator.scope_domain_id', 'must be this domain, or empty');
    }
    const before = draft.get('operators', fields.spiffeId);
    requireRevision(context, before);
    requireStatusChange(before, fields.status, 'operator');
    const audits = fields.roles.every((role) => role === 'AUDITOR');
    putCaller(draft, fields.spiffeId, audits ? 'auditor' : 'operator', fields.spiffeId);
    const row: OperatorRow = { ...fields, revision: nextRevision(before) };
    draft.put('operators', row);
    return { type: 'operator', id: row.spiffeId, revision: row.revision };
  },
};

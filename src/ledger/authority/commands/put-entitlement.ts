import { Refused } from '../../run-decision.js';
import type { Micros } from '../../types.js';
import type { Draft } from '../../working-set.js';
import {
  ADMIN_ONLY,
  type MutationRule,
  nextRevision,
  recordExists,
  recordMissing,
  requireAhead,
  requireRecord,
  requireRevision,
} from '../mutation-rule.js';
import type { EntitlementRow } from '../records.js';

/** Positive authority of a principal for one action on one resource, or on any. */
export interface PutEntitlement {
  readonly kind: 'put_entitlement';
  readonly entitlementId: string;
  readonly principalId: string;
  readonly action: string;
  /** One exact name, or `*`. */
  readonly resource: string;
  readonly expiresAt: Micros;
}

/**
 * Creates an entitlement, or brings it to the present policy revision and a new expiry; a revoked one is in force again.
 * There is one row per principal, action and resource, and these never change.
 */
export const putEntitlement: MutationRule<PutEntitlement> = {
  roles: ADMIN_ONLY,
  reads: ({ entitlementId, principalId, action, resource }) => ({
    entitlementsById: [entitlementId],
    entitlements: [{ principalId, action, resource }],
    principals: [principalId],
  }),
  apply: (draft, { kind: _, ...fields }, context) => {
    const before = draft.get('entitlements', fields.entitlementId);
    requireRevision(context, before);
    if (isTaken(draft, before, fields)) {
      throw new Refused(recordExists('entitlement', fields.entitlementId));
    }
    requireAhead(draft, fields.expiresAt, 'put_entitlement.entitlement.expire_time');
    const principal = requireRecord(draft.get('principals', fields.principalId), 'principal');
    if (principal.status === 'revoked') throw new Refused(recordMissing('principal'));
    const row: EntitlementRow = {
      ...fields,
      policyRevision: draft.domain.policyRevision,
      revokedAt: null,
      revision: nextRevision(before),
    };
    draft.put('entitlements', row);
    return { type: 'entitlement', id: row.entitlementId, revision: row.revision };
  },
};

/** Whether the id stands for something else, or something else stands for the same authority. */
function isTaken(
  draft: Draft,
  before: EntitlementRow | undefined,
  fields: Omit<PutEntitlement, 'kind'>,
): boolean {
  const { principalId, action, resource } = fields;
  if (before) {
    return before.principalId !== principalId || before.action !== action || before.resource !== resource;
  }
  return draft.find('entitlementsOf', principalId, action, resource).length > 0;
}

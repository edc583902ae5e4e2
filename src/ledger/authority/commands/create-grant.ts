import { Refused } from '../../run-decision.js';
import type { ActorKind, DataClass, Micros } from '../../types.js';
import {
  ADMIN_ONLY,
  type MutationRule,
  nextRevision,
  recordExists,
  recordMissing,
  requireActive,
  requireAhead,
  requireRevision,
} from '../mutation-rule.js';
import type { GrantRow } from '../records.js';

/** Authority for a task, use by use; each set has exact values only. */
export interface CreateGrant {
  readonly kind: 'create_grant';
  readonly grantId: string;
  readonly actorKind: ActorKind;
  /** The principal or guest. */
  readonly actorId: string;
  readonly harnessId: string;
  readonly actions: readonly string[];
  readonly resources: readonly string[];
  readonly inputSources: readonly string[];
  readonly outputSinks: readonly string[];
  readonly dataClasses: readonly DataClass[];
  readonly maxUses: bigint;
  readonly repeatable: boolean;
  readonly expiresAt: Micros;
}

/**
 * Makes a grant for a harness and the principal or guest that it acts for, bound to the present policy revision and
 * credential epoch. That it narrows an entitlement is decided at each use: entitlements change, grants never do.
 */
export const createGrant: MutationRule<CreateGrant> = {
  roles: ADMIN_ONLY,
  reads: ({ grantId, harnessId }) => ({ grants: [grantId], harnesses: [harnessId] }),
  apply: (draft, { kind: _, ...fields }, context) => {
    const before = draft.get('grants', fields.grantId);
    if (before) throw new Refused(recordExists('grant', fields.grantId));
    requireRevision(context, undefined);
    requireAhead(draft, fields.expiresAt, 'create_grant.grant.expire_time');
    const harness = requireActive(draft.get('harnesses', fields.harnessId), 'harness');
    if (harness.ownerKind !== fields.actorKind || harness.ownerId !== fields.actorId) {
      throw new Refused(recordMissing(fields.actorKind));
    }
    requireActive(
      fields.actorKind === 'principal'
        ? draft.get('principals', fields.actorId)
        : draft.get('guests', fields.actorId),
      fields.actorKind,
    );
    const row: GrantRow = {
      ...fields,
      uses: 0n,
      revokedAt: null,
      policyRevision: draft.domain.policyRevision,
      credentialEpoch: harness.credentialEpoch,
      revision: nextRevision(undefined),
    };
    draft.put('grants', row);
    return { type: 'grant', id: row.grantId, revision: row.revision };
  },
};

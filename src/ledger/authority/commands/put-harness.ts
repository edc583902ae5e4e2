import { Refused } from '../../run-decision.js';
import type { ActorKind, RecordStatus } from '../../types.js';
import {
  ADMIN_ONLY,
  type MutationRule,
  nextRevision,
  recordExists,
  requireActive,
  requireRevision,
  requireStatusChange,
} from '../mutation-rule.js';
import type { HarnessRow } from '../records.js';

/** An agent runtime that acts for its owner. */
export interface PutHarness {
  readonly kind: 'put_harness';
  readonly harnessId: string;
  readonly ownerKind: ActorKind;
  /** The principal or guest. */
  readonly ownerId: string;
  readonly assurance: string;
  readonly status: RecordStatus;
}

/** Creates a harness, or changes its assurance and status; owner and credential epoch stay. */
export const putHarness: MutationRule<PutHarness> = {
  roles: ADMIN_ONLY,
  reads: ({ harnessId, ownerKind, ownerId }) => ({
    harnesses: [harnessId],
    ...(ownerKind === 'principal' ? { principals: [ownerId] } : { guests: [ownerId] }),
  }),
  apply: (draft, { kind: _, ...fields }, context) => {
    const before = draft.get('harnesses', fields.harnessId);
    requireRevision(context, before);
    requireStatusChange(before, fields.status, 'harness');
    if (before && (before.ownerKind !== fields.ownerKind || before.ownerId !== fields.ownerId)) {
      throw new Refused(recordExists('harness', fields.harnessId));
    }
    if (!before) {
      const owner =
        fields.ownerKind === 'principal'
          ? draft.get('principals', fields.ownerId)
          : draft.get('guests', fields.ownerId);
      requireActive(owner, fields.ownerKind);
    }
    const row: HarnessRow = {
      ...fields,
      credentialEpoch: before?.credentialEpoch ?? 1n,
      revision: nextRevision(before),
    };
    draft.put('harnesses', row);
    return { type: 'harness', id: row.harnessId, revision: row.revision };
  },
};

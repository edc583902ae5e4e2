import type { RecordStatus } from '../../types.js';
import {
  ADMIN_ONLY,
  type MutationRule,
  nextRevision,
  putCaller,
  requireRevision,
  requireStatusChange,
} from '../mutation-rule.js';
import type { OwnerRow } from '../records.js';

/** Somebody who approves. */
export interface PutOwner {
  readonly kind: 'put_owner';
  readonly spiffeId: string;
  readonly signingKeyJwk: string;
  readonly signingKeyThumbprint: string;
  /** What it may approve; `*` alone means any. */
  readonly sourceScopes: readonly string[];
  readonly typeScopes: readonly string[];
  readonly status: RecordStatus;
}

/** Creates an owner, or changes its key, scopes and status; a revocation is final. */
export const putOwner: MutationRule<PutOwner> = {
  roles: ADMIN_ONLY,
  reads: ({ spiffeId }) => ({ owners: [spiffeId], callers: [spiffeId] }),
  apply: (draft, { kind: _, ...fields }, context) => {
    const before = draft.get('owners', fields.spiffeId);
    requireRevision(context, before);
    requireStatusChange(before, fields.status, 'owner');
    putCaller(draft, fields.spiffeId, 'owner', fields.spiffeId);
    const row: OwnerRow = { ...fields, revision: nextRevision(before) };
    draft.put('owners', row);
    return { type: 'owner', id: row.spiffeId, revision: row.revision };
  },
};

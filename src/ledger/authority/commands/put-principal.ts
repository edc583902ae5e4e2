import type { RecordStatus } from '../../types.js';
import {
  ADMIN_ONLY,
  type MutationRule,
  nextRevision,
  requireRevision,
  requireStatusChange,
} from '../mutation-rule.js';

/** A person, or whoever else authority starts with. */
export interface PutPrincipal {
  readonly kind: 'put_principal';
  readonly principalId: string;
  readonly status: RecordStatus;
}

/** Creates a principal, or changes its status; a revocation is final. */
export const putPrincipal: MutationRule<PutPrincipal> = {
  roles: ADMIN_ONLY,
  reads: ({ principalId }) => ({ principals: [principalId] }),
  apply: (draft, { principalId, status }, context) => {
    const before = draft.get('principals', principalId);
    requireRevision(context, before);
    requireStatusChange(before, status, 'principal');
    const row = { principalId, status, revision: nextRevision(before) };
    draft.put('principals', row);
    return { type: 'principal', id: principalId, revision: row.revision };
  },
};

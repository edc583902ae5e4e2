import type { Micros, RecordStatus } from '../../types.js';
import {
  ADMIN_ONLY,
  type MutationRule,
  nextRevision,
  requireAhead,
  requireRevision,
  requireStatusChange,
} from '../mutation-rule.js';

/** Somebody without entitlements of its own, for a while. */
export interface PutGuest {
  readonly kind: 'put_guest';
  readonly guestId: string;
  readonly status: RecordStatus;
  readonly expiresAt: Micros;
}

/** Creates a guest, or changes its status and time; a revocation is final. */
export const putGuest: MutationRule<PutGuest> = {
  roles: ADMIN_ONLY,
  reads: ({ guestId }) => ({ guests: [guestId] }),
  apply: (draft, { guestId, status, expiresAt }, context) => {
    const before = draft.get('guests', guestId);
    requireRevision(context, before);
    requireStatusChange(before, status, 'guest');
    if (!before) requireAhead(draft, expiresAt, 'put_guest.guest.expire_time');
    const row = { guestId, status, expiresAt, revision: nextRevision(before) };
    draft.put('guests', row);
    return { type: 'guest', id: guestId, revision: row.revision };
  },
};

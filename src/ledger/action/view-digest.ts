import { canonicalDigest, type Part } from '../encoding.js';
import type { Digest } from '../types.js';
import type { ActionReceiptRow, ActionRow } from './records.js';

/**
 * What is not in a view: the lease and the time of the last change, which a validator's own call changes (actions.md, Gate
 * validator), and what only says where the log is.
 */
const OUTSIDE: ReadonlySet<string> = new Set([
  'leaseToken',
  'leaseHolder',
  'leaseRegistrationId',
  'leaseKeys',
  'leasedAt',
  'leaseExpiresAt',
  'updatedAt',
  'eventCount',
  'lastSeq',
]);

/**
 * Digest of an action and all of its receipts, as a validator of the caller's own has seen them: never of the clock.
 *
 * @param receipts in whatever order
 */
export function viewDigest(
  domainId: string,
  action: ActionRow,
  receipts: readonly ActionReceiptRow[],
): Digest {
  return canonicalDigest('surety-action-view-v1', [
    domainId,
    fieldsOf(action),
    receiptsInOrder(receipts).map(fieldsOf),
  ]);
}

/** Receipts by class and key: the order of a view. */
export function receiptsInOrder(receipts: readonly ActionReceiptRow[]): ActionReceiptRow[] {
  const place = (row: ActionReceiptRow): string => `${row.receiptClass}\0${row.receiptKey}`;
  return [...receipts].sort((a, b) => (place(a) < place(b) ? -1 : 1));
}

function fieldsOf(row: ActionRow | ActionReceiptRow): Part[] {
  return Object.entries(row)
    .filter(([field]) => !OUTSIDE.has(field))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([field, value]) => [field, (value ?? undefined) as Part]);
}

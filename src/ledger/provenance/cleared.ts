import type { ClearanceReceiptRow } from './records.js';

/** A review and a scan. */
export const CLEARANCES = 2;

/** Whether receipts that are stored are a review and a scan by two approvers under two keys. */
export function isCleared(receipts: readonly ClearanceReceiptRow[]): boolean {
  const [one, other] = receipts;
  return (
    receipts.length === CLEARANCES &&
    one?.purpose !== other?.purpose &&
    one?.approverSpiffeId !== other?.approverSpiffeId &&
    one?.signingKeyThumbprint !== other?.signingKeyThumbprint
  );
}

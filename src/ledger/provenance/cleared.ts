import { sameDigest, sha256 } from '../encoding.js';
import type { ClearanceReceiptRow } from './records.js';

/** A review and a scan. */
export const CLEARANCES = 2;

/**
 * Whether receipts that are stored are a review and a scan by two approvers under two keys, each beside the very statement
 * that its digest names.
 */
export function isCleared(receipts: readonly ClearanceReceiptRow[]): boolean {
  const [one, other] = receipts;
  return (
    receipts.length === CLEARANCES &&
    one?.purpose !== other?.purpose &&
    one?.approverSpiffeId !== other?.approverSpiffeId &&
    one?.signingKeyThumbprint !== other?.signingKeyThumbprint &&
    receipts.every(holdsStatement)
  );
}

/** The statement is the second segment of a compact JWS (RFC 7515, section 7.1). */
function holdsStatement({ jws, statementDigest }: ClearanceReceiptRow): boolean {
  const [, payload] = jws.toString('latin1').split('.');
  return payload !== undefined && sameDigest(sha256(Buffer.from(payload, 'base64url')), statementDigest);
}

import { SignedMessageError } from '../../identity/signed-message-error.js';
import { verifyClearance } from '../../identity/verify-signed-message.js';
import { canonicalDigest } from '../../ledger/encoding.js';
import type { Clearance } from '../../ledger/provenance/clearance.js';
import { corruptRecord } from '../../ledger/provenance/provenance-digest.js';
import type { ClearanceReceiptRow } from '../../ledger/provenance/records.js';
import { receiptMatches } from '../../ledger/provenance/stored-receipt.js';
import type { StoredRecord } from '../../ledger/provenance/stored-record.js';
import { Refused } from '../../ledger/run-decision.js';
import type { Draft } from '../../ledger/working-set.js';
import { Violations } from '../validate.js';
import { keptKey } from './clearance-keys.js';
import { clearanceOf } from './read-clearances.js';

type Place = Pick<Draft, 'facts' | 'domainId'>;

/** Receipts that are remembered as good: those of five thousand records, in some two megabytes. */
const MAX_REMEMBERED = 10_000;

/** Good receipts by the digest of all that was looked at. Such a name never comes to stand for something else. */
const good = new Set<string>();

/**
 * Verifies the receipts of a record once more, as they are stored: each signature under the key that is kept beside it, and
 * its statement against row and record. For whoever shows a record or says of it that it is clean; what was found good is
 * not verified again.
 *
 * @param place the domain that the record was read in, of the same snapshot
 * @throws {Refused} DATA_CORRUPT, naming the record
 */
export async function verifyReceipts(place: Place, stored: StoredRecord): Promise<void> {
  for (const row of stored.clearances) {
    const name = nameOf(place, row);
    if (good.has(name)) continue;
    if (!(await isGood(place, stored, row))) throw new Refused(corruptRecord(stored.record));
    if (good.size >= MAX_REMEMBERED) good.clear();
    good.add(name);
  }
}

async function isGood(place: Place, stored: StoredRecord, row: ClearanceReceiptRow): Promise<boolean> {
  const said = await readReceipt(row);
  return said !== undefined && receiptMatches(place, stored, row, said);
}

/** What a stored token says; undefined where it does not verify, or is no statement. */
async function readReceipt({ jws, signingKeyJwk }: ClearanceReceiptRow): Promise<Clearance | undefined> {
  const violations = new Violations();
  try {
    const verified = await verifyClearance(
      jws.toString('latin1'),
      async (thumbprint) => keptKey(signingKeyJwk, thumbprint)?.key,
    );
    const said = clearanceOf(verified, signingKeyJwk, violations);
    return violations.all.length === 0 ? said : undefined;
  } catch (error) {
    if (error instanceof SignedMessageError) return undefined;
    throw error;
  }
}

/** The record's digest stands for the record, its steps and its domain: it was computed again when it was read. */
function nameOf({ facts, domainId }: Place, row: ClearanceReceiptRow): string {
  const digest = canonicalDigest('surety-good-receipt-v1', [
    facts.audience,
    facts.incarnation,
    domainId,
    row.provenanceDigest,
    row.approverSpiffeId,
    row.receiptId,
    row.purpose,
    row.statementDigest,
    row.signingKeyJwk,
    row.signingKeyThumbprint,
    row.jws,
    row.issuedAt,
    row.expiresAt,
    row.usedAt,
  ]);
  return digest.toString('base64url');
}

import { sameDigest } from '../encoding.js';
import type { Draft } from '../working-set.js';
import { type Clearance, transactionDifference } from './clearance.js';
import { stepsDigest } from './provenance-digest.js';
import type { ClearanceReceiptRow } from './records.js';
import type { StoredRecord } from './stored-record.js';

/**
 * Whether the row of a receipt is what its signed statement says, and that is over exactly the record that it cleared
 * (provenance-audit-replay.md, Provenance: "over the exact clearance transaction").
 *
 * @param said the row's token, whose signature verified under the key that is kept beside it
 */
export function receiptMatches(
  draft: Pick<Draft, 'facts' | 'domainId'>,
  stored: StoredRecord,
  row: ClearanceReceiptRow,
  said: Clearance,
): boolean {
  const { record } = stored;
  return (
    row.approverSpiffeId === said.approverSpiffeId &&
    row.receiptId === said.receiptId &&
    row.purpose === said.purpose &&
    row.issuedAt === said.issuedAt &&
    row.expiresAt === said.expiresAt &&
    row.signingKeyThumbprint === said.keyThumbprint &&
    sameDigest(row.statementDigest, said.statementDigest) &&
    sameDigest(row.provenanceDigest, record.provenanceDigest) &&
    row.usedAt === record.recordedAt &&
    isOver(draft, stored, said)
  );
}

/** A store that was restored has a later incarnation than the receipts from before, never an earlier one. */
function isOver(
  { facts, domainId }: Pick<Draft, 'facts' | 'domainId'>,
  { record, steps }: StoredRecord,
  { transaction }: Clearance,
): boolean {
  if (transaction.incarnation > facts.incarnation) return false;
  const { audience } = facts;
  const { incarnation } = transaction;
  const cleared = { ...record, audience, incarnation, domainId, stepsDigest: stepsDigest(steps) };
  return transactionDifference(cleared, transaction) === undefined;
}

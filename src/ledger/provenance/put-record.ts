import type { Draft } from '../working-set.js';
import type { ClearanceReceiptRow, ProvenanceRow, ProvenanceStepRow } from './records.js';

/** Writes a new record with all that is its own, so that commands behind it in the batch can read it whole. */
export function putRecord(
  draft: Draft,
  record: ProvenanceRow,
  steps: readonly ProvenanceStepRow[] = [],
  clearances: readonly ClearanceReceiptRow[] = [],
): void {
  const { provenanceDigest } = record;
  draft.openIndex('parentsOfRecord', provenanceDigest);
  draft.openIndex('stepsOfRecord', provenanceDigest);
  draft.openIndex('clearancesOfRecord', provenanceDigest);
  draft.put('provenance_records', record);
  for (const parentDigest of record.parentDigests) {
    draft.put('provenance_parents', { provenanceDigest, parentDigest });
  }
  for (const step of steps) draft.put('provenance_steps', step);
  for (const receipt of clearances) draft.put('clearance_receipts', receipt);
}

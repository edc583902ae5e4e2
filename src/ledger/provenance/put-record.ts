import type { Draft } from '../working-set.js';
import type { ProvenanceRow, ProvenanceStepRow } from './records.js';

/** Writes a new record with its edges and its steps, so that commands behind it in the batch can read it whole. */
export function putRecord(
  draft: Draft,
  record: ProvenanceRow,
  steps: readonly ProvenanceStepRow[] = [],
): void {
  const { provenanceDigest } = record;
  draft.openIndex('parentsOfRecord', provenanceDigest);
  draft.openIndex('stepsOfRecord', provenanceDigest);
  draft.put('provenance_records', record);
  for (const parentDigest of record.parentDigests) {
    draft.put('provenance_parents', { provenanceDigest, parentDigest });
  }
  for (const step of steps) draft.put('provenance_steps', step);
}

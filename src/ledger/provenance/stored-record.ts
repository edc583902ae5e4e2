import { Refused } from '../run-decision.js';
import type { ProvenanceKey } from '../reads.js';
import type { Draft } from '../working-set.js';
import { isCleared } from './cleared.js';
import { sameEdges } from './derive-tool-output.js';
import { corruptRecord, verifyRecord } from './provenance-digest.js';
import type { ClearanceReceiptRow, ObjectType, ProvenanceRow, ProvenanceStepRow } from './records.js';

/** A record as it is stored, found to be what its digest says. */
export interface StoredRecord {
  readonly record: ProvenanceRow;
  /** By their ordinal; none for an origin. */
  readonly steps: readonly ProvenanceStepRow[];
  /** The review, then the scan; none of a tainted record. */
  readonly clearances: readonly ClearanceReceiptRow[];
}

/**
 * A record with its steps, hashed again (provenance-audit-replay.md: "Every read recomputes it"), and without taint only
 * with its review and its scan. Undefined where there is none. Needs the read `provenance` of the key.
 *
 * @throws Refused DATA_CORRUPT, naming the record
 */
export function storedRecord(draft: Draft, key: ProvenanceKey): StoredRecord | undefined {
  const record = draft.get('provenance_records', key.objectType, key.objectId, key.version);
  if (!record) return undefined;
  const steps = draft.find('stepsOfRecord', record.provenanceDigest).sort((a, b) => a.ordinal - b.ordinal);
  const edges = draft.find('parentsOfRecord', record.provenanceDigest).map((edge) => edge.parentDigest);
  const clearances = record.tainted
    ? []
    : draft.find('clearancesOfRecord', record.provenanceDigest).sort(byPurpose);
  if (
    !verifyRecord(draft.domainId, record, steps) ||
    !sameEdges(record, edges) ||
    !(record.tainted || isCleared(clearances))
  ) {
    throw new Refused(corruptRecord({ ...key, objectType: key.objectType as ObjectType }));
  }
  return { record, steps, clearances };
}

function byPurpose(a: ClearanceReceiptRow, b: ClearanceReceiptRow): number {
  return a.purpose < b.purpose ? -1 : 1;
}

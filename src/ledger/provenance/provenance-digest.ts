import { canonicalDigest, type Part, sameDigest } from '../encoding.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Digest } from '../types.js';
import type { ProvenanceRow, ProvenanceStepRow } from './records.js';

/** Names the form of a record that is hashed; another form needs another label. */
const RECORD_LABEL = 'surety-provenance-v1';

/** Names the form in which a chain of steps alone is hashed. */
const STEPS_LABEL = 'surety-provenance-steps-v1';

/** A record before its digest is known. */
export type ProvenanceContent = Omit<ProvenanceRow, 'provenanceDigest'>;

/** A step before the digest of its record is known. */
export type StepContent = Omit<ProvenanceStepRow, 'provenanceDigest'>;

/**
 * The provenance digest: SHA-256 over the record's canonical form, every field in a fixed order, the steps by their
 * ordinal (provenance-audit-replay.md, Provenance). Vectors: `testvectors/provenance.json`.
 *
 * @param steps in any order; each ordinal is part of what is hashed
 */
export function provenanceDigest(
  domainId: string,
  record: ProvenanceContent,
  steps: readonly StepContent[] = [],
): Digest {
  const inOrder = [...steps].sort((a, b) => a.ordinal - b.ordinal);
  return canonicalDigest(RECORD_LABEL, [
    domainId,
    record.objectType,
    record.objectId,
    record.version,
    record.contentDigest,
    record.classification,
    record.policyRevision,
    record.allowedSinks,
    record.tainted,
    record.reviewed,
    record.scanPending,
    record.predecessorDigest ?? undefined,
    originParts(record),
    record.parentDigests,
    inOrder.map(stepParts),
    record.recordedAt,
  ]);
}

/** The digest of a chain of steps, each as it stands in its record's canonical form; what a clearance names. */
export function stepsDigest(steps: readonly StepContent[]): Digest {
  return canonicalDigest(STEPS_LABEL, [...steps].sort((a, b) => a.ordinal - b.ordinal).map(stepParts));
}

/** Whether a stored record is what its digest says. Takes all steps of the record. */
export function verifyRecord(
  domainId: string,
  record: ProvenanceRow,
  steps: readonly ProvenanceStepRow[] = [],
): boolean {
  const own = steps.every((step) => sameDigest(step.provenanceDigest, record.provenanceDigest));
  return own && sameDigest(provenanceDigest(domainId, record, steps), record.provenanceDigest);
}

/** The refusal where a stored record is not what its digest says; it names the record. */
export function corruptRecord(record: Pick<ProvenanceRow, 'objectType' | 'objectId' | 'version'>): Refusal {
  return corruptStored(recordName(record));
}

/** The same, where all that is known of the record is this name: its digest, where an edge leads to nothing. */
export function corruptStored(name: string): Refusal {
  return refusal('DATA_CORRUPT', 'A stored provenance record contradicts its digest.', {
    metadata: { record: `provenance:${name}` },
    resource: { type: 'provenance', name },
  });
}

/** How messages name a record: type, object and version. */
export function recordName(record: Pick<ProvenanceRow, 'objectType' | 'objectId' | 'version'>): string {
  return `${record.objectType}/${record.objectId}/${record.version}`;
}

function originParts(record: ProvenanceContent): Part {
  const parts = [
    record.originKind ?? undefined,
    record.sourceId ?? undefined,
    record.sourceDigest ?? undefined,
    record.observedAt ?? undefined,
    record.principalId ?? undefined,
    record.harnessId ?? undefined,
  ];
  return parts.every((part) => part === undefined) ? undefined : parts;
}

function stepParts(step: StepContent): Part {
  return [
    step.ordinal,
    step.kind,
    step.operation,
    step.implementation,
    step.implementationVersion,
    step.executor,
    step.inputDigests,
    step.outputDigest,
    step.startedAt,
    step.completedAt,
  ];
}

import { sameDigest } from '../encoding.js';
import type { DataClass, Digest } from '../types.js';
import { ANY_SINK } from './origin.js';
import type { ObjectType, ProvenanceRow } from './records.js';

/** A reference: it names a record and repeats what constrains it. */
export interface RecordReference {
  readonly domainId: string;
  readonly objectType: ObjectType;
  readonly objectId: string;
  readonly version: bigint;
  readonly provenanceDigest: Digest;
  readonly contentDigest: Digest;
  readonly classification: DataClass;
  readonly policyRevision: bigint;
}

/** What the holder of a reference expects; absent parts are not compared. */
export interface ReferenceExpectation {
  readonly domainId?: string;
  readonly contentDigest?: Digest;
  readonly objectType?: ObjectType;
  readonly classification?: DataClass;
  readonly requiredSinks: readonly string[];
  readonly policyRevision?: bigint;
}

/** The reference of a record. */
export function referenceOf(domainId: string, record: ProvenanceRow): RecordReference {
  return {
    domainId,
    objectType: record.objectType,
    objectId: record.objectId,
    version: record.version,
    provenanceDigest: record.provenanceDigest,
    contentDigest: record.contentDigest,
    classification: record.classification,
    policyRevision: record.policyRevision,
  };
}

/**
 * Compares a reference with the record that it names and with what its holder expects
 * (provenance-audit-replay.md, Provenance). It answers facts, never permission.
 *
 * @param domainId where the record was looked for
 * @param record what stands under the reference's name there, hashed again; undefined: nothing
 * @returns the names of the fields that differ, in the order of the contract
 */
export function verifyReference(
  domainId: string,
  reference: RecordReference,
  expectation: ReferenceExpectation,
  record: ProvenanceRow | undefined,
): string[] {
  if (!record) return ['record'];
  const { requiredSinks } = expectation;
  const allowed = record.allowedSinks.includes(ANY_SINK)
    ? true
    : requiredSinks.every((sink) => record.allowedSinks.includes(sink));
  const comparisons: readonly (readonly [string, boolean])[] = [
    ['reference.domain_id', reference.domainId === domainId],
    ['reference.object_type', reference.objectType === record.objectType],
    ['reference.object_id', reference.objectId === record.objectId],
    ['reference.version', reference.version === record.version],
    ['reference.provenance_digest', sameDigest(reference.provenanceDigest, record.provenanceDigest)],
    ['reference.content_digest', sameDigest(reference.contentDigest, record.contentDigest)],
    ['reference.classification', reference.classification === record.classification],
    ['reference.policy_revision', reference.policyRevision === record.policyRevision],
    ['expectation.domain_id', equalOrUnset(expectation.domainId, domainId)],
    [
      'expectation.content_digest',
      expectation.contentDigest === undefined || sameDigest(expectation.contentDigest, record.contentDigest),
    ],
    ['expectation.object_type', equalOrUnset(expectation.objectType, record.objectType)],
    ['expectation.classification', equalOrUnset(expectation.classification, record.classification)],
    ['expectation.required_sinks', allowed],
    ['expectation.policy_revision', equalOrUnset(expectation.policyRevision, record.policyRevision)],
  ];
  return comparisons.filter(([, equal]) => !equal).map(([name]) => name);
}

function equalOrUnset<T>(expected: T | undefined, actual: T): boolean {
  return expected === undefined || expected === actual;
}

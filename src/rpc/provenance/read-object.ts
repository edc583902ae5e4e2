import type { RecordReference as WireReference } from '../../gen/surety/provenance/v1/record_pb.js';
import type { ObjectType } from '../../ledger/provenance/records.js';
import type { RecordReference } from '../../ledger/provenance/verify-reference.js';
import { DATA_CLASSES, MAX_OBJECT_ID_OCTETS, OBJECT_TYPES } from '../provenance-codec.js';
import type { Violations } from '../validate.js';

/** Versions and revisions are int8 in the store. */
export const MAX_VERSION = 2n ** 63n - 1n;

/** An object, whatever its version. */
export interface ObjectName {
  readonly objectType: ObjectType;
  readonly objectId: string;
}

/** Reads type and id of an object. */
export function readObject(
  violations: Violations,
  request: { readonly objectType: number; readonly objectId: string },
): ObjectName {
  return {
    objectType: violations.choice('object_type', request.objectType, OBJECT_TYPES),
    objectId: violations.id('object_id', request.objectId, 1, MAX_OBJECT_ID_OCTETS),
  };
}

/** Reads a reference. */
export function readReference(within: Violations, given: WireReference): RecordReference {
  return {
    ...readObject(within, given),
    domainId: given.domainId,
    version: within.integer('version', given.version, 1n, MAX_VERSION),
    provenanceDigest: within.digest('provenance_digest', given.provenanceDigest),
    contentDigest: within.digest('content_digest', given.contentDigest),
    classification: within.choice('classification', given.classification, DATA_CLASSES),
    policyRevision: within.integer('policy_revision', given.policyRevision, 1n, MAX_VERSION),
  };
}

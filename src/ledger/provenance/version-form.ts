import { sameDigest } from '../encoding.js';
import type { ProvenanceKey } from '../reads.js';
import type { FieldViolation } from '../refusal.js';
import type { Digest } from '../types.js';
import type { Draft } from '../working-set.js';
import { EFFECT_OUTPUT_PREFIX } from './derive-tool-output.js';
import type { ObjectType } from './records.js';
import { storedRecord } from './stored-record.js';

/** How a caller names the version that it records. */
export interface VersionName {
  readonly objectType: ObjectType;
  readonly objectId: string;
  readonly version: bigint;
  readonly predecessorDigest: Digest | null;
}

/** What is wrong with the name and the predecessor of a record, all at once. */
export function versionViolations(
  name: Pick<VersionName, 'objectId' | 'version' | 'predecessorDigest'>,
): FieldViolation[] {
  const violations: FieldViolation[] = [];
  if (name.objectId.startsWith(EFFECT_OUTPUT_PREFIX)) {
    violations.push({ field: 'object_id', rule: `must not begin with \`${EFFECT_OUTPUT_PREFIX}\`` });
  }
  if (name.version < 1n) violations.push({ field: 'version', rule: 'must be at least 1' });
  if (name.version === 1n && name.predecessorDigest !== null) {
    violations.push({ field: 'predecessor_digest', rule: 'must be empty at version 1' });
  }
  if (name.version > 1n && name.predecessorDigest === null) {
    violations.push({ field: 'predecessor_digest', rule: 'is required from version 2 on' });
  }
  return violations;
}

/** The record's own key. */
export function versionKey({ objectType, objectId, version }: VersionName): ProvenanceKey {
  return { objectType, objectId, version };
}

/** The key of the version before; none at version 1. */
export function predecessorKeys({ objectType, objectId, version }: VersionName): ProvenanceKey[] {
  return version > 1n ? [{ objectType, objectId, version: version - 1n }] : [];
}

/**
 * What is wrong with the version before: the next version of an object names its exact predecessor
 * (provenance-audit-replay.md, Provenance). Versions have no gaps, so the one before is the newest.
 *
 * @throws Refused DATA_CORRUPT where the predecessor is not what its digest says
 */
export function predecessorFault(draft: Draft, name: VersionName): 'missing' | 'mismatch' | undefined {
  const [key] = predecessorKeys(name);
  if (!key) return undefined;
  const predecessor = storedRecord(draft, key);
  if (!predecessor) return 'missing';
  const same = sameDigest(predecessor.record.provenanceDigest, name.predecessorDigest ?? undefined);
  return same ? undefined : 'mismatch';
}

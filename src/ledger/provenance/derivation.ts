import { sameDigest } from '../encoding.js';
import type { FieldViolation } from '../refusal.js';
import type { DataClass, Digest } from '../types.js';
import { sameOrAbsent, sameTexts, sinkViolations } from './origin.js';
import {
  type ProvenanceContent,
  provenanceDigest,
  type StepContent,
  stepsDigest,
} from './provenance-digest.js';
import type { ProvenanceRow, ProvenanceStepRow } from './records.js';
import type { StoredRecord } from './stored-record.js';
import type { RecordReference } from './verify-reference.js';
import { type VersionName, versionViolations } from './version-form.js';

/** More parents than a context window is put together from; each is read and hashed again within the batch. */
export const MAX_PARENTS = 64;
/** More steps than one derivation has; each stands in the record's canonical form. */
export const MAX_STEPS = 32;

/** A transformation, as the caller describes it; its ordinal is its place in the chain. */
export type StepFields = Omit<StepContent, 'ordinal'>;

/** A record of derived content, as the caller describes it. */
export interface DerivedContent extends VersionName {
  readonly contentDigest: Digest;
  readonly classification: DataClass;
  /** A set: ascending, none twice. `*` alone means any, empty means none. */
  readonly allowedSinks: readonly string[];
  /** The revision that the derivation was made under; null: the domain's current one. */
  readonly policyRevision: bigint | null;
  /** In any order, none twice. */
  readonly parents: readonly RecordReference[];
  /** In the order in which they happened. */
  readonly steps: readonly StepFields[];
}

/** What is wrong with the form of a derivation, all at once. */
export function derivationViolations(content: DerivedContent): FieldViolation[] {
  const violations = [
    ...versionViolations(content),
    ...sinkViolations(content.allowedSinks, 'allowed_sinks'),
  ];
  const { parents, steps } = content;
  if (parents.length < 1 || parents.length > MAX_PARENTS) {
    violations.push({ field: 'parents', rule: `must have 1 to ${MAX_PARENTS} items` });
  }
  const digests = parents.map(({ provenanceDigest: digest }) => digest.toString('hex'));
  if (new Set(digests).size !== digests.length) {
    violations.push({ field: 'parents', rule: 'must not name a record twice' });
  }
  if (steps.length < 1 || steps.length > MAX_STEPS) {
    violations.push({ field: 'steps', rule: `must have 1 to ${MAX_STEPS} items` });
  }
  return violations;
}

/** The parents' provenance digests as a record keeps them: ascending. */
export function parentDigestsOf(content: Pick<DerivedContent, 'parents'>): Digest[] {
  return content.parents.map(({ provenanceDigest: digest }) => digest).sort((a, b) => Buffer.compare(a, b));
}

/** The steps with their places. */
export function stepContents(content: Pick<DerivedContent, 'steps'>): StepContent[] {
  return content.steps.map((step, ordinal) => ({ ...step, ordinal }));
}

/** A derived record with its rows of steps, as they will be stored. */
export interface DerivedRecord {
  readonly record: ProvenanceRow;
  readonly steps: readonly ProvenanceStepRow[];
}

/**
 * Makes the record of a derivation, whose rules have been judged.
 *
 * @param basis.cleared whether a review and a scan cleared it; else it is tainted, unreviewed, scan pending
 */
export function derivedRecord(
  domainId: string,
  content: DerivedContent,
  basis: { readonly policyRevision: bigint; readonly recordedAt: bigint; readonly cleared: boolean },
): DerivedRecord {
  const record: ProvenanceContent = {
    objectType: content.objectType,
    objectId: content.objectId,
    version: content.version,
    contentDigest: content.contentDigest,
    classification: content.classification,
    policyRevision: basis.policyRevision,
    allowedSinks: content.allowedSinks,
    tainted: !basis.cleared,
    reviewed: basis.cleared,
    scanPending: !basis.cleared,
    predecessorDigest: content.predecessorDigest,
    originKind: null,
    sourceId: null,
    sourceDigest: null,
    observedAt: null,
    principalId: null,
    harnessId: null,
    parentDigests: parentDigestsOf(content),
    recordedAt: basis.recordedAt,
  };
  const steps = stepContents(content);
  const digest = provenanceDigest(domainId, record, steps);
  return {
    record: { ...record, provenanceDigest: digest },
    steps: steps.map((step) => ({ ...step, provenanceDigest: digest })),
  };
}

/** The first field in which a stored record differs from what a caller derives, by its name in the contract. */
export function derivationDifference(stored: StoredRecord, content: DerivedContent): string | undefined {
  const { record } = stored;
  const same: readonly (readonly [string, boolean])[] = [
    ['content_digest', sameDigest(record.contentDigest, content.contentDigest)],
    ['classification', record.classification === content.classification],
    ['allowed_sinks', sameTexts(record.allowedSinks, content.allowedSinks)],
    ['predecessor_digest', sameOrAbsent(record.predecessorDigest, content.predecessorDigest)],
    ['policy_revision', content.policyRevision === null || content.policyRevision === record.policyRevision],
    ['parents', sameList(record.parentDigests, parentDigestsOf(content))],
    ['steps', sameDigest(stepsDigest(stored.steps), stepsDigest(stepContents(content)))],
  ];
  return same.find(([, equal]) => !equal)?.[0];
}

function sameList(a: readonly Digest[], b: readonly Digest[]): boolean {
  return a.length === b.length && a.every((digest, index) => sameDigest(digest, b[index]));
}

import type { Actor } from '../authority/current-actor.js';
import { sameDigest } from '../encoding.js';
import { type FieldViolation, type Refusal, refusal } from '../refusal.js';
import { type DataClass, type Digest, type Micros, MINUTE } from '../types.js';
import type { Draft } from '../working-set.js';
import { type ProvenanceContent, provenanceDigest } from './provenance-digest.js';
import type { ObjectType, OriginKind, ProvenanceRow } from './records.js';

/** A clock that is a minute ahead is an honest one (effects.md, Transitions 7); a later time was not observed yet. */
export const OBSERVED_SLACK: Micros = MINUTE;

/** Means any sink, and stands alone. */
export const ANY_SINK = '*';

/** Where content without parents came from, as the caller says. */
export interface OriginFields {
  readonly kind: OriginKind;
  readonly sourceId: string;
  readonly sourceDigest: Digest;
  readonly observedAt: Micros;
  /** Only with human input: whose words, a principal or a guest; null otherwise. */
  readonly principalId: string | null;
  /** Only with human input: through which harness; null otherwise. */
  readonly harnessId: string | null;
}

/** A record of an origin, as the caller describes it. */
export interface OriginContent {
  readonly objectType: ObjectType;
  readonly objectId: string;
  readonly version: bigint;
  readonly predecessorDigest: Digest | null;
  readonly contentDigest: Digest;
  readonly classification: DataClass;
  /** A set: ascending, none twice. `*` alone means any, empty means none. */
  readonly allowedSinks: readonly string[];
  readonly origin: OriginFields;
}

/**
 * Who may be named: only human input names anybody, and then both (provenance-audit-replay.md, Provenance).
 *
 * @param path of the origin in the request
 * @returns what is wrong with the form
 */
export function originViolations(origin: OriginFields, path: string): FieldViolation[] {
  const human = origin.kind === 'human_input';
  const rule = human ? 'is required with human input' : 'is for human input only';
  const violations: FieldViolation[] = [];
  if (human !== (origin.principalId !== null)) violations.push({ field: `${path}.principal_id`, rule });
  if (human !== (origin.harnessId !== null)) violations.push({ field: `${path}.harness_id`, rule });
  return violations;
}

/** A set of sinks as it is kept: ascending by code unit. */
export function sinkSet(sinks: readonly string[]): string[] {
  return [...sinks].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

/** What is wrong with the form of a set of sinks: a name twice, or `*` beside others. */
export function sinkViolations(sinks: readonly string[], path: string): FieldViolation[] {
  const violations: FieldViolation[] = [];
  if (new Set(sinks).size !== sinks.length)
    violations.push({ field: path, rule: 'must not name a sink twice' });
  if (sinks.includes(ANY_SINK) && sinks.length > 1) {
    violations.push({ field: path, rule: 'must hold `*` alone or not at all' });
  }
  return violations;
}

/**
 * Whether an origin may be claimed now: its observation does not lie ahead, and whoever speaks for a person is bound to
 * that person, so that nobody forges another's words.
 *
 * @param actor the harness that claims it; undefined for an operator, who may record what any harness of the domain
 *   heard (needs the read `harnesses` of the origin's harness)
 */
export function originRefusal(
  draft: Draft,
  origin: OriginFields,
  actor: Actor | undefined,
): Refusal | undefined {
  if (origin.observedAt > draft.now + OBSERVED_SLACK) {
    return refusal('EVIDENCE_TIME_OUTSIDE_WINDOW', 'The observation lies in the future.', {
      metadata: { field: 'origin.observed_time' },
    });
  }
  if (origin.kind !== 'human_input') return undefined;
  const harness = actor ? actor.harness : draft.get('harnesses', origin.harnessId ?? '');
  if (!harness || harness.harnessId !== origin.harnessId) {
    return refusal('HARNESS_MISSING', 'The origin names a harness that is not the one that heard it.');
  }
  if (harness.ownerId !== origin.principalId) {
    return refusal('PRINCIPAL_UNBOUND', 'The harness of the origin does not act for its principal.');
  }
  return undefined;
}

/** The record of an origin: tainted, unreviewed, scan pending, under the domain's policy revision. */
export function originRecord(draft: Draft, content: OriginContent): ProvenanceRow {
  const { origin } = content;
  const record: ProvenanceContent = {
    objectType: content.objectType,
    objectId: content.objectId,
    version: content.version,
    contentDigest: content.contentDigest,
    classification: content.classification,
    policyRevision: draft.domain.policyRevision,
    allowedSinks: content.allowedSinks,
    tainted: true,
    reviewed: false,
    scanPending: true,
    predecessorDigest: content.predecessorDigest,
    originKind: origin.kind,
    sourceId: origin.sourceId,
    sourceDigest: origin.sourceDigest,
    observedAt: origin.observedAt,
    principalId: origin.principalId,
    harnessId: origin.harnessId,
    parentDigests: [],
    recordedAt: draft.now,
  };
  return { ...record, provenanceDigest: provenanceDigest(draft.domainId, record) };
}

/** The first field in which a stored record differs from what a caller says of an origin, by its name in the contract. */
export function originDifference(stored: ProvenanceRow, content: OriginContent): string | undefined {
  const { origin } = content;
  const same: readonly (readonly [string, boolean])[] = [
    ['content_digest', sameDigest(stored.contentDigest, content.contentDigest)],
    ['classification', stored.classification === content.classification],
    ['allowed_sinks', sameTexts(stored.allowedSinks, content.allowedSinks)],
    ['predecessor_digest', sameOrAbsent(stored.predecessorDigest, content.predecessorDigest)],
    ['origin.kind', stored.originKind === origin.kind],
    ['origin.source_id', stored.sourceId === origin.sourceId],
    ['origin.source_digest', sameOrAbsent(stored.sourceDigest, origin.sourceDigest)],
    ['origin.observed_time', stored.observedAt === origin.observedAt],
    ['origin.principal_id', stored.principalId === origin.principalId],
    ['origin.harness_id', stored.harnessId === origin.harnessId],
  ];
  return same.find(([, equal]) => !equal)?.[0];
}

/** Whether two lists hold the same texts in the same order. */
export function sameTexts(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text, index) => text === b[index]);
}

/** Whether two digests that may be missing are equal, or both missing. */
export function sameOrAbsent(a: Digest | null, b: Digest | null): boolean {
  return a === null || b === null ? a === b : sameDigest(a, b);
}

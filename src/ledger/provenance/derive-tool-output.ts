import type { EffectRow } from '../effect/records.js';
import { canonicalDigest, sameDigest } from '../encoding.js';
import type { EventRow } from '../event/records.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Digest, Micros, WorkloadRole } from '../types.js';
import type { Draft } from '../working-set.js';
import { eventProvenanceMatches } from './event-provenance.js';
import { corruptRecord, provenanceDigest, recordName, verifyRecord } from './provenance-digest.js';
import { putRecord } from './put-record.js';
import type { ProvenanceRow, ProvenanceStepRow } from './records.js';

/** Object ids with this beginning are the service's own: nobody can register an origin under them. */
export const EFFECT_OUTPUT_PREFIX = 'effect-output:';

/** What a tool output is derived from: the effect as it was before the terminal transition, and who made that. */
export interface ToolOutputInput {
  readonly effect: EffectRow;
  readonly event: EventRow;
  /** The event's provenance record, as it was read. */
  readonly parent: ProvenanceRow | undefined;
  /** Of the registration that made the terminal transition. */
  readonly role: WorkloadRole;
  readonly registrationId: string;
  readonly workloadId: string;
  /** Of the registration at the terminal transition; at a check the stored transition's, not the present one. */
  readonly credentialEpoch: bigint;
  /** The receipt's or the query response's. */
  readonly outputDigest: Digest;
  /** The evidence's time. */
  readonly completedTime: Micros;
  /** The store's clock; a check takes the stored record's own time instead. */
  readonly now: Micros;
}

/** The object id of an effect's tool output. */
export function effectOutputId(effectId: string): string {
  return `${EFFECT_OUTPUT_PREFIX}${effectId}`;
}

/**
 * Writes the provenance record of an effect's tool output with its edge and its step, at the terminal transition
 * (provenance-audit-replay.md, "The tool output of an effect"). The audit entry is that of the effect's step.
 *
 * Needs the effect's output record (`effectContext`), which must be absent.
 *
 * @returns the record, whose digest is the effect's `outputDigest`
 * @throws Refused PROVENANCE_MISSING or DATA_CORRUPT for the parent, PROVENANCE_CONFLICT where an output stands
 */
export function deriveToolOutput(draft: Draft, input: ToolOutputInput): ProvenanceRow {
  const { record, step } = buildToolOutput(draft.domainId, input);
  if (draft.get('provenance_records', record.objectType, record.objectId, record.version)) {
    throw new Refused(outputConflict(record));
  }
  putRecord(draft, record, [step]);
  return record;
}

/**
 * Finds the tool output that an earlier terminal call wrote and checks it again: a duplicate with another lineage or
 * digest is a conflict.
 *
 * Needs the output record with its parents and steps (`effectContext`).
 *
 * @throws Refused DATA_CORRUPT where the record is missing or is not what its digest says, PROVENANCE_CONFLICT where
 *   it is another one
 */
export function checkToolOutput(draft: Draft, input: ToolOutputInput): ProvenanceRow {
  const key = {
    objectType: 'tool_output',
    objectId: effectOutputId(input.effect.effectId),
    version: 1n,
  } as const;
  const stored = draft.get('provenance_records', key.objectType, key.objectId, key.version);
  if (!stored) throw new Refused(corruptRecord(key));
  const steps = draft.find('stepsOfRecord', stored.provenanceDigest);
  const edges = draft.find('parentsOfRecord', stored.provenanceDigest);
  if (
    !verifyRecord(draft.domainId, stored, steps) ||
    !sameEdges(
      stored,
      edges.map((edge) => edge.parentDigest),
    )
  ) {
    throw new Refused(corruptRecord(key));
  }
  const expected = buildToolOutput(draft.domainId, { ...input, now: stored.recordedAt }).record;
  if (!sameDigest(stored.provenanceDigest, expected.provenanceDigest))
    throw new Refused(outputConflict(stored));
  if (input.effect.outputDigest && !sameDigest(input.effect.outputDigest, stored.provenanceDigest)) {
    throw new Refused(outputConflict(stored));
  }
  return stored;
}

/** Whether the rows of the edges are exactly the parents that the record names. */
export function sameEdges(record: ProvenanceRow, parents: readonly Digest[]): boolean {
  const inOrder = [...parents].sort((a, b) => Buffer.compare(a, b));
  return (
    inOrder.length === record.parentDigests.length &&
    inOrder.every((digest, index) => sameDigest(digest, record.parentDigests[index]))
  );
}

function buildToolOutput(
  domainId: string,
  input: ToolOutputInput,
): { record: ProvenanceRow; step: ProvenanceStepRow } {
  const { effect, parent } = input;
  if (effect.startedAt === null || effect.attemptId === null) {
    throw new Error(`effect ${effect.effectId} has an output but was never started`);
  }
  if (!eventProvenanceMatches(domainId, input.event, parent)) {
    if (parent && !verifyRecord(domainId, parent)) throw new Refused(corruptRecord(parent));
    throw new Refused(
      refusal('PROVENANCE_MISSING', "The event's provenance record is missing or does not match."),
    );
  }
  const stepContent = {
    ordinal: 0,
    kind: 'tool',
    operation: canonicalDigest('surety-tool-operation-v1', [
      domainId,
      effect.effectId,
      effect.attemptId,
    ]).toString('hex'),
    implementation: `${input.role}:${input.registrationId}`,
    implementationVersion: input.credentialEpoch.toString(),
    executor: input.workloadId,
    inputDigests: [parent.contentDigest],
    outputDigest: input.outputDigest,
    startedAt: effect.startedAt,
    completedAt: clamp(input.completedTime, effect.startedAt, input.now),
  } as const;
  const content = {
    objectType: 'tool_output',
    objectId: effectOutputId(effect.effectId),
    version: 1n,
    contentDigest: input.outputDigest,
    classification: parent.classification,
    policyRevision: parent.policyRevision,
    allowedSinks: [],
    tainted: true,
    reviewed: false,
    scanPending: true,
    predecessorDigest: null,
    originKind: null,
    sourceId: null,
    sourceDigest: null,
    observedAt: null,
    principalId: null,
    harnessId: null,
    parentDigests: [parent.provenanceDigest],
    recordedAt: input.now,
  } as const;
  const digest = provenanceDigest(domainId, content, [stepContent]);
  return {
    record: { ...content, provenanceDigest: digest },
    step: { ...stepContent, provenanceDigest: digest },
  };
}

/** The start's own time may lie up to the allowed skew after `now`; a step never ends before it began. */
function clamp(time: Micros, least: Micros, most: Micros): Micros {
  const capped = time > most ? most : time;
  return capped < least ? least : capped;
}

function outputConflict(record: ProvenanceRow) {
  return refusal('PROVENANCE_CONFLICT', "The effect's tool output is another one.", {
    resource: { type: 'provenance', name: recordName(record) },
  });
}

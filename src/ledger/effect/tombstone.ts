import { canonicalDigest, type Part } from '../encoding.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Digest, Micros } from '../types.js';
import type { EffectRow, KeptOfEffect, TombstoneRow, TransitionRow } from './records.js';

/** What a repeated reservation must equal besides its identity and its actor (effects.md, Reserve 1). */
export type DuplicateTuple = Pick<
  EffectRow,
  | 'grantId'
  | 'action'
  | 'resource'
  | 'inputSource'
  | 'sink'
  | 'dataClass'
  | 'keyDigest'
  | 'repeatable'
  | 'reservationTtl'
  | 'executionDeadline'
>;

/** The digest of the duplicate tuple (effects.md, Archival). */
export function tupleDigest(tuple: DuplicateTuple): Digest {
  return canonicalDigest('surety-effect-tuple-v1', [
    tuple.grantId,
    tuple.action,
    tuple.resource,
    tuple.inputSource,
    tuple.sink,
    tuple.dataClass,
    tuple.keyDigest,
    tuple.repeatable,
    tuple.reservationTtl ?? undefined,
    tuple.executionDeadline ?? undefined,
  ]);
}

/**
 * The digest of everything that leaves the store with an effect: each field of its row and of its receipts, in the order of
 * their names. What is removed must be what was exported, and a reader of an archive computes it again.
 */
export function effectRecordDigest(effect: EffectRow, receipts: readonly TransitionRow[]): Digest {
  const inOrder = [...receipts].sort((a, b) => (a.step < b.step ? -1 : 1));
  return canonicalDigest('surety-archived-effect-v1', [fieldsOf(effect), inOrder.map(fieldsOf)]);
}

function fieldsOf(row: EffectRow | TransitionRow): Part[] {
  const fields = Object.entries(row) as [string, Exclude<Part, undefined> | null][];
  return fields.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => [name, value ?? undefined]);
}

/** The tombstone of an effect as it stands. */
export function tombstoneOf(
  effect: EffectRow,
  archive: { readonly archiveNumber: bigint; readonly recordDigest: Digest; readonly archivedAt: Micros },
): TombstoneRow {
  const kept: KeptOfEffect = {
    effectId: effect.effectId,
    identityDigest: effect.identityDigest,
    eventId: effect.eventId,
    sink: effect.sink,
    actorKind: effect.actorKind,
    actorId: effect.actorId,
    harnessId: effect.harnessId,
    grantId: effect.grantId,
    keyDigest: effect.keyDigest,
    holdsKey: effect.holdsKey,
    startBefore: effect.startBefore,
    decisionId: effect.decisionId,
    fence: effect.fence,
    state: effect.state,
    stateSource: effect.stateSource,
    reserveSeq: effect.reserveSeq,
    reserveLeaf: effect.reserveLeaf,
    attemptId: effect.attemptId,
    executorRegistrationId: effect.executorRegistrationId,
    reconcilerRegistrationId: effect.reconcilerRegistrationId,
    evidenceDigest: effect.evidenceDigest,
    outputDigest: effect.outputDigest,
    step: effect.step,
    lastSeq: effect.lastSeq,
  };
  const { archiveNumber, recordDigest, archivedAt } = archive;
  return { ...kept, tupleDigest: tupleDigest(effect), recordDigest, archiveNumber, archivedAt };
}

/** What a late transition, and a read of what is there no more, is told: only who may see the effect gets that far. */
export function archivedRefusal(archived: TombstoneRow): Refusal {
  return refusal('EFFECT_ARCHIVED', 'The effect is settled and archived.', {
    metadata: { state: archived.state },
    resource: { type: 'effect', name: archived.effectId },
  });
}

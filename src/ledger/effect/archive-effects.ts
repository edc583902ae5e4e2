import { accept, type CommandBase, type Decision, refuse } from '../decision.js';
import { sameDigest } from '../encoding.js';
import { type Refusal, refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import { type Digest, HOUR, isTerminal, type Micros } from '../types.js';
import type { Draft } from '../working-set.js';
import type { ArchiveRow, EffectRow, TransitionRow } from './records.js';
import { effectRecordDigest, tombstoneOf } from './tombstone.js';
import { readEffect } from './verified-effect.js';

/**
 * No effect leaves earlier: whoever lost the answer to a transition repeats the exact call, and is answered from the row;
 * from a tombstone it learns the state alone. Far longer than a proof can be repeated.
 */
export const MIN_RETENTION: Micros = HOUR;

/** What was exported of one effect. */
export interface ExportedEffect {
  readonly effectId: string;
  /** Of the row and receipts as they stand in the export. */
  readonly recordDigest: Digest;
}

/** A few effects that an archive holds, whose file is whole and was read back. */
export interface ArchiveEffectsCommand extends CommandBase {
  readonly archive: Omit<ArchiveRow, 'archivedAt'>;
  /** How long ago an effect must have been settled. */
  readonly retention: Micros;
  readonly effects: readonly ExportedEffect[];
}

/**
 * Why an effect was left: it is not there, has not ended or not long enough ago; its end is contested; it is not what was
 * exported; its row contradicts the log.
 */
export type WhyLeft = 'absent' | 'live' | 'recent' | 'disputed' | 'changed' | 'corrupt';

export interface ArchiveEffectsReply {
  readonly archived: readonly string[];
  readonly left: readonly { readonly effectId: string; readonly why: WhyLeft }[];
}

/**
 * effects.md, Archival: effects that were exported leave, each with its receipts, and their tombstones take their place, in
 * one transaction with the record of the archive and an entry of the log. What is not exactly what was exported stays.
 */
export const archiveEffects: Decision<ArchiveEffectsCommand, ArchiveEffectsReply> = {
  kind: 'effect.archive',
  exclusive: true,
  reads: ({ archive, effects }) => {
    const ids = effects.map(({ effectId }) => effectId);
    const { archiveNumber } = archive;
    return { archives: [archiveNumber - 1n, archiveNumber], effects: ids, transitionsOf: ids };
  },
  decide(draft, command, now) {
    const out = outOfTurn(draft, command.archive);
    if (out) return refuse(out);
    const judged = command.effects.map((exported) => judge(draft, command, exported));
    const going = judged.flatMap((one) => ('effect' in one ? [one] : []));
    for (const one of going) bury(draft, command, one, now);
    if (going.length > 0) record(draft, command, now);
    return accept({
      archived: going.map(({ effect }) => effect.effectId),
      left: judged.flatMap((one) => ('why' in one ? [one] : [])),
    });
  },
};

interface Going {
  readonly effect: EffectRow;
  readonly receipts: readonly TransitionRow[];
  readonly recordDigest: Digest;
}

/** Archives follow each other, and so do the parts of the log that they carry: two at once would overlap. */
function outOfTurn(draft: Draft, archive: ArchiveEffectsCommand['archive']): Refusal | undefined {
  const { archiveNumber, archiveId, logAfterSeq } = archive;
  const recorded = draft.get('archives', archiveNumber);
  if (recorded) return recorded.archiveId === archiveId ? undefined : stale();
  const previous = draft.get('archives', archiveNumber - 1n);
  if (archiveNumber > 1n && !previous) return stale();
  return logAfterSeq === (previous?.logLastSeq ?? 0n) ? undefined : stale();
}

function stale(): Refusal {
  return refusal('REVISION_STALE', 'Another archive of the domain was made meanwhile.', {
    metadata: { record: 'archive' },
  });
}

function judge(
  draft: Draft,
  { retention }: ArchiveEffectsCommand,
  { effectId, recordDigest }: ExportedEffect,
): Going | ArchiveEffectsReply['left'][number] {
  const left = (why: WhyLeft) => ({ effectId, why });
  const effect = soundEffect(draft, effectId);
  if (effect === 'corrupt') return left('corrupt');
  if (!effect) return left('absent');
  if (!isTerminal(effect.state) || effect.settledAt === null) return left('live');
  // A person has to look, and the key may change hands: while that is open, all of it stays at hand.
  if (effect.disputed) return left('disputed');
  const least = retention > MIN_RETENTION ? retention : MIN_RETENTION;
  if (effect.settledAt > draft.now - least) return left('recent');
  const receipts = draft.find('transitionsOfEffect', effectId);
  if (!sameDigest(effectRecordDigest(effect, receipts), recordDigest)) return left('changed');
  return { effect, receipts, recordDigest };
}

/** Whether an effect has ended and nothing about its end is contested: as far as the row alone says. */
export function isSettledForArchive({ state, settledAt, disputed }: EffectRow): boolean {
  return isTerminal(state) && settledAt !== null && !disputed;
}

/** One row that contradicts the log does not keep the others. */
function soundEffect(draft: Draft, effectId: string): EffectRow | undefined | 'corrupt' {
  try {
    return readEffect(draft, effectId);
  } catch (error) {
    if (error instanceof Refused) return 'corrupt';
    throw error;
  }
}

function bury(
  draft: Draft,
  { archive: { archiveNumber } }: ArchiveEffectsCommand,
  { effect, receipts, recordDigest }: Going,
  archivedAt: Micros,
): void {
  draft.put('effect_tombstones', tombstoneOf(effect, { archiveNumber, recordDigest, archivedAt }));
  for (const receipt of receipts) draft.remove('transitions', receipt);
  draft.remove('effects', effect);
}

function record(draft: Draft, { archive, commandId }: ArchiveEffectsCommand, archivedAt: Micros): void {
  const { archiveNumber, archiveId, exportDigest } = archive;
  if (!draft.get('archives', archiveNumber)) draft.put('archives', { ...archive, archivedAt });
  draft.append({
    kind: 'archival',
    commandId,
    record: {
      type: 'archive',
      id: archiveId,
      revision: archiveNumber,
      operation: 'archive_effects',
      digest: exportDigest,
    },
  });
}

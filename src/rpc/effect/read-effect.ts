import { notVisible } from '../../ledger/audit/current-reader.js';
import { effectOutput, shownEffectReads } from '../../ledger/effect/effect-output.js';
import type { EffectRow, TombstoneRow } from '../../ledger/effect/records.js';
import {
  effectViewer,
  type ViewerRequest,
  viewerReads,
  visibleEffect,
  visibleRecord,
} from '../../ledger/effect/visible-effect.js';
import type { ProvenanceRow } from '../../ledger/provenance/records.js';
import type { Reads } from '../../ledger/reads.js';
import { Refused } from '../../ledger/run-decision.js';
import { Draft } from '../../ledger/working-set.js';
import type { Reader } from '../../store/reader.js';

/** An effect with the record of its output. */
export interface ShownEffect {
  readonly effect: EffectRow;
  readonly output: ProvenanceRow | undefined;
}

/**
 * One effect for whoever may see it; who asks and what is shown are of one snapshot.
 *
 * @throws {Refused} the reasons of `effectViewer`; NOT_VISIBLE; EFFECT_ARCHIVED; DATA_CORRUPT
 */
export async function readEffect(
  reader: Reader,
  domainId: string,
  asker: ViewerRequest,
  effectId: string,
): Promise<ShownEffect> {
  const reads = { ...viewerReads(asker, effectId), ...shownEffectReads([effectId]) };
  const draft = await gather(reader, domainId, reads);
  const effect = visibleEffect(draft, effectViewer(draft, asker), effectId);
  return { effect, output: effectOutput(draft, effect) };
}

/**
 * One effect, or its tombstone, for whoever may see it.
 *
 * @throws {Refused} as `readEffect`, but for EFFECT_ARCHIVED
 */
export async function readRecord(
  reader: Reader,
  domainId: string,
  asker: ViewerRequest,
  effectId: string,
): Promise<EffectRow | TombstoneRow> {
  const draft = await gather(reader, domainId, { ...viewerReads(asker, effectId), effects: [effectId] });
  return visibleRecord(draft, effectViewer(draft, asker), effectId);
}

/** @throws {Refused} NOT_VISIBLE where there is no such domain */
export async function gather(reader: Reader, domainId: string, reads: Reads): Promise<Draft> {
  const set = await reader.gather(domainId, reads);
  if (!set) throw new Refused(notVisible());
  return new Draft(set);
}

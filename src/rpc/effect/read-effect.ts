import { notVisible } from '../../ledger/audit/current-reader.js';
import { effectOutput, shownEffectReads } from '../../ledger/effect/effect-output.js';
import type { EffectRow } from '../../ledger/effect/records.js';
import {
  effectViewer,
  type ViewerRequest,
  viewerReads,
  visibleEffect,
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
 * @throws {Refused} the reasons of `effectViewer`; NOT_VISIBLE; DATA_CORRUPT
 */
export async function readEffect(
  reader: Reader,
  domainId: string,
  asker: ViewerRequest,
  effectId: string,
): Promise<ShownEffect> {
  const draft = await gather(reader, domainId, { ...viewerReads(asker), ...shownEffectReads([effectId]) });
  const effect = visibleEffect(draft, effectViewer(draft, asker), effectId);
  return { effect, output: effectOutput(draft, effect) };
}

/** @throws {Refused} NOT_VISIBLE where there is no such domain */
export async function gather(reader: Reader, domainId: string, reads: Reads): Promise<Draft> {
  const set = await reader.gather(domainId, reads);
  if (!set) throw new Refused(notVisible());
  return new Draft(set);
}

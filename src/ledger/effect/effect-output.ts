import { sameDigest } from '../encoding.js';
import { effectOutputId } from '../provenance/derive-tool-output.js';
import { corruptRecord } from '../provenance/provenance-digest.js';
import type { ProvenanceRow } from '../provenance/records.js';
import { storedRecord } from '../provenance/stored-record.js';
import type { Reads } from '../reads.js';
import { Refused } from '../run-decision.js';
import type { Draft } from '../working-set.js';
import type { EffectRow } from './records.js';

/** Effects as they are shown: each with the log's entry of its last step, and the record of its output. */
export function shownEffectReads(effectIds: readonly string[]): Reads {
  return { effects: effectIds, provenance: effectIds.map(outputKey) };
}

/**
 * The record of an effect's output, hashed again; undefined where it has none yet. Needs {@link shownEffectReads}.
 *
 * @throws {Refused} DATA_CORRUPT where the record is missing, or is not the one that the effect names
 */
export function effectOutput(draft: Draft, effect: EffectRow): ProvenanceRow | undefined {
  if (effect.outputDigest === null) return undefined;
  const key = outputKey(effect.effectId);
  const record = storedRecord(draft, key)?.record;
  if (!record || !sameDigest(record.provenanceDigest, effect.outputDigest))
    throw new Refused(corruptRecord(key));
  return record;
}

function outputKey(effectId: string) {
  return { objectType: 'tool_output', objectId: effectOutputId(effectId), version: 1n } as const;
}

import { leafHash } from '../audit/chain.js';
import { sameDigest } from '../encoding.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Draft, WorkingSet } from '../working-set.js';
import type { EffectRow, TombstoneRow } from './records.js';

/**
 * An effect, or its tombstone, whose row still agrees with the audit entry of its last step (effects.md, "A changed row is noticed"): that
 * leaf is computed again, and effect, step, state and fence are compared.
 *
 * @throws Refused DATA_CORRUPT, naming the effect
 */
export function verifiedEffect<Row extends EffectRow | TombstoneRow>(
  rows: Draft | WorkingSet,
  effect: Row,
): Row {
  const entry = rows.get('audit_entries', effect.lastSeq);
  const said = entry && rows.codec.decodeEffect(entry.entry);
  const agrees =
    entry !== undefined &&
    sameDigest(leafHash(entry.entry), entry.leafHash) &&
    said?.effectId === effect.effectId &&
    said.step === effect.step &&
    said.toState === effect.state &&
    said.fence === effect.fence;
  if (agrees) return effect;
  throw new Refused(
    refusal('DATA_CORRUPT', 'The stored effect contradicts its audit entry.', {
      metadata: { record: `effect/${effect.effectId}` },
    }),
  );
}

/** The effect, verified; undefined where there is none. Needs the reads `effects` or `effectContext`. */
export function readEffect(rows: Draft | WorkingSet, effectId: string): EffectRow | undefined {
  const effect = rows.get('effects', effectId);
  return effect && verifiedEffect(rows, effect);
}

import { canonicalDigest } from '../encoding.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Digest, EffectState } from '../types.js';
import type { Draft } from '../working-set.js';
import type { GrantHolder } from '../authority/grant-rules.js';
import type { EffectRow, TombstoneRow } from './records.js';
import { verifiedEffect } from './verified-effect.js';

/**
 * What an effect is about (effects.md, Reserve 5). An explicit key and the default one live in namespaces that cannot
 * reach each other.
 */
export function effectKeyDigest(input: {
  readonly effectKey: string;
  readonly eventId: string;
  readonly resource: string;
}): Digest {
  return input.effectKey === ''
    ? canonicalDigest('surety-effect-key-default-v1', [input.eventId, input.resource])
    : canonicalDigest('surety-effect-key-explicit-v1', [input.effectKey]);
}

/** Whether an effect in this state holds its key. `repeatable`: the effect and its grant both say so. */
export function holdsKey(state: EffectState, repeatable: boolean): boolean {
  if (state === 'SUCCEEDED') return !repeatable;
  return state !== 'FAILED' && state !== 'CANCELLED';
}

/**
 * Whether something stands in the way of a new effect under the key, live or archived. Its id is told only to its own actor.
 * Needs the read `effectKeys`.
 *
 * @param repeatable whether the new request and its grant both say that it may be repeated
 */
export function effectKeyRefusal(
  draft: Draft,
  key: { readonly sink: string; readonly keyDigest: Digest },
  asker: GrantHolder,
  repeatable: boolean,
): Refusal | undefined {
  const holder = draft.find('keyHolder', key.sink, key.keyDigest)[0];
  if (holder) {
    const effect = verifiedEffect(draft, holder);
    return effect.state === 'SUCCEEDED' ? done(effect, asker) : busy(effect, asker);
  }
  const succeeded = draft.find('keySucceeded', key.sink, key.keyDigest)[0];
  if (succeeded && !repeatable) return done(succeeded, asker);
  const archived = draft.find('keyArchived', key.sink, key.keyDigest);
  const inTheWay = archived.find((one) => one.holdsKey) ?? (repeatable ? undefined : archived[0]);
  return inTheWay && done(inTheWay, asker);
}

function busy(effect: EffectRow, asker: GrantHolder): Refusal {
  return refusal('EFFECT_KEY_BUSY', 'A live effect holds the effect key.', {
    metadata: { state: effect.state, ...idIfOwn(effect, asker) },
  });
}

function done(effect: EffectRow | TombstoneRow, asker: GrantHolder): Refusal {
  return refusal('EFFECT_KEY_DONE', 'The change that the effect key is about was made.', {
    metadata: { state: effect.state, ...idIfOwn(effect, asker) },
  });
}

function idIfOwn(effect: EffectRow | TombstoneRow, asker: GrantHolder): { effect_id?: string } {
  const own =
    effect.harnessId === asker.harnessId &&
    effect.actorKind === asker.actorKind &&
    effect.actorId === asker.actorId;
  return own ? { effect_id: effect.effectId } : {};
}

import type { CommandBase } from '../decision.js';
import { type Refusal, refusal } from '../refusal.js';
import { type Draft, fenceIncarnation } from '../working-set.js';
import { takeStep } from './effect-step.js';
import { DEFAULT_SEND_WINDOW } from './limits.js';
import type { EffectRow } from './records.js';
import { isGrantCurrent } from './rules/grant-currency.js';

/**
 * Whether the store shows an effect as PREPARED only because it was brought back from a backup: it was reserved in an
 * earlier incarnation, and may have been done since (effects.md, Restore).
 */
export function isBroughtBack(draft: Draft, effect: EffectRow): boolean {
  return effect.state === 'PREPARED' && fenceIncarnation(effect.fence) < draft.facts.incarnation;
}

/** EFFECT_MUST_RECONCILE where nobody may start or cancel the effect as what the store shows it as. */
export function broughtBackRefusal(draft: Draft, effect: EffectRow): Refusal | undefined {
  if (!isBroughtBack(draft, effect)) return undefined;
  return refusal(
    'EFFECT_MUST_RECONCILE',
    'The store was brought back from a backup: only an independent reconciler settles the effect.',
    { metadata: { state: effect.state }, resource: { type: 'effect', name: effect.effectId } },
  );
}

/**
 * Takes an effect that was brought back one step towards UNKNOWN, through EXECUTING, since no other edge exists
 * (effects.md, Restore): it counts as started now, and nobody is its executor. Needs the read `effectContext`.
 *
 * @returns whether there was a step to take
 */
export function takeRestoreStep(
  draft: Draft,
  effect: EffectRow,
  { commandId }: Pick<CommandBase, 'commandId'>,
): boolean {
  const audit = { commandId, grantCurrent: isGrantCurrent(draft, effect) };
  if (isBroughtBack(draft, effect)) {
    takeStep(
      draft,
      effect,
      {
        state: 'EXECUTING',
        stateSource: 'restore',
        attemptId: restoreAttemptId(draft.facts.incarnation, effect.effectId),
        startedAt: draft.now,
        // Nobody executes it, so it is lost at once: where the restore was interrupted, the sweep goes on from here.
        lostAt: draft.now,
        sendWindow: draft.get('sinks', effect.sink)?.sendWindow ?? DEFAULT_SEND_WINDOW,
      },
      audit,
    );
    return true;
  }
  if (effect.state !== 'EXECUTING' || effect.stateSource !== 'restore') return false;
  takeStep(
    draft,
    effect,
    { state: 'UNKNOWN', stateSource: 'restore', unknownAt: draft.now, evidenceDigest: null },
    audit,
  );
  return true;
}

/** The attempt that an effect counts as started under, so that a reconciler has one to name. */
export function restoreAttemptId(incarnation: bigint, effectId: string): string {
  return `restore:${incarnation}:${effectId}`;
}

import { type Refusal, refusal } from '../../refusal.js';
import type { EffectRow } from '../records.js';
import type { TransitionKind } from '../transition-command.js';

/** Transition rule 5 (effects.md): the current state is the edge's from-state. */
export function fromStateRefusal(kind: TransitionKind, effect: EffectRow): Refusal | undefined {
  if (effect.state === kind.from) return undefined;
  if (kind.rpc === 'acknowledge' && effect.state === 'UNKNOWN') {
    return refusal(
      'EFFECT_MUST_RECONCILE',
      'The outcome is unknown: only an independent reconciler settles it.',
      {
        metadata: { state: effect.state },
        resource: { type: 'effect', name: effect.effectId },
      },
    );
  }
  return stateConflict(effect);
}

/** EFFECT_STATE_CONFLICT, with the state found and what led to it. */
export function stateConflict(effect: EffectRow): Refusal {
  return refusal('EFFECT_STATE_CONFLICT', 'The effect is in another state.', {
    metadata: { state: effect.state, source: effect.stateSource },
    resource: { type: 'effect', name: effect.effectId },
  });
}

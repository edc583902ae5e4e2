import { admitExecution } from '../../admission/admit-effect.js';
import { harnessRefusal, ownerRefusal } from '../../authority/current-actor.js';
import { type Refusal, refusal } from '../../refusal.js';
import type { Draft } from '../../working-set.js';
import { broughtBackRefusal } from '../brought-back.js';
import { frozenRefusal } from '../frozen.js';
import { eventRecordRefusal } from '../parent-event.js';
import type { EffectRow } from '../records.js';

/**
 * Transition rule 11 (effects.md), only at a start: it is not one that came back from a backup (effects.md, Restore), it
 * is not too late, nothing is frozen, whoever reserved is still in force, the event's provenance record still matches, and
 * then admission, which counts the start.
 */
export function startConditionRefusal(draft: Draft, effect: EffectRow): Refusal | undefined {
  const broughtBack = broughtBackRefusal(draft, effect);
  if (broughtBack) return broughtBack;
  if (draft.now >= effect.startBefore) {
    return refusal('START_TOO_LATE', 'The effect was to be started earlier.');
  }
  return (
    frozenRefusal(draft, effect.sink) ??
    reservingActorRefusal(draft, effect) ??
    eventRecordRefusal(draft, draft.get('events', effect.eventId)) ??
    admitExecution(draft, effect)
  );
}

function reservingActorRefusal(draft: Draft, effect: EffectRow): Refusal | undefined {
  const harness = draft.get('harnesses', effect.harnessId);
  const ended = harness
    ? (harnessRefusal(harness) ?? ownerRefusal(draft, harness, draft.now))
    : refusal('HARNESS_MISSING', 'The harness does not exist.');
  if (!ended) return undefined;
  return refusal('ACTOR_NOT_CURRENT', 'Whoever reserved the effect is no longer in force.', {
    metadata: { rule: ended.reason },
  });
}

import { countSafetyCall, harnessActor } from '../admission/admit-call.js';
import { currentActor } from '../authority/current-actor.js';
import { CANCEL_ACTION, CANCEL_REQUEST_DIGEST } from '../authority/cancel-decision.js';
import { useDecision, usableDecision } from '../authority/usable-decision.js';
import { accept, type CommandBase, type Decision, refuse } from '../decision.js';
import { refusal } from '../refusal.js';
import type { Caller } from '../types.js';
import { broughtBackRefusal } from './brought-back.js';
import { takeStep } from './effect-step.js';
import { releasePendingWork } from './pending-work.js';
import { stateConflict } from './rules/from-state.js';
import { archivedRefusal } from './tombstone.js';
import type { TransitionReply } from './transition-command.js';
import { verifiedEffect } from './verified-effect.js';

export interface CancelEffectCommand extends CommandBase {
  readonly caller: Caller;
  readonly effectId: string;
  /** Empty: only for repeating one's own cancel. */
  readonly decisionId: string;
}

/** effects.md, Cancel: PREPARED to CANCELLED, by the reserving actor, on a decision of its own. */
export const cancelEffect: Decision<CancelEffectCommand, TransitionReply> = {
  kind: 'effect.cancel',
  serializeBy: (command) => command.effectId,
  reads: (command) => ({
    callerHarness: [command.caller.spiffeId],
    effectContext: [command.effectId],
    ...(command.decisionId === '' ? {} : { decisions: [command.decisionId] }),
  }),
  decide(draft, command) {
    const result = currentActor(draft, command.caller);
    if ('refused' in result) return refuse(result.refused);
    const { actor } = result;
    const stored = draft.get('effects', command.effectId);
    const archived = stored ? undefined : draft.get('effect_tombstones', command.effectId);
    const place = stored ?? archived;
    const own =
      place?.harnessId === actor.harness.harnessId &&
      place.actorKind === actor.kind &&
      place.actorId === actor.id;
    if (archived && own) return refuse(archivedRefusal(verifiedEffect(draft, archived)));
    if (!stored || !own) {
      return refuse(refusal('NOT_VISIBLE', 'There is no such effect, or the caller may not see it.'));
    }
    const effect = verifiedEffect(draft, stored);
    if (effect.state === 'CANCELLED' && effect.stateSource === 'actor')
      return accept({ effect, duplicate: true });
    if (effect.state !== 'PREPARED') return refuse(stateConflict(effect));
    const broughtBack = broughtBackRefusal(draft, effect);
    if (broughtBack) return refuse(broughtBack);
    if (command.decisionId === '') {
      return refuse(
        refusal('DECISION_NOT_USABLE', 'A cancel needs a decision.', { metadata: { rule: 'decision' } }),
      );
    }
    const usable = usableDecision(draft, command.decisionId, {
      actor,
      action: CANCEL_ACTION,
      resource: effect.effectId,
      requestDigest: CANCEL_REQUEST_DIGEST,
    });
    if ('refused' in usable) return refuse(usable.refused);
    useDecision(draft, usable.decision, `${CANCEL_ACTION}:${effect.effectId}`);
    countSafetyCall(draft, harnessActor(effect.harnessId));
    releasePendingWork(draft, effect.effectId);
    const next = takeStep(
      draft,
      effect,
      { state: 'CANCELLED', stateSource: 'actor', settledAt: draft.now, holdsKey: false },
      {
        commandId: command.commandId,
        actorSpiffeId: command.caller.spiffeId,
        decisionId: command.decisionId,
      },
    );
    return accept({ effect: next, duplicate: false });
  },
};

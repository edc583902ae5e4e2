import { accept, type Decision } from '../decision.js';
import { restoreAttemptId, takeRestoreStep } from './brought-back.js';
import type { SweepCommand, SweepReply } from './expire-effect.js';
import { readEffect } from './verified-effect.js';

/** What a step of a restore came to. */
export interface RestoreReply extends SweepReply {
  /** Whether the present incarnation's restore moved it, by this step or by an earlier one: it was PREPARED in the backup. */
  readonly moved: boolean;
}

/**
 * effects.md, Restore: one step of an effect that was PREPARED in the backup towards UNKNOWN. It takes two: to EXECUTING,
 * then to UNKNOWN. The work stays pending, and its key held. What was EXECUTING in the backup is left to the sweep that
 * finds its executor lost, and what is settled stays.
 */
export const restoreEffect: Decision<SweepCommand, RestoreReply> = {
  kind: 'effect.restore',
  serializeBy: (command) => command.effectId,
  reads: (command) => ({ effectContext: [command.effectId] }),
  decide(draft, command) {
    const effect = readEffect(draft, command.effectId);
    const changed = effect !== undefined && takeRestoreStep(draft, effect, command);
    const attemptId = restoreAttemptId(draft.facts.incarnation, command.effectId);
    return accept({ changed, moved: draft.get('effects', command.effectId)?.attemptId === attemptId });
  },
};

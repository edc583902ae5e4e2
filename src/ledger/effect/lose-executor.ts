import { accept, type Decision } from '../decision.js';
import { takeRestoreStep } from './brought-back.js';
import { takeStep } from './effect-step.js';
import type { SweepCommand, SweepReply } from './expire-effect.js';
import { isGrantCurrent } from './rules/grant-currency.js';
import { readEffect } from './verified-effect.js';

/**
 * effects.md, Executor lost: EXECUTING past its execution deadline goes to UNKNOWN. The work stays pending. What a restore
 * that was interrupted left as EXECUTING takes the restore's second step.
 */
export const loseExecutor: Decision<SweepCommand, SweepReply> = {
  kind: 'effect.lose_executor',
  serializeBy: (command) => command.effectId,
  reads: (command) => ({ effectContext: [command.effectId] }),
  decide(draft, command, now) {
    const effect = readEffect(draft, command.effectId);
    const lost = effect?.state === 'EXECUTING' && effect.lostAt !== null && now >= effect.lostAt;
    if (!effect || !lost) return accept({ changed: false });
    if (takeRestoreStep(draft, effect, command)) return accept({ changed: true });
    takeStep(
      draft,
      effect,
      { state: 'UNKNOWN', stateSource: 'executor_lost', unknownAt: now, evidenceDigest: null },
      { commandId: command.commandId, grantCurrent: isGrantCurrent(draft, effect) },
    );
    return accept({ changed: true });
  },
};

import { accept, type CommandBase, type Decision } from '../decision.js';
import { isBroughtBack, takeRestoreStep } from './brought-back.js';
import { takeStep } from './effect-step.js';
import { releasePendingWork } from './pending-work.js';
import { isGrantCurrent } from './rules/grant-currency.js';
import { readEffect } from './verified-effect.js';

/** A candidate of the sweep: judged again in the transaction. */
export interface SweepCommand extends CommandBase {
  readonly effectId: string;
}

/** Whether the sweep changed the effect. */
export interface SweepReply {
  readonly changed: boolean;
}

/**
 * effects.md, Start before: a PREPARED effect past it, or whose grant was revoked or went stale, is cancelled and its
 * pending work released. The use stays consumed. One that a restore has not come to yet may have been done: it goes the
 * restore's way.
 */
export const expireEffect: Decision<SweepCommand, SweepReply> = {
  kind: 'effect.expire',
  serializeBy: (command) => command.effectId,
  reads: (command) => ({ effectContext: [command.effectId] }),
  decide(draft, command, now) {
    const effect = readEffect(draft, command.effectId);
    if (effect?.state !== 'PREPARED') return accept({ changed: false });
    if (isBroughtBack(draft, effect)) return accept({ changed: takeRestoreStep(draft, effect, command) });
    if (now < effect.startBefore && isGrantCurrent(draft, effect)) return accept({ changed: false });
    releasePendingWork(draft, effect.effectId);
    takeStep(
      draft,
      effect,
      { state: 'CANCELLED', stateSource: 'expiry', settledAt: now, holdsKey: false },
      { commandId: command.commandId, grantCurrent: isGrantCurrent(draft, effect) },
    );
    return accept({ changed: true });
  },
};

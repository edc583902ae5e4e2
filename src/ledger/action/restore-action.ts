import { accept, type CommandBase, type Decision } from '../decision.js';
import { endAmbiguous } from './end-action.js';
import { readAction } from './verified-action.js';

/** An action that a restore has found; judged again. */
export interface RestoreAction extends CommandBase {
  readonly actionId: string;
}

/**
 * effects.md, Restore: what was GATED or DISPATCHED in the backup may have been dispatched since, and ends as ambiguous. What
 * came into its state in the present incarnation stays.
 */
export const restoreAction: Decision<RestoreAction, { readonly changed: boolean }> = {
  kind: 'action.restore',
  serializeBy: (command) => command.actionId,
  reads: ({ actionId }) => ({ actions: [actionId] }),
  decide(draft, { actionId, commandId }) {
    const action = readAction(draft, actionId);
    const doubtful =
      (action?.state === 'GATED' || action?.state === 'DISPATCHED') &&
      action.stateIncarnation < draft.facts.incarnation;
    if (!doubtful) return accept({ changed: false });
    endAmbiguous(draft, action, 'restored', { commandId });
    return accept({ changed: true });
  },
};

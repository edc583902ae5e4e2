import { currentReader, notVisible } from '../audit/current-reader.js';
import { accept, type Decision } from '../decision.js';
import { mergeReads } from '../reads.js';
import { Refused } from '../run-decision.js';
import type { Caller } from '../types.js';
import type { Draft } from '../working-set.js';
import type { ReapLease, ReapReply } from './commands.js';
import { reap } from './reap.js';
import { recoveryReads } from './recovery.js';
import { readAction } from './verified-action.js';

/** actions.md, ReapLeases, for one action: by an operator, or by the sweep; found outside and judged again. */
export const reapLease: Decision<ReapLease, ReapReply> = {
  kind: 'action.reap_lease',
  serializeBy: (command) => command.actionId,
  reads: ({ actionId, operator }) =>
    mergeReads([
      { actions: [actionId] },
      recoveryReads(actionId),
      operator ? { operators: [operator.spiffeId], platformOperators: [operator.spiffeId] } : {},
    ]),
  decide(draft, command) {
    if (command.operator) requireOperator(draft, command.operator);
    const action = readAction(draft, command.actionId);
    if (!action) {
      if (command.operator) throw new Refused(notVisible());
      return accept({ outcome: 'nothing', changed: false });
    }
    const outcome = reap(draft, action, {
      commandId: command.commandId,
      actorSpiffeId: command.operator?.spiffeId,
    });
    return accept({ outcome, changed: outcome !== 'nothing' });
  },
};

function requireOperator(draft: Draft, operator: Caller): void {
  const result = currentReader(draft, operator, ['operator']);
  if ('refused' in result) throw new Refused(result.refused);
}

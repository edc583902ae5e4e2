import { accept, type Decision } from '../decision.js';
import type { ExpireProposal } from './commands.js';
import { failAction } from './end-action.js';
import { readAction } from './verified-action.js';

/** actions.md, ProposeAction: past its time a proposal that nobody approved fails by itself. */
export const expireProposal: Decision<ExpireProposal, { readonly changed: boolean }> = {
  kind: 'action.expire_proposal',
  serializeBy: (command) => command.actionId,
  reads: ({ actionId }) => ({ actions: [actionId] }),
  decide(draft, { actionId, commandId }, now) {
    const action = readAction(draft, actionId);
    const due =
      action?.state === 'PROPOSED' && action.proposalExpiresAt !== null && action.proposalExpiresAt <= now;
    if (!action || !due) return accept({ changed: false });
    const failure = {
      reason: 'proposal_expired',
      detail: '',
      resultDigest: null,
      retryable: false,
    } as const;
    failAction(draft, action, failure, { kind: 'expired', commandId });
    return accept({ changed: true });
  },
};

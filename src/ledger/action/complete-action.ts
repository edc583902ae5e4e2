import { accept } from '../decision.js';
import type { Digest } from '../types.js';
import { NO_LEASE, takeEvent } from './action-event.js';
import type { ActionReply, CompleteAction } from './commands.js';
import { requestDigest } from './exact-repeat.js';
import { heldAction, holderReads, requireLease } from './rules/lease.js';
import { counted } from './counted.js';

/** actions.md, CompleteAction: VERIFIED to COMPLETED, with the digest of the result; the lease ends. */
export const completeAction = counted<CompleteAction, ActionReply>('safety', {
  kind: 'action.complete',
  serializeBy: (command) => command.actionId,
  reads: (command) => holderReads(command, digestOf(command)),
  decide(draft, command) {
    const request = digestOf(command);
    const { action, repeated } = heldAction(draft, command, request);
    if (repeated) return accept({ action, duplicate: true });
    requireLease(draft, action, command, ['VERIFIED']);
    const { resultDigest } = command;
    const completed = takeEvent(
      draft,
      action,
      { ...NO_LEASE, state: 'COMPLETED', resultDigest, endedAt: draft.now },
      {
        kind: 'completed',
        commandId: command.commandId,
        actorSpiffeId: command.caller.spiffeId,
        leaseToken: action.leaseToken,
        requestDigest: request,
      },
    );
    return accept({ action: completed, duplicate: false });
  },
});

function digestOf(command: CompleteAction): Digest {
  return requestDigest('CompleteAction', command.caller.spiffeId, [
    command.actionId,
    command.leaseToken,
    command.resultDigest,
  ]);
}

import { accept } from '../decision.js';
import type { Digest } from '../types.js';
import { NO_LEASE, takeEvent } from './action-event.js';
import type { ActionReply, DeferLeased } from './commands.js';
import { requestDigest } from './exact-repeat.js';
import { heldAction, holderReads, requireLease } from './rules/lease.js';
import { LEASABLE_STATES } from './states.js';
import { counted } from './counted.js';

/** actions.md, DeferLeased: lets a GATED, ACCEPTED or VERIFIED action go until later. */
export const deferLeased = counted<DeferLeased, ActionReply>('safety', {
  kind: 'action.defer_leased',
  serializeBy: (command) => command.actionId,
  reads: (command) => holderReads(command, digestOf(command)),
  decide(draft, command) {
    const request = digestOf(command);
    const { action, repeated } = heldAction(draft, command, request);
    if (repeated) return accept({ action, duplicate: true });
    requireLease(draft, action, command, LEASABLE_STATES);
    const deferred = takeEvent(
      draft,
      action,
      { ...NO_LEASE, nextAttemptAt: draft.now + command.delay },
      {
        kind: 'deferred',
        commandId: command.commandId,
        actorSpiffeId: command.caller.spiffeId,
        leaseToken: action.leaseToken,
        requestDigest: request,
      },
    );
    return accept({ action: deferred, duplicate: false });
  },
});

function digestOf(command: DeferLeased): Digest {
  return requestDigest('DeferLeased', command.caller.spiffeId, [
    command.actionId,
    command.leaseToken,
    command.delay,
  ]);
}

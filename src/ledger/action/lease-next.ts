import { accept } from '../decision.js';
import { currentWorker } from './action-callers.js';
import type { LeaseNext, LeaseReply } from './commands.js';
import { reapExpired } from './reap.js';
import { leaseReads, leaseRequestDigest, readyInScope, repeatedLease, takeLease } from './take-lease.js';
import { isUnchanged, requireUnchanged } from './verified-action.js';
import { counted } from './counted.js';

/** actions.md, LeaseNext: the next action that is ready in a scope; never a DISPATCHED one (I6). */
export const leaseNext = counted<LeaseNext, LeaseReply>('safety', {
  kind: 'action.lease_next',
  reads: (command) => leaseReads(command, command.states),
  decide(draft, command) {
    const worker = currentWorker(draft, command);
    const digest = leaseRequestDigest('LeaseNext', command, command.states);
    const repeated = repeatedLease(draft, command, digest);
    if (repeated) return accept(repeated);
    reapExpired(draft, { commandId: command.commandId });
    const ready = readyInScope(draft, command.scope, command.states);
    // A row that was changed behind the service's back must not stop the others; with nothing else it is named.
    const next = ready.find((action) => isUnchanged(draft.domainId, action)) ?? ready[0];
    if (!next) return accept({ leased: undefined, duplicate: false });
    const action = requireUnchanged(draft.domainId, next);
    return accept(takeLease(draft, action, command, worker, { kind: 'leased', requestDigest: digest }));
  },
});

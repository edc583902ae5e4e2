import { accept } from '../decision.js';
import type { Draft } from '../working-set.js';
import { currentWorker } from './action-callers.js';
import type { LeaseObservation, ObservationLeaseReply } from './commands.js';
import { endAmbiguous } from './end-action.js';
import { ENDED_PER_LEASE } from './limits.js';
import { reapExpired } from './reap.js';
import type { ActionRow } from './records.js';
import { ambiguity } from './recovery.js';
import type { ActionState } from './states.js';
import { leaseReads, leaseRequestDigest, readyInScope, repeatedLease, takeLease } from './take-lease.js';
import { isUnchanged } from './verified-action.js';
import { counted } from './counted.js';

const DISPATCHED: readonly ActionState[] = ['DISPATCHED'];

/**
 * actions.md, LeaseObservation: the only way to lease a DISPATCHED action. Those that cannot be observed any more are ended as
 * ambiguous on the way, and skipped.
 */
export const leaseObservation = counted<LeaseObservation, ObservationLeaseReply>('safety', {
  kind: 'action.lease_observation',
  reads: (command) => leaseReads(command, DISPATCHED),
  decide(draft, command) {
    const worker = currentWorker(draft, command);
    const digest = leaseRequestDigest('LeaseObservation', command, DISPATCHED);
    const repeated = repeatedLease(draft, command, digest);
    if (repeated) return accept({ ...repeated, ended: 0 });
    let ended = reapExpired(draft, { commandId: command.commandId });
    for (const action of observable(draft, command)) {
      const reason = ambiguity(draft, action);
      if (reason === undefined) {
        const event = { kind: 'observation_leased', requestDigest: digest } as const;
        return accept({ ...takeLease(draft, action, command, worker, event), ended });
      }
      if (ended >= ENDED_PER_LEASE) break;
      endAmbiguous(draft, action, reason, {
        commandId: command.commandId,
        actorSpiffeId: command.caller.spiffeId,
      });
      ended += 1;
    }
    return accept({ leased: undefined, duplicate: false, ended });
  },
});

/** What is in scope and has its contract and journal read; what a command before it in the batch let go waits for the next. */
function observable(draft: Draft, { scope }: LeaseObservation): ActionRow[] {
  return readyInScope(draft, scope, DISPATCHED).filter(
    (action) =>
      isUnchanged(draft.domainId, action) &&
      draft.isGathered('receiptsOf', action.actionId, 'recovery') &&
      draft.isGathered('receiptsOf', action.actionId, 'observation'),
  );
}

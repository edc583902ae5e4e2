import { accept } from '../decision.js';
import { sameDigest } from '../encoding.js';
import { mergeReads } from '../reads.js';
import type { Digest, Micros } from '../types.js';
import { NO_LEASE, takeEvent } from './action-event.js';
import type { ActionReply, DeferObservation } from './commands.js';
import { endAmbiguous } from './end-action.js';
import { requestDigest } from './exact-repeat.js';
import { exhaustion, readRecovery, recoveryReads } from './recovery.js';
import { heldAction, holderReads, requireExpected, requireLease } from './rules/lease.js';
import { counted } from './counted.js';

/**
 * actions.md, DeferObservation: lets a DISPATCHED action go until later, at the latest until its window ends; where nothing is
 * left to observe with, it ends as ambiguous.
 */
export const deferObservation = counted<DeferObservation, ActionReply>('safety', {
  kind: 'action.defer_observation',
  serializeBy: (command) => command.actionId,
  reads: (command) => mergeReads([holderReads(command, digestOf(command)), recoveryReads(command.actionId)]),
  decide(draft, command) {
    const request = digestOf(command);
    const { action, repeated } = heldAction(draft, command, request);
    if (repeated) return accept({ action, duplicate: true });
    requireLease(draft, action, command, ['DISPATCHED']);
    requireExpected(
      sameDigest(action.executionDigest ?? undefined, command.executionDigest),
      'execution_digest',
    );
    const detail = {
      commandId: command.commandId,
      actorSpiffeId: command.caller.spiffeId,
      requestDigest: request,
    };
    const recovery = readRecovery(draft, action);
    if ('invalid' in recovery) {
      const ended = endAmbiguous(draft, action, recovery.invalid, detail);
      return accept({ action: ended, duplicate: false });
    }
    requireExpected(recovery.observations.length === command.observationNumber, 'observation_number');
    const reason = exhaustion(recovery, draft.now);
    if (reason !== undefined) {
      return accept({ action: endAmbiguous(draft, action, reason, detail), duplicate: false });
    }
    const nextAttemptAt = earlier(draft.now + command.delay, recovery.contract.deadline);
    const deferred = takeEvent(
      draft,
      action,
      { ...NO_LEASE, nextAttemptAt },
      { ...detail, kind: 'deferred', leaseToken: action.leaseToken },
    );
    return accept({ action: deferred, duplicate: false });
  },
});

function earlier(a: Micros, b: Micros): Micros {
  return a < b ? a : b;
}

function digestOf(command: DeferObservation): Digest {
  return requestDigest('DeferObservation', command.caller.spiffeId, [
    command.actionId,
    command.leaseToken,
    command.executionDigest,
    command.observationNumber,
    command.delay,
  ]);
}

import { accept } from '../decision.js';
import { sameDigest } from '../encoding.js';
import { mergeReads } from '../reads.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Draft } from '../working-set.js';
import { takeEvent } from './action-event.js';
import type { BeginObservation, BeginObservationReply } from './commands.js';
import { endAmbiguous } from './end-action.js';
import type { ActionReceiptRow, ActionRow } from './records.js';
import { exhaustion, putObservation, readRecovery, recoveryReads } from './recovery.js';
import { heldAction, holderReads, requireExpected, requireLease } from './rules/lease.js';
import { counted } from './counted.js';

/**
 * actions.md, BeginObservation: observation N is journalled before the read is made (I7). Where none is left, or contract or
 * journal are not valid, the action ends as ambiguous and there is no receipt.
 */
export const beginObservation = counted<BeginObservation, BeginObservationReply>('safety', {
  kind: 'action.begin_observation',
  serializeBy: (command) => command.actionId,
  reads: (command) => mergeReads([holderReads(command), recoveryReads(command.actionId)]),
  decide(draft, command) {
    const { action } = heldAction(draft, command);
    const journalled = repeatedObservation(draft, action, command);
    if (journalled) return accept(journalled);
    requireLease(draft, action, command, ['DISPATCHED']);
    requireExpected(
      sameDigest(action.executionDigest ?? undefined, command.executionDigest),
      'execution_digest',
    );
    const { commandId, caller } = command;
    const recovery = readRecovery(draft, action);
    const reason = 'invalid' in recovery ? recovery.invalid : exhaustion(recovery, draft.now);
    if ('invalid' in recovery || reason !== undefined) {
      const detail = { commandId, actorSpiffeId: caller.spiffeId };
      const ended = endAmbiguous(draft, action, reason as NonNullable<typeof reason>, detail);
      return accept({ action: ended, observation: undefined, observationNumber: 0, duplicate: false });
    }
    const by = { spiffeId: caller.spiffeId, requestId: command.requestId };
    const observation = putObservation(draft, action, recovery, by);
    const observationNumber = recovery.observations.length + 1;
    const next = takeEvent(
      draft,
      action,
      { observationCount: observationNumber },
      {
        kind: 'observation_started',
        commandId,
        actorSpiffeId: caller.spiffeId,
        leaseToken: action.leaseToken,
        receipt: observation,
        observationNumber,
      },
    );
    return accept({ action: next, observation, observationNumber, duplicate: false });
  },
});

/** The attempt that the same request of the same caller journalled. */
function repeatedObservation(
  draft: Draft,
  action: ActionRow,
  command: BeginObservation,
): BeginObservationReply | undefined {
  const journal = inOrder(draft.find('receiptsOf', action.actionId, 'observation'));
  const index = journal.findIndex(({ requestId }) => requestId === command.requestId);
  const observation = journal[index];
  if (!observation) return undefined;
  const same =
    observation.actorSpiffeId === command.caller.spiffeId &&
    observation.externalId === command.executionDigest.toString('hex');
  if (!same) {
    throw new Refused(refusal('REQUEST_ID_CONFLICT', 'The request id was used for another request.'));
  }
  return { action, observation, observationNumber: index + 1, duplicate: true };
}

function inOrder(rows: ActionReceiptRow[]): ActionReceiptRow[] {
  return rows.sort((a, b) => (a.eventNumber < b.eventNumber ? -1 : 1));
}

import { accept } from '../decision.js';
import { mergeReads } from '../reads.js';
import type { Digest } from '../types.js';
import type { FailAction, FailActionReply } from './commands.js';
import { failAction as fail } from './end-action.js';
import { requestDigest } from './exact-repeat.js';
import type { DeadLetterRow } from './records.js';
import { heldAction, holderReads, requireLease } from './rules/lease.js';
import { WORKED_STATES } from './states.js';
import { counted } from './counted.js';

/** actions.md, FailAction: by the leaseholder, from any state that it works in, for ever (I10). */
export const failAction = counted<FailAction, FailActionReply>('safety', {
  kind: 'action.fail',
  serializeBy: (command) => command.actionId,
  reads: (command) =>
    mergeReads([holderReads(command, digestOf(command)), { deadLetters: [command.actionId] }]),
  decide(draft, command) {
    const request = digestOf(command);
    const { action, repeated } = heldAction(draft, command, request);
    if (repeated) {
      const deadLetter = draft.get('dead_letters', action.actionId) as DeadLetterRow;
      return accept({ action, deadLetter, duplicate: true });
    }
    requireLease(draft, action, command, [...WORKED_STATES]);
    const { detail, resultDigest, retryable, commandId, caller } = command;
    const failure = { reason: 'worker', detail, resultDigest, retryable } as const;
    const failed = fail(draft, action, failure, {
      kind: 'failed',
      commandId,
      actorSpiffeId: caller.spiffeId,
      requestDigest: request,
    });
    return accept({ ...failed, duplicate: false });
  },
});

function digestOf(command: FailAction): Digest {
  return requestDigest('FailAction', command.caller.spiffeId, [
    command.actionId,
    command.leaseToken,
    command.detail,
    command.resultDigest ?? undefined,
    command.retryable,
  ]);
}

import { accept } from '../decision.js';
import { sameDigest, sha256 } from '../encoding.js';
import { mergeReads } from '../reads.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import { beginAction, NO_LEASE } from './action-event.js';
import { callerReads, currentCaller } from './action-callers.js';
import { actionDigest } from './action-digest.js';
import type { ActionReply, ProposeAction } from './commands.js';
import { requireNoFault } from './fields-invalid.js';
import { payloadFault } from './payload.js';
import type { ActionRow } from './records.js';
import { requireUnchanged } from './verified-action.js';
import { counted } from './counted.js';

/** actions.md, ProposeAction: idempotent by the proposer's key, which is unique in the domain. */
export const proposeAction = counted<ProposeAction, ActionReply>('ordinary', {
  kind: 'action.propose',
  reads: (command) =>
    mergeReads([callerReads(command), { actions: [command.actionId], actionKeys: [command.idempotencyKey] }]),
  decide(draft, command, now) {
    const { keys } = currentCaller(draft, command);
    requireNoFault(payloadFault(command.payload, command.toolName, 'payload'));
    const [stored] = draft.find('actionOfKey', command.idempotencyKey);
    if (stored) {
      requireSameProposal(requireUnchanged(draft.domainId, stored), command);
      return accept({ action: stored, duplicate: true });
    }
    const { caller, proposalTtl } = command;
    const identity = {
      actionId: command.actionId,
      idempotencyKey: command.idempotencyKey,
      source: command.source,
      sourceRef: command.sourceRef,
      type: command.type,
      toolName: command.toolName,
      payloadDigest: sha256(command.payload),
    };
    const first: ActionRow = {
      ...identity,
      ...NEW_ACTION,
      payload: command.payload,
      actionDigest: actionDigest(draft.domainId, identity),
      createdAt: now,
      proposerSpiffeId: caller.spiffeId,
      proposerKeys: keys,
      proposalTtl,
      proposalExpiresAt: proposalTtl === null ? null : now + proposalTtl,
      updatedAt: now,
      nextAttemptAt: now,
    };
    const action = beginAction(draft, first, {
      kind: 'proposed',
      commandId: command.commandId,
      actorSpiffeId: caller.spiffeId,
    });
    return accept({ action, duplicate: false });
  },
});

/** What every action begins with. Its place in the log is given when it is stored. */
const NEW_ACTION = {
  ...NO_LEASE,
  maxAttempts: 1,
  state: 'PROPOSED',
  stateIncarnation: 0n,
  attemptCount: 0,
  dispatchedAt: null,
  dispatchEvent: null,
  executionDigest: null,
  observationDeadline: null,
  maxObservations: null,
  observationCount: 0,
  effectId: null,
  acceptanceReceiptKey: null,
  resultDigest: null,
  failureReason: null,
  retryable: false,
  endedAt: null,
  receiptCount: 0,
  eventCount: 1n,
  proposedSeq: 0n,
  lastSeq: 0n,
} as const satisfies Partial<ActionRow>;

function requireSameProposal(stored: ActionRow, command: ProposeAction): void {
  const field = differingField(stored, command);
  if (field === undefined) return;
  throw new Refused(
    refusal('ACTION_IDEMPOTENCY_CONFLICT', 'The idempotency key stands for another action.', {
      metadata: { field },
      resource: { type: 'action', name: command.idempotencyKey },
    }),
  );
}

function differingField(stored: ActionRow, command: ProposeAction): string | undefined {
  // Another proposer learns nothing of what it is.
  if (stored.proposerSpiffeId !== command.caller.spiffeId) return 'proposer';
  if (stored.source !== command.source) return 'source';
  if (stored.sourceRef !== command.sourceRef) return 'source_ref';
  if (stored.type !== command.type) return 'type';
  if (stored.toolName !== command.toolName) return 'tool_name';
  if (!sameDigest(stored.payloadDigest, sha256(command.payload))) return 'payload';
  return stored.proposalTtl === command.proposalTtl ? undefined : 'proposal_ttl';
}

import { accept } from '../decision.js';
import { mergeReads } from '../reads.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Draft } from '../working-set.js';
import { takeEvent } from './action-event.js';
import { callerReads, currentCaller, isParty, requireVisible } from './action-callers.js';
import type { GateAction, ReceiptContent, ReceiptReply } from './commands.js';
import { fieldInvalid, requireNoFault } from './fields-invalid.js';
import {
  type Approver,
  approverColumns,
  requireRoomForGate,
  requireUnused,
  signingOwner,
} from './gate-receipt.js';
import { evidenceFault } from './payload.js';
import { GATE_KIND, putReceipt, sameReceipt } from './receipts.js';
import type { ActionRow } from './records.js';
import { requireApprover } from './rules/approver.js';
import { requireIndependent } from './rules/approver-independence.js';
import { grantNotUsable } from './rules/bounded-grant.js';
import { approvalExpired, namedBoundedGrant } from './rules/gate-evidence.js';
import { stateConflict } from './rules/lease.js';
import { GATE_PASSED } from './states.js';
import { readAction } from './verified-action.js';
import { counted } from './counted.js';

/**
 * actions.md, GateAction: attaches an approval. Who answers for it is judged now, and all of it again when it is used; its
 * evidence is kept verbatim. On GATED it only adds the receipt, and a second gate makes the dispatch impossible.
 */
export const gateAction = counted<GateAction, ReceiptReply>('ordinary', {
  kind: 'action.gate',
  serializeBy: (command) => command.actionId,
  reads: (command) => {
    const { actionId, receiptKey, approvalId, decisionId } = command;
    const grantId = namedBoundedGrant(command.evidence);
    return mergeReads([
      callerReads(command),
      {
        actions: [actionId],
        leaseHolders: [{ actionId, spiffeId: command.caller.spiffeId }],
        actionReceipts: [{ actionId, receiptClass: 'gate', receiptKey }],
        receiptsOf: [{ actionId, receiptClass: 'gate' }],
        approvals: [approvalId],
        gateDecisions: [decisionId],
        ...(grantId === undefined ? {} : { boundedGrants: [grantId] }),
      },
    ]);
  },
  decide(draft, command) {
    const current = currentCaller(draft, command);
    requireNoFault(evidenceFault(command.evidence, 'evidence'));
    const action = visibleAction(draft, command, current);
    const content = contentOf(command);
    const stored = sameReceipt(draft, action.actionId, 'gate', content);
    if (stored) return accept({ action, receipt: stored, duplicate: true });
    if (action.state !== 'PROPOSED' && action.state !== 'GATED') throw stateConflict(action);
    requireTimely(draft, action);
    const approver = approverOf(draft, command, action, current);
    const proposer = { spiffeId: action.proposerSpiffeId, keys: action.proposerKeys };
    requireIndependent(approver, proposer, 'proposer');
    requireUnused(draft, command.approvalId, command.decisionId);
    requireRoomForGate(draft, action.actionId);
    const receipt = putReceipt(draft, action, {
      ...content,
      ...approverColumns(approver),
      receiptClass: 'gate',
      actorSpiffeId: command.caller.spiffeId,
      decisionId: command.decisionId,
    });
    const gated = takeEvent(
      draft,
      action,
      { state: 'GATED' },
      {
        kind: 'gated',
        commandId: command.commandId,
        actorSpiffeId: command.caller.spiffeId,
        receipt,
      },
    );
    return accept({ action: gated, receipt, duplicate: false });
  },
});

/** Owners see what is in their scopes, harnesses what they proposed, workers all that they could lease. */
function visibleAction(
  draft: Draft,
  command: GateAction,
  current: ReturnType<typeof currentCaller>,
): ActionRow {
  const action = readAction(draft, command.actionId);
  requireVisible(
    action !== undefined &&
      (current.as === 'worker' || isParty(draft, command.caller.spiffeId, current, action)),
  );
  return action as ActionRow;
}

/** A proposal whose time is over is approved by nobody, also before a sweep has come by to end it (I11). */
function requireTimely(draft: Draft, { state, proposalExpiresAt }: ActionRow): void {
  const over = state === 'PROPOSED' && proposalExpiresAt !== null && proposalExpiresAt <= draft.now;
  if (over) throw approvalExpired('proposal_expire_time');
}

function contentOf(command: GateAction): ReceiptContent {
  return {
    receiptKey: command.receiptKey,
    kind: GATE_KIND,
    status: GATE_PASSED,
    externalId: command.approvalId,
    evidence: command.evidence,
  };
}

/** The owner who signs, or the one whose bounded grant stands for that. */
function approverOf(
  draft: Draft,
  command: GateAction,
  action: ActionRow,
  current: ReturnType<typeof currentCaller>,
): Approver {
  const grantId = namedBoundedGrant(command.evidence);
  if (grantId !== undefined) {
    if (command.signature) throw fieldInvalid('signature_jws', 'must be empty under a bounded grant');
    return grantingOwner(draft, grantId, action);
  }
  if (current.as !== 'owner') {
    throw new Refused(refusal('OWNER_REQUIRED', 'Only an owner may approve this, or a bounded grant.'));
  }
  if (!command.signature) throw fieldInvalid('signature_jws', 'is required');
  const approver = signingOwner(current, command.signature);
  requireApprover(current.owner, approver.signingKeyThumbprint, action);
  return approver;
}

function grantingOwner(draft: Draft, grantId: string, action: ActionRow): Approver {
  const grant = draft.get('bounded_grants', grantId);
  if (!grant) throw grantNotUsable('missing');
  requireApprover(draft.get('owners', grant.ownerSpiffeId), grant.signingKeyThumbprint, action);
  return {
    spiffeId: grant.ownerSpiffeId,
    keys: grant.ownerKeys,
    signingKeyThumbprint: grant.signingKeyThumbprint,
    signature: null,
    boundedGrantId: grantId,
  };
}

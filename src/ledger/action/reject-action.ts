import { accept } from '../decision.js';
import { mergeReads } from '../reads.js';
import { currentOwner, isParty, partyReads, requireVisible } from './action-callers.js';
import type { ReceiptReply, RejectAction } from './commands.js';
import { failAction } from './end-action.js';
import { requireNoFault } from './fields-invalid.js';
import { approverColumns, requireUnused, signingOwner } from './gate-receipt.js';
import { APPROVAL_FIELDS } from './gate-shapes.js';
import { evidenceFault } from './payload.js';
import { GATE_KIND, putReceipt, sameReceipt } from './receipts.js';
import type { ActionRow } from './records.js';
import { evidenceMembers, gateInvalid, requireApproval } from './rules/gate-evidence.js';
import { stateConflict } from './rules/lease.js';
import { readAction } from './verified-action.js';
import { counted } from './counted.js';

/** The status of a gate that is an owner's refusal. */
export const GATE_REJECTED = 'rejected';

/** actions.md, RejectAction: PROPOSED to FAILED, with the owner's signed decision as a receipt. */
export const rejectAction = counted<RejectAction, ReceiptReply>('safety', {
  kind: 'action.reject',
  serializeBy: (command) => command.actionId,
  reads: (command) => {
    const { actionId, receiptKey, decisionId } = command;
    return mergeReads([
      partyReads(command, actionId),
      { actionReceipts: [{ actionId, receiptClass: 'gate', receiptKey }], gateDecisions: [decisionId] },
    ]);
  },
  decide(draft, command) {
    const current = currentOwner(draft, command);
    requireNoFault(evidenceFault(command.evidence, 'evidence'));
    const found = readAction(draft, command.actionId);
    requireVisible(found !== undefined && isParty(draft, command.caller.spiffeId, current, found));
    const action = found as ActionRow;
    const content = {
      receiptKey: command.receiptKey,
      kind: GATE_KIND,
      status: GATE_REJECTED,
      externalId: command.decisionId,
      evidence: command.evidence,
    };
    const stored = sameReceipt(draft, action.actionId, 'gate', content);
    if (stored) return accept({ action, receipt: stored, duplicate: true });
    if (action.state !== 'PROPOSED') throw stateConflict(action);
    const approver = signingOwner(current, command.signature);
    const members = evidenceMembers(command.evidence);
    if (!members) throw gateInvalid('form');
    if (members.size !== APPROVAL_FIELDS.length) throw gateInvalid('shape');
    const { decisionId } = command;
    requireApproval(draft, action, members, { approvalId: undefined, decisionId, decision: 'rejected' });
    requireUnused(draft, undefined, decisionId);
    const receipt = putReceipt(draft, action, {
      ...content,
      ...approverColumns(approver),
      receiptClass: 'gate',
      actorSpiffeId: command.caller.spiffeId,
      decisionId,
    });
    const failure = { reason: 'rejected', detail: '', resultDigest: null, retryable: false } as const;
    const failed = failAction(draft, action, failure, {
      kind: 'rejected',
      commandId: command.commandId,
      actorSpiffeId: command.caller.spiffeId,
      receipt,
    });
    return accept({ action: failed.action, receipt, duplicate: false });
  },
});

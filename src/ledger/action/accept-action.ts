import { accept } from '../decision.js';
import { sha256 } from '../encoding.js';
import { mergeReads } from '../reads.js';
import type { Digest } from '../types.js';
import { takeEvent } from './action-event.js';
import type { AcceptAction, ReceiptContent, ReceiptReply } from './commands.js';
import { requestDigest } from './exact-repeat.js';
import { generalReceipt, generalReceiptKey } from './receipts.js';
import type { ActionReceiptRow } from './records.js';
import { heldAction, holderReads, requireLease } from './rules/lease.js';
import { requireAfterDispatch } from './rules/witness.js';
import { counted } from './counted.js';

/** actions.md, AcceptAction: DISPATCHED to ACCEPTED, with the receipt of the outside system. */
export const acceptAction = counted<AcceptAction, ReceiptReply>('safety', {
  kind: 'action.accept',
  serializeBy: (command) => command.actionId,
  reads: (command) =>
    mergeReads([
      holderReads(command, digestOf(command)),
      { actionReceipts: [generalReceiptKey(command.actionId, command.receipt)] },
    ]),
  decide(draft, command) {
    const request = digestOf(command);
    const { action, repeated } = heldAction(draft, command, request);
    if (repeated) {
      const { receiptKey } = command.receipt;
      const receipt = draft.get('action_receipts', action.actionId, 'general', receiptKey);
      return accept({ action, receipt: receipt as ActionReceiptRow, duplicate: true });
    }
    requireLease(draft, action, command, ['DISPATCHED']);
    const { spiffeId } = command.caller;
    const { receipt, fresh } = generalReceipt(draft, action, command.receipt, spiffeId);
    requireAfterDispatch(action, receipt);
    const accepted = takeEvent(
      draft,
      action,
      {
        state: 'ACCEPTED',
        acceptanceReceiptKey: receipt.receiptKey,
        receiptCount: action.receiptCount + (fresh ? 1 : 0),
      },
      {
        kind: 'accepted',
        commandId: command.commandId,
        actorSpiffeId: spiffeId,
        leaseToken: action.leaseToken,
        receipt,
        requestDigest: request,
      },
    );
    return accept({ action: accepted, receipt, duplicate: false });
  },
});

function digestOf(command: AcceptAction): Digest {
  return requestDigest('AcceptAction', command.caller.spiffeId, [
    command.actionId,
    command.leaseToken,
    receiptParts(command.receipt),
  ]);
}

/** What a receipt says, as part of a request. */
export function receiptParts(receipt: ReceiptContent) {
  const { receiptKey, kind, status, externalId, evidence } = receipt;
  return [receiptKey, kind, status, externalId, sha256(evidence)];
}

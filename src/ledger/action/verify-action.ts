import { accept } from '../decision.js';
import { mergeReads } from '../reads.js';
import type { Digest } from '../types.js';
import type { Draft } from '../working-set.js';
import { receiptParts } from './accept-action.js';
import { takeEvent } from './action-event.js';
import type { VerifyAction, VerifyActionReply } from './commands.js';
import { requestDigest } from './exact-repeat.js';
import { generalReceipt, generalReceiptKey } from './receipts.js';
import type { ActionRow } from './records.js';
import { heldAction, holderReads, requireLease } from './rules/lease.js';
import { requireWitnesses } from './rules/witness.js';
import { counted } from './counted.js';

/** actions.md, VerifyAction: ACCEPTED to VERIFIED, by the receipts that witness it (I9). */
export const verifyAction = counted<VerifyAction, VerifyActionReply>('safety', {
  kind: 'action.verify',
  serializeBy: (command) => command.actionId,
  reads: (command) => {
    const { actionId, receipt, witnessReceiptKeys } = command;
    const witnesses = witnessReceiptKeys.map((receiptKey) => ({
      actionId,
      receiptClass: 'general',
      receiptKey,
    }));
    return mergeReads([
      holderReads(command, digestOf(command)),
      { actionReceipts: [...witnesses, ...(receipt ? [generalReceiptKey(actionId, receipt)] : [])] },
    ]);
  },
  decide(draft, command) {
    const request = digestOf(command);
    const { action, repeated } = heldAction(draft, command, request);
    if (repeated) return accept({ action, receipt: storedReceipt(draft, action, command), duplicate: true });
    requireLease(draft, action, command, ['ACCEPTED']);
    // The witnesses are judged before the verification's own receipt is there: it is none of itself.
    requireWitnesses(draft, action, command.witnessReceiptKeys);
    const { spiffeId } = command.caller;
    const own = command.receipt && generalReceipt(draft, action, command.receipt, spiffeId);
    const verified = takeEvent(
      draft,
      action,
      { state: 'VERIFIED', receiptCount: action.receiptCount + (own?.fresh === true ? 1 : 0) },
      {
        kind: 'verified',
        commandId: command.commandId,
        actorSpiffeId: spiffeId,
        leaseToken: action.leaseToken,
        receipt: own?.receipt,
        requestDigest: request,
      },
    );
    return accept({ action: verified, receipt: own?.receipt, duplicate: false });
  },
});

function storedReceipt(draft: Draft, { actionId }: ActionRow, { receipt }: VerifyAction) {
  return receipt ? draft.get('action_receipts', actionId, 'general', receipt.receiptKey) : undefined;
}

function digestOf(command: VerifyAction): Digest {
  return requestDigest('VerifyAction', command.caller.spiffeId, [
    command.actionId,
    command.leaseToken,
    command.witnessReceiptKeys,
    command.receipt ? receiptParts(command.receipt) : undefined,
  ]);
}

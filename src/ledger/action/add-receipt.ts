import { accept } from '../decision.js';
import { mergeReads } from '../reads.js';
import type { Draft } from '../working-set.js';
import { takeEvent } from './action-event.js';
import { currentCaller, isParty, partyReads, requireVisible } from './action-callers.js';
import type { AddReceipt, ReceiptReply } from './commands.js';
import { MAX_ADDED_BY_LEASEHOLDER, MAX_ADDED_BY_PARTY } from './limits.js';
import { isLeaseExpired } from './reap.js';
import { generalReceipt, generalReceiptKey } from './receipts.js';
import type { ActionRow } from './records.js';
import { readAction } from './verified-action.js';
import { counted } from './counted.js';

/** actions.md, AddReceipt: by a party, of the general class only. */
export const addReceipt = counted<AddReceipt, ReceiptReply>('ordinary', {
  kind: 'action.add_receipt',
  serializeBy: (command) => command.actionId,
  reads: (command) =>
    mergeReads([
      partyReads(command, command.actionId),
      { actionReceipts: [generalReceiptKey(command.actionId, command.receipt)] },
    ]),
  decide(draft, command) {
    const { spiffeId } = command.caller;
    const current = currentCaller(draft, command);
    const found = readAction(draft, command.actionId);
    requireVisible(found !== undefined && isParty(draft, spiffeId, current, found));
    const action = found as ActionRow;
    const most = mostAdded(draft, action, spiffeId);
    const { receipt, fresh } = generalReceipt(draft, action, command.receipt, spiffeId, most);
    if (!fresh) return accept({ action, receipt, duplicate: true });
    const next = takeEvent(
      draft,
      action,
      { receiptCount: action.receiptCount + 1 },
      { kind: 'receipt_added', commandId: command.commandId, actorSpiffeId: spiffeId, receipt },
    );
    return accept({ action: next, receipt, duplicate: false });
  },
});

/** What settles an action has its place, whatever others have recorded. */
function mostAdded(draft: Draft, action: ActionRow, spiffeId: string): number {
  const holds = action.leaseHolder === spiffeId && !isLeaseExpired(action, draft.now);
  return holds ? MAX_ADDED_BY_LEASEHOLDER : MAX_ADDED_BY_PARTY;
}

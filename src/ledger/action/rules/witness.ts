import { refusal } from '../../refusal.js';
import { Refused } from '../../run-decision.js';
import type { Draft } from '../../working-set.js';
import type { ActionReceiptRow, ActionRow } from '../records.js';

/**
 * Verified means witnessed (actions.md, I9): general receipts of the same action, recorded after the dispatch, the acceptance
 * receipt among them.
 *
 * Needs the read `actionReceipts` of each key.
 *
 * @throws {Refused} WITNESS_INVALID with the rule and the key
 */
export function requireWitnesses(draft: Draft, action: ActionRow, receiptKeys: readonly string[]): void {
  for (const receiptKey of receiptKeys) {
    const receipt = draft.get('action_receipts', action.actionId, 'general', receiptKey);
    if (!receipt) throw witnessInvalid('missing', receiptKey);
    requireAfterDispatch(action, receipt);
  }
  const { acceptanceReceiptKey } = action;
  if (acceptanceReceiptKey === null || !receiptKeys.includes(acceptanceReceiptKey)) {
    throw witnessInvalid('acceptance', acceptanceReceiptKey ?? '');
  }
}

/** @throws {Refused} WITNESS_INVALID where the receipt was recorded before the dispatch, and so can say nothing of it */
export function requireAfterDispatch(action: ActionRow, receipt: ActionReceiptRow): void {
  if (action.dispatchEvent !== null && receipt.eventNumber > action.dispatchEvent) return;
  throw witnessInvalid('before_dispatch', receipt.receiptKey);
}

function witnessInvalid(rule: string, receiptKey: string): Refused {
  return new Refused(
    refusal('WITNESS_INVALID', 'A receipt named is no witness of the action.', {
      metadata: { rule, receipt_key: receiptKey },
    }),
  );
}

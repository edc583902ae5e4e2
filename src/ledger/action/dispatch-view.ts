import { mergeReads, type Reads } from '../reads.js';
import type { Digest } from '../types.js';
import type { Draft } from '../working-set.js';
import type { HolderCommand } from './commands.js';
import type { ActionReceiptRow, ActionRow } from './records.js';
import { heldAction, holderReads, requireLease } from './rules/lease.js';
import { type ReceiptClass, WORKED_STATES } from './states.js';
import { receiptsInOrder, viewDigest } from './view-digest.js';

/** What a validator of the leaseholder's own judges by (actions.md, GetDispatchView). */
export interface DispatchView {
  readonly action: ActionRow;
  readonly receipts: readonly ActionReceiptRow[];
  readonly viewDigest: Digest;
}

const CLASSES: readonly ReceiptClass[] = ['gate', 'recovery', 'observation', 'general'];

/** The rows of a view. */
export function viewReads(command: HolderCommand): Reads {
  const { actionId } = command;
  return mergeReads([
    holderReads(command),
    { receiptsOf: CLASSES.map((receiptClass) => ({ actionId, receiptClass })) },
  ]);
}

/**
 * The view of a leaseholder. A read: it changes nothing. Needs {@link viewReads}.
 *
 * @throws {Refused} as any call of a leaseholder
 */
export function dispatchView(draft: Draft, command: HolderCommand): DispatchView {
  const { action } = heldAction(draft, command);
  requireLease(draft, action, command, [...WORKED_STATES]);
  const receipts = receiptsInOrder(
    CLASSES.flatMap((receiptClass) => draft.find('receiptsOf', action.actionId, receiptClass)),
  );
  return { action, receipts, viewDigest: viewDigest(draft.domainId, action, receipts) };
}

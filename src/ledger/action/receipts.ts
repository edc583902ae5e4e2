import { sameDigest, sha256 } from '../encoding.js';
import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Draft } from '../working-set.js';
import { nextEventNumber } from './action-event.js';
import type { ReceiptContent } from './commands.js';
import { fieldInvalid, requireNoFault } from './fields-invalid.js';
import { MAX_GENERAL_RECEIPTS } from './limits.js';
import { evidenceFault } from './payload.js';
import type { ActionReceiptRow, ActionRow } from './records.js';
import type { ReceiptClass } from './states.js';

export const GATE_KIND = 'gate';
export const RECOVERY_KIND = 'dispatch_recovery';
export const OBSERVATION_KIND = 'dispatch_observation';

/** actions.md, AddReceipt: no general receipt looks like one of these, through whatever door it comes. */
export const RESERVED_KINDS: ReadonlySet<string> = new Set([GATE_KIND, RECOVERY_KIND, OBSERVATION_KIND]);

/** What receipts have that are neither gates nor observations. */
export const PLAIN_RECEIPT = {
  decisionId: null,
  approverSpiffeId: null,
  approverKeys: [],
  signingKeyThumbprint: null,
  signature: null,
  boundedGrantId: null,
  requestId: null,
} as const satisfies Partial<ActionReceiptRow>;

/** Makes and stores a receipt, as the event that comes next records it. */
export function putReceipt(
  draft: Draft,
  action: ActionRow,
  fields: Omit<ActionReceiptRow, 'actionId' | 'evidenceDigest' | 'createdAt' | 'eventNumber'>,
): ActionReceiptRow {
  const row: ActionReceiptRow = {
    ...fields,
    actionId: action.actionId,
    evidenceDigest: sha256(fields.evidence),
    createdAt: draft.now,
    eventNumber: nextEventNumber(action),
  };
  draft.put('action_receipts', row);
  return row;
}

/**
 * The receipt that is stored under the key, where it is the same (actions.md, I2); undefined where there is none.
 *
 * Needs the read `actionReceipts` of the key.
 *
 * @throws {Refused} RECEIPT_CONFLICT where it is another
 */
export function sameReceipt(
  draft: Draft,
  actionId: string,
  receiptClass: ReceiptClass,
  content: ReceiptContent,
): ActionReceiptRow | undefined {
  const stored = draft.get('action_receipts', actionId, receiptClass, content.receiptKey);
  if (!stored) return undefined;
  const field = differingField(stored, content);
  if (field === undefined) return stored;
  const resource = { type: 'receipt', name: content.receiptKey };
  throw new Refused(
    refusal('RECEIPT_CONFLICT', 'The receipt key stands for another receipt.', {
      metadata: { field },
      resource,
    }),
  );
}

function differingField(stored: ActionReceiptRow, content: ReceiptContent): string | undefined {
  if (stored.kind !== content.kind) return 'kind';
  if (stored.status !== content.status) return 'status';
  if (stored.externalId !== content.externalId) return 'external_id';
  return sameDigest(stored.evidenceDigest, sha256(content.evidence)) ? undefined : 'evidence';
}

/** The read that {@link generalReceipt} needs. */
export function generalReceiptKey(actionId: string, receipt: ReceiptContent) {
  return { actionId, receiptClass: 'general', receiptKey: receipt.receiptKey };
}

/**
 * A general receipt that a call brings: the stored one where it is the same, else a new one, which the next event records.
 *
 * @param most so many general receipts the action may have with it
 * @throws {Refused} RECEIPT_CONFLICT, RECEIPT_LIMIT_REACHED, FIELD_INVALID
 */
export function generalReceipt(
  draft: Draft,
  action: ActionRow,
  content: ReceiptContent,
  actorSpiffeId: string,
  most = MAX_GENERAL_RECEIPTS,
): { readonly receipt: ActionReceiptRow; readonly fresh: boolean } {
  requireGeneral(content);
  const stored = sameReceipt(draft, action.actionId, 'general', content);
  if (stored) return { receipt: stored, fresh: false };
  if (action.receiptCount >= most) {
    throw new Refused(refusal('RECEIPT_LIMIT_REACHED', 'The action has as many receipts as it may have.'));
  }
  const receipt = putReceipt(draft, action, {
    ...PLAIN_RECEIPT,
    ...content,
    receiptClass: 'general',
    actorSpiffeId,
  });
  return { receipt, fresh: true };
}

/** @throws {Refused} FIELD_INVALID for a reserved kind, and for evidence that is not I-JSON */
function requireGeneral(content: ReceiptContent): void {
  if (RESERVED_KINDS.has(content.kind)) {
    throw fieldInvalid('receipt.kind', `must not be ${[...RESERVED_KINDS].join(', ')}`);
  }
  requireNoFault(evidenceFault(content.evidence, 'receipt.evidence'));
}

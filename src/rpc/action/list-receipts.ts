import type { ListReceiptsRequest } from '../../gen/surety/action/v1/action_service_pb.js';
import { type Receipt, ReceiptSchema } from '../../gen/surety/action/v1/receipt_pb.js';
import type { ActionReceiptRow } from '../../ledger/action/records.js';
import { sameDigest, sha256 } from '../../ledger/encoding.js';
import { refusal } from '../../ledger/refusal.js';
import { Refused } from '../../ledger/run-decision.js';
import { fillPage } from '../fill-page.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { encodePageToken, readPageToken } from '../page-token.js';
import { Violations } from '../validate.js';
import { seeAction } from './action-viewer.js';
import { wireReceipt } from './encode-action.js';
import { readPosition } from './list-scan.js';
import { readActionId } from './read-fields.js';

/** A receipt may hold 16 KiB of evidence and its signature. */
const MAX_PAGE_SIZE = 100;
const DEFAULT_PAGE_SIZE = 20;
/** So many receipts are read at a time: some 400 KiB at most. */
const CHUNK = 10;

/** A page of an action's receipts, in the order in which they were recorded; each piece of evidence is hashed again. */
export async function listReceipts(
  { reader }: Pick<HandlerTools, 'reader'>,
  request: ListReceiptsRequest,
  context: CallContext,
): Promise<{ receipts: Receipt[]; nextPageToken: string }> {
  const { domainId } = context;
  const violations = new Violations();
  const actionId = readActionId(violations, request.actionId);
  const { pageSize } = request;
  if (pageSize < 0 || pageSize > MAX_PAGE_SIZE)
    violations.refuse('page_size', `must be 0 to ${MAX_PAGE_SIZE}`);
  const filter = ['action_receipts', domainId, actionId];
  const after = readPosition(violations, readPageToken(violations, request.pageToken, filter, 1)?.[0]);
  violations.throwIfAny();

  await seeAction(reader, context, actionId);
  const { messages, next } = await fillPage(pageSize === 0 ? DEFAULT_PAGE_SIZE : pageSize, {
    schema: ReceiptSchema,
    chunk: CHUNK,
    read: (last: ActionReceiptRow | undefined, limit) =>
      reader.query<ActionReceiptRow>('action_receipts_after', [
        domainId,
        actionId,
        last?.eventNumber ?? after,
        limit,
      ]),
    wire: (rows) => rows.map((row) => wireReceipt(requireEvidence(row))),
  });
  const nextPageToken = next === undefined ? '' : encodePageToken(filter, [next.eventNumber.toString()]);
  return { receipts: messages, nextPageToken };
}

/** @throws {Refused} DATA_CORRUPT, naming the receipt, where its evidence is not what was recorded */
export function requireEvidence(receipt: ActionReceiptRow): ActionReceiptRow {
  if (sameDigest(sha256(receipt.evidence), receipt.evidenceDigest)) return receipt;
  const { actionId, receiptClass, receiptKey } = receipt;
  throw new Refused(
    refusal('DATA_CORRUPT', 'The stored evidence contradicts its digest.', {
      metadata: { record: `action_receipt/${actionId}/${receiptClass}/${receiptKey}` },
    }),
  );
}

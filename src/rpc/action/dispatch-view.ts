import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  GetDispatchViewRequest,
  GetDispatchViewResponseSchema,
} from '../../gen/surety/action/v1/action_service_pb.js';
import { microsToTimestamp } from '../../identity/timestamp.js';
import { dispatchView, viewReads } from '../../ledger/action/dispatch-view.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { Violations } from '../validate.js';
import { gather } from './action-viewer.js';
import { wireAction, wireReceipt } from './encode-action.js';
import { requireEvidence } from './list-receipts.js';
import { readHolder } from './worker-requests.js';

/**
 * What a validator of the leaseholder's own judges by (actions.md, Gate validator): action, receipts, clock and digest of one
 * snapshot. `BeginDispatch` makes the digest again from its own rows.
 *
 * @throws {Refused} FIELD_INVALID, and the reasons of `dispatchView`; DATA_CORRUPT
 */
export async function getDispatchView(
  { reader }: Pick<HandlerTools, 'reader'>,
  request: GetDispatchViewRequest,
  context: CallContext,
): Promise<MessageInitShape<typeof GetDispatchViewResponseSchema>> {
  const { domainId } = context;
  const v = new Violations();
  const command = readHolder(v, request, context);
  v.throwIfAny();
  const draft = await gather(reader, domainId, viewReads(command));
  const { action, receipts, viewDigest } = dispatchView(draft, command);
  return {
    action: wireAction(domainId, action),
    receipts: receipts.map((receipt) => wireReceipt(requireEvidence(receipt))),
    storeTime: microsToTimestamp(draft.now),
    viewDigest: Uint8Array.from(viewDigest),
  };
}

import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { GetDispatchViewResponse } from '../../gen/surety/action/v1/action_service_pb.js';
import { type Receipt, ReceiptClass } from '../../gen/surety/action/v1/receipt_pb.js';
import { answerLease } from './lease-actions.js';
import { deferAction, failAction, readProvider, viewAction } from './moves.js';
import { providerReceipt, resultDigest } from './provider-receipts.js';
import { stateOf } from './steps.js';
import type { Lease, WorkerContext } from './worker-context.js';

/**
 * An ACCEPTED action: the provider is asked once more, by the digest, and what it then says is the witness (actions.md, I9). A
 * provider that accepted and does not stand by it has not done it as far as anybody can show: the action fails.
 */
export async function verifyAction(context: WorkerContext, lease: Lease): Promise<void> {
  const { session, steps } = context;
  const { actionId, executionDigest } = lease.action;
  const view = await viewAction(context, lease);
  const acceptance = acceptanceOf(view);
  if (!acceptance) return failAction(context, lease, 'there is no acceptance receipt');
  const answer = await readProvider(context, lease);
  if (answer.is === 'refused') {
    return failAction(context, lease, 'the provider refused what it had accepted', answer);
  }
  if (answer.is !== 'done' || answer.id !== acceptance.externalId) {
    return isOverdue(context, view, acceptance)
      ? failAction(context, lease, 'the provider does not confirm what it accepted')
      : deferAction(context, lease);
  }
  const witness = providerReceipt('provider_reading', executionDigest, answer);
  await steps.take(
    'AddReceipt',
    actionId,
    () => session.addReceipt(lease, witness),
    ({ duplicate }) => ({ state: duplicate ? 'duplicate' : 'recorded' }),
  );
  const witnesses = [acceptance.receiptKey, witness.receiptKey];
  const verified = await steps.take(
    'VerifyAction',
    actionId,
    () => session.verify(lease, witnesses),
    (reply) => stateOf(reply.action),
  );
  await completeAction(context, answerLease(lease, verified.action), view);
}

/** A VERIFIED action: the result is what the provider answered when it accepted. */
export async function completeAction(
  context: WorkerContext,
  lease: Lease,
  seen?: GetDispatchViewResponse,
): Promise<void> {
  const { session, steps } = context;
  const acceptance = acceptanceOf(seen ?? (await viewAction(context, lease)));
  if (!acceptance) return failAction(context, lease, 'there is no acceptance receipt');
  const result = resultDigest(acceptance);
  await steps.take('CompleteAction', lease.action.actionId, () => session.complete(lease, result), stateOf);
}

function acceptanceOf({ action, receipts }: GetDispatchViewResponse): Receipt | undefined {
  return receipts.find(
    ({ receiptClass, receiptKey }) =>
      receiptClass === ReceiptClass.GENERAL && receiptKey === action?.acceptanceReceiptKey,
  );
}

/** By the store's clock alone: this process may have been started a moment ago. */
function isOverdue(
  { policy }: WorkerContext,
  { storeTime }: GetDispatchViewResponse,
  { createTime }: Receipt,
): boolean {
  if (!storeTime || !createTime) return false;
  return timestampMs(storeTime) - timestampMs(createTime) >= policy.verifyWindowMs;
}

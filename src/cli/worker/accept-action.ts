import { answerLease } from './lease-actions.js';
import type { ProviderAnswer } from './provider.js';
import { providerReceipt } from './provider-receipts.js';
import { stateOf } from './steps.js';
import { verifyAction } from './verify-action.js';
import type { Lease, WorkerContext } from './worker-context.js';

/** DISPATCHED to ACCEPTED with the provider's word, and on to its witness. */
export async function acceptAction(
  context: WorkerContext,
  lease: Lease,
  answer: Extract<ProviderAnswer, { is: 'done' }>,
): Promise<void> {
  const { session, steps } = context;
  const { actionId, executionDigest } = lease.action;
  const receipt = providerReceipt('provider_acceptance', executionDigest, answer);
  const accepted = await steps.take(
    'AcceptAction',
    actionId,
    () => session.accept(lease, receipt),
    (reply) => stateOf(reply.action),
  );
  await verifyAction(context, answerLease(lease, accepted.action));
}

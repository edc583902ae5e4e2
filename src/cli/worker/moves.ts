import type { Action } from '../../gen/surety/action/v1/action_pb.js';
import type { GetDispatchViewResponse } from '../../gen/surety/action/v1/action_service_pb.js';
import type { Doubt, ProviderAnswer, SendAnswer } from './provider.js';
import { stateOf, type Told } from './steps.js';
import type { Lease, WorkerContext } from './worker-context.js';

/** Moves that several stages make. Each throws what its call does. */

/** Ends an action with its reason; what the provider says of another try is recorded and never honoured. */
export async function failAction(
  { session, steps }: WorkerContext,
  lease: Lease,
  detail: string,
  answer?: Extract<ProviderAnswer, { is: 'refused' }>,
): Promise<void> {
  const { actionId } = lease.action;
  const of = answer && { resultDigest: answer.answerDigest, retryable: answer.retryable };
  await steps.take('FailAction', actionId, () => session.fail(lease, { detail, ...of }), stateOf);
}

/** Lets a GATED, ACCEPTED or VERIFIED action go until later. */
export async function deferAction({ session, steps, policy }: WorkerContext, lease: Lease): Promise<void> {
  const { actionId } = lease.action;
  const { retryDelayMs } = policy;
  await steps.take('DeferLeased', actionId, () => session.defer(lease, retryDelayMs), stateOf);
}

/** Lets a DISPATCHED action go until the next observation; without one left it ends as ambiguous. */
export async function deferObservation(
  { session, steps, policy }: WorkerContext,
  lease: Lease,
  observationNumber: number,
): Promise<void> {
  const { actionId } = lease.action;
  const defer = (): Promise<Action> =>
    session.deferObservation(lease, observationNumber, policy.observeDelayMs);
  await steps.take('DeferObservation', actionId, defer, stateOf);
}

/** The action with all of its receipts, as they are now. */
export function viewAction(
  { session, steps }: WorkerContext,
  lease: Lease,
): Promise<GetDispatchViewResponse> {
  const { actionId } = lease.action;
  return steps.take(
    'GetDispatchView',
    actionId,
    () => session.view(lease),
    ({ action }) => stateOf(action),
  );
}

/** Asks the provider within the lease. @returns doubt where the lease has no time for it */
export async function readProvider(context: WorkerContext, lease: Lease): Promise<ProviderAnswer> {
  const { actionId, executionDigest } = lease.action;
  const read = (): Promise<ProviderAnswer> =>
    context.provider.read(executionDigest, providerUntil(context, lease.untilMs));
  return context.steps.take('Read', actionId, read, answered);
}

/** Until when a request to the provider that begins now may last. @param untilMs when the leave for it ends */
export function providerUntil({ policy, clock }: WorkerContext, untilMs: number): number {
  return Math.min(untilMs, clock() + policy.providerTimeoutMs);
}

/** What is logged of an answer of the provider. */
export function answered(answer: SendAnswer): Told {
  const reason: Doubt | '' = answer.is === 'doubt' ? answer.why : '';
  return { state: answer.is, reason };
}

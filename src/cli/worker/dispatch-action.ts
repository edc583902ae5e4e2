import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import type { Action } from '../../gen/surety/action/v1/action_pb.js';
import type { GetDispatchViewResponse } from '../../gen/surety/action/v1/action_service_pb.js';
import { SuretyError } from '../client/surety-error.js';
import { acceptAction } from './accept-action.js';
import { type ExecutionRequest, executionRequest } from './execution-request.js';
import { effectOfView, gateOfView, type NamedGate } from './gate-of-view.js';
import { answered, deferAction, deferObservation, failAction, providerUntil, viewAction } from './moves.js';
import type { SendAnswer } from './provider.js';
import { meaningOf } from './refusals.js';
import { stateOf } from './steps.js';
import { type Judgement, judge } from './validator.js';
import { type Lease, timeLeft, type WorkerContext } from './worker-context.js';

/**
 * A GATED action: judged by the worker's own validator, dispatched, sent once. The request is sent only by the process to which
 * `BeginDispatch` answered, and only within the lease; whatever is not an answer after that is doubt, and doubt is observed.
 */
export async function dispatchAction(context: WorkerContext, lease: Lease): Promise<void> {
  const view = await viewAction(context, lease);
  const gate = gateOfView(view);
  if (!view.action || !gate)
    return failAction(context, lease, 'there is not exactly one gate with a decision');
  const request = executionRequest(view.action);
  const judgement = await judgeView(context, view, request);
  if (judgement.verdict === 'wait') return deferAction(context, lease);
  if (judgement.verdict === 'refuse') return failAction(context, lease, judgement.detail);
  const effectId = effectOfView(view);
  if (effectId !== undefined && !context.effects) return deferAction(context, lease);
  const wish: Wish = { view, gate, request, effectId, goodForMs: judgement.goodForMs };
  const dispatched = await beginDispatch(context, lease, wish);
  if (dispatched) await sendOnce(context, dispatched, request, effectId);
}

interface Wish {
  readonly view: GetDispatchViewResponse;
  readonly gate: NamedGate;
  readonly request: ExecutionRequest;
  readonly effectId: string | undefined;
  readonly goodForMs: number;
}

function judgeView(
  { validator }: WorkerContext,
  { action, receipts, storeTime }: GetDispatchViewResponse,
  { body }: ExecutionRequest,
): Promise<Judgement> {
  const storeTimeMs = storeTime ? timestampMs(storeTime) : 0;
  // A copy: what a validator does to it changes nothing of what is sent.
  return judge(validator, { action: action as Action, receipts, storeTimeMs, body: Buffer.from(body) });
}

/** @returns the lease of the DISPATCHED action; undefined where there was no leave to send */
async function beginDispatch(context: WorkerContext, lease: Lease, wish: Wish): Promise<Lease | undefined> {
  const { session, steps, policy } = context;
  const { view, gate, request, effectId, goodForMs } = wish;
  const now = view.storeTime ? timestampMs(view.storeTime) : 0;
  const authorization = {
    viewDigest: Uint8Array.from(view.viewDigest),
    authorizationExpireTime: timestampFromMs(now + goodForMs),
  };
  const begin = () =>
    session.beginDispatch(lease, {
      ...gate,
      executionDigest: request.executionDigest,
      observationWindowMs: policy.observationWindowMs,
      maxObservations: policy.maxObservations,
      authorization,
      ...(effectId === undefined ? {} : { effectId }),
    });
  try {
    const { action } = await steps.take('BeginDispatch', lease.action.actionId, begin, (answer) =>
      stateOf(answer.action),
    );
    return action && { ...lease, action };
  } catch (error) {
    await withoutLeave(context, lease, request, error);
    return undefined;
  }
}

/** There was no leave to send, and there is none any more under this lease. */
async function withoutLeave(
  context: WorkerContext,
  lease: Lease,
  { executionDigest }: ExecutionRequest,
  error: unknown,
): Promise<void> {
  const meaning = meaningOf(error);
  if (meaning === 'later') return deferAction(context, lease);
  if (meaning === 'final') return failAction(context, lease, detailOf(error));
  if (meaning !== 'unclear') throw error;
  // Giving the lease away settles it: either the action was still GATED, and the call, should it come yet, finds another
  // lease; or it is DISPATCHED, and is observed.
  try {
    await deferAction(context, lease);
  } catch (refused) {
    if (!(refused instanceof SuretyError) || refused.reason !== 'ACTION_STATE_CONFLICT') throw refused;
    await deferObservation(context, { ...lease, action: { ...lease.action, executionDigest } }, 0);
  }
}

/** Sends the request, if there still is time for it when the connection stands, and goes by what is answered. */
async function sendOnce(
  context: WorkerContext,
  lease: Lease,
  request: ExecutionRequest,
  effectId: string | undefined,
): Promise<void> {
  const { actionId } = lease.action;
  const { effects, provider, steps } = context;
  let untilMs = lease.untilMs;
  if (effectId !== undefined && effects) {
    try {
      untilMs = Math.min(untilMs, await effects.start(actionId, effectId));
    } catch (error) {
      if (meaningOf(error) === 'other' && !(error instanceof SuretyError)) throw error;
      return failAction(context, lease, `not sent: the effect could not be started: ${detailOf(error)}`);
    }
  }
  const { body, executionDigest } = request;
  const send = (): Promise<SendAnswer> =>
    provider.send(body, executionDigest, providerUntil(context, untilMs));
  const answer = await steps.take('Send', actionId, send, answered);
  if (effectId !== undefined) await effects?.settle(actionId, effectId, answer);
  if (answer.is === 'not_sent') {
    return failAction(context, lease, 'not sent: there was no connection, or no time left');
  }
  if (answer.is === 'done') return acceptAction(context, lease, answer);
  if (answer.is === 'refused') return failAction(context, lease, 'the provider refused it', answer);
  if (timeLeft(context, lease) > 0) await deferObservation(context, lease, 0);
}

function detailOf(error: unknown): string {
  return error instanceof SuretyError && error.reason !== '' ? error.reason : 'no answer';
}

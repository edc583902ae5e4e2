import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { decide } from '../../src/ledger/authority/decide.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { DOMAIN, EXECUTOR_A, freshId, HARNESS } from '../support/effect-world.js';
import {
  PLANNER,
  refusalOf,
  ServiceWorld,
  startRequest,
  violationsOf,
  type Workload,
} from './effect-service-world.js';

let service: ServiceWorld;
let executor: Workload;

beforeAll(async () => {
  service = await ServiceWorld.open();
  executor = await service.workload(EXECUTOR_A);
});
afterAll(() => service.close());

describe('CancelEffect', () => {
  async function decision(effectId: string, requestDigest = sha256('')): Promise<string> {
    const decisionId = freshId('dec');
    const outcome = await service.replica.lanes.submit(decide, {
      domainId: DOMAIN,
      commandId: freshId('cmd'),
      decisionId,
      question: {
        caller: HARNESS,
        action: 'effect.cancel',
        resource: effectId,
        inputSource: '',
        outputSink: '',
        dataClass: 0,
        requestDigest,
        protectedOperation: false,
      },
    });
    if (!outcome.ok || !outcome.reply.decision.allowed)
      throw new Error(JSON.stringify(outcome, (_, v) => String(v)));
    return decisionId;
  }

  test('cancels once, on a decision, and answers a repeat without one', async () => {
    const { effectId } = await service.reserve();
    expect(await refusalOf(service.call('cancelEffect', PLANNER, { effectId }))).toMatchObject({
      reason: 'DECISION_NOT_USABLE',
    });
    const other = await decision(effectId, sha256('something'));
    expect(
      await refusalOf(service.call('cancelEffect', PLANNER, { effectId, decisionId: other })),
    ).toMatchObject({ reason: 'DECISION_NOT_USABLE', metadata: { rule: 'request_digest' } });
    const decisionId = await decision(effectId);
    const { result } = await service.call('cancelEffect', PLANNER, { effectId, decisionId });
    expect(result).toMatchObject({
      state: EffectState.CANCELLED,
      stateSource: StateSource.ACTOR,
      duplicate: false,
      attemptId: '',
      step: 2n,
    });
    expect(result?.outputReference).toBeUndefined();
    const { result: repeated } = await service.call('cancelEffect', PLANNER, { effectId });
    expect(repeated).toEqual({ ...result, duplicate: true });
    expect(await service.show(effectId)).toMatchObject({ holdsKey: false, state: EffectState.CANCELLED });
  });

  test('a started effect is not cancelled any more', async () => {
    const { effectId } = await service.start(executor, await service.reserve());
    const decisionId = await decision(effectId);
    expect(await refusalOf(service.call('cancelEffect', PLANNER, { effectId, decisionId }))).toMatchObject({
      reason: 'EFFECT_STATE_CONFLICT',
      metadata: { state: 'EXECUTING', source: 'executor' },
    });
    expect(
      await violationsOf(service.call('cancelEffect', PLANNER, { decisionId: 'd'.repeat(257) })),
    ).toEqual(['decision_id', 'effect_id']);
  });

  test('a cancel that races a start: exactly one wins', async () => {
    const effect = await service.reserve();
    const { effectId } = effect;
    const decisionId = await decision(effectId);
    const start = await startRequest(executor, effect);
    const outcomes = await Promise.allSettled([
      service.call('cancelEffect', PLANNER, { effectId, decisionId }),
      service.call('startExecution', executor, start),
    ]);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const lost = outcomes.find((outcome) => outcome.status === 'rejected');
    expect(lost?.reason).toMatchObject({ refusal: { reason: 'EFFECT_STATE_CONFLICT' } });
  });
});

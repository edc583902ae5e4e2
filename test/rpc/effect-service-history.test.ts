import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Effect, EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { RetryAdvice } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { callerOf, EXECUTOR_A, RECONCILER } from '../support/effect-world.js';
import {
  acknowledgeRequest,
  type Peer,
  PLANNER,
  reconcileRequest,
  refusalOf,
  ServiceWorld,
  violationsOf,
  type Workload,
} from './effect-service-world.js';

const OPERATOR: Peer = { caller: callerOf('spiffe://acme.test/operator/olaf'), kind: 'operator' };
const AUDITOR: Peer = { caller: callerOf('spiffe://surety.test/auditor/ann'), kind: 'auditor' };

let service: ServiceWorld;
let executor: Workload;
/** Reserved, started, lost and settled. */
let settled: Effect;

beforeAll(async () => {
  service = await ServiceWorld.open();
  await service.operator(OPERATOR, ['ADMIN'], 'acme.test');
  await service.operator(AUDITOR, ['AUDITOR'], 'surety.test');
  executor = await service.workload(EXECUTOR_A);
  const reconciler = await service.workload(RECONCILER);
  const unknown = await service.lose(executor);
  await service.call('reconcile', reconciler, await reconcileRequest(reconciler, unknown, 'SUCCEEDED'));
  settled = await service.show(unknown.effectId);
});
afterAll(() => service.close());

describe('GetEffectHistory', () => {
  test('tells the steps one by one, from 1, in pages', async () => {
    const { effectId } = settled;
    const { steps, nextPageToken } = await service.call('getEffectHistory', PLANNER, { effectId });
    expect(nextPageToken).toBe('');
    const { PREPARED, EXECUTING, UNKNOWN, SUCCEEDED, UNSPECIFIED } = EffectState;
    expect(
      steps.map(({ step, fromState, toState, source, lateEvidence }) => [
        step,
        fromState,
        toState,
        source,
        lateEvidence,
      ]),
    ).toEqual([
      [1n, UNSPECIFIED, PREPARED, StateSource.RESERVATION, false],
      [2n, PREPARED, EXECUTING, StateSource.EXECUTOR, false],
      [3n, EXECUTING, UNKNOWN, StateSource.EXECUTOR, false],
      [4n, UNKNOWN, SUCCEEDED, StateSource.RECONCILER, false],
    ]);
    const [reserved, , , reconciled] = steps;
    expect(reserved).toMatchObject({
      effectId,
      attemptId: '',
      actorSpiffeId: PLANNER.caller.spiffeId,
      outputSink: 'bank',
      fence: settled.fence,
    });
    expect(reserved?.evidenceDigest).toHaveLength(0);
    expect(reconciled).toMatchObject({
      attemptId: settled.attemptId,
      actorSpiffeId: RECONCILER.spiffeId,
      evidenceDigest: settled.evidenceDigest,
      time: settled.settleTime,
      auditPosition: settled.auditPosition,
    });
    expect(reconciled?.proofDigest).toHaveLength(32);

    const first = await service.call('getEffectHistory', AUDITOR, { effectId, pageSize: 3 });
    expect(first.steps).toEqual(steps.slice(0, 3));
    const pageToken = first.nextPageToken;
    const second = await service.call('getEffectHistory', AUDITOR, { effectId, pageSize: 3, pageToken });
    expect(second).toMatchObject({ steps: steps.slice(3), nextPageToken: '' });
    const other = await service.reserve();
    const mixed = service.call('getEffectHistory', AUDITOR, { effectId: other.effectId, pageToken });
    expect(await violationsOf(mixed)).toEqual(['page_token']);
  });

  test('never passes over a step that is missing, in the middle or at the end', async () => {
    const { effectId } = await service.lose(executor);
    // The head moves on: a lane that missed the very last entry would stop the domain.
    await service.reserve();
    const refused = () => refusalOf(service.call('getEffectHistory', PLANNER, { effectId }));
    const lost = 'DELETE FROM audit_entries WHERE effect_id = $1 AND effect_step = $2';
    await service.tamper(lost, [effectId, 2]);
    expect(await refused()).toMatchObject({
      reason: 'DATA_CORRUPT',
      metadata: { record: `effect/${effectId}/2` },
    });
    const other = await service.lose(executor);
    await service.reserve();
    await service.tamper(
      'UPDATE audit_entries SET effect_id = NULL WHERE effect_id = $1 AND effect_step = 3',
      [other.effectId],
    );
    expect(
      await refusalOf(service.call('getEffectHistory', PLANNER, { effectId: other.effectId })),
    ).toMatchObject({ reason: 'DATA_CORRUPT', metadata: { record: `effect/${other.effectId}/3` } });
    // The last one is what the row itself is held against.
    await service.tamper(lost, [effectId, 3]);
    expect(await refused()).toMatchObject({ metadata: { record: `effect/${effectId}` } });
  });

  test('shows late evidence as a step of its own', async () => {
    const unknown = await service.lose(executor);
    const { effectId } = unknown;
    const from = { fromState: 'EXECUTING' } as const;
    const late = await acknowledgeRequest(executor, unknown, 'FAILED', { statement: from });
    await refusalOf(service.call('acknowledgeTerminal', executor, late));
    const { steps } = await service.call('getEffectHistory', PLANNER, { effectId });
    expect(steps.at(-1)).toMatchObject({
      step: 4n,
      fromState: EffectState.UNKNOWN,
      toState: EffectState.UNKNOWN,
      lateEvidence: true,
    });
    expect(await service.call('checkRetry', OPERATOR, { effectId })).toMatchObject({
      advice: RetryAdvice.RECONCILE,
    });
  });

  test('refuses what is no request', async () => {
    const call = service.call('getEffectHistory', PLANNER, {
      effectId: 'e'.repeat(257),
      registrationId: 'r\n',
      pageSize: 1001,
      pageToken: 'bogus',
    });
    expect(await violationsOf(call)).toEqual(['effect_id', 'page_size', 'page_token', 'registration_id']);
    expect(await violationsOf(service.call('getEffect', PLANNER, {}))).toEqual(['effect_id']);
    expect(await violationsOf(service.call('checkRetry', PLANNER, {}))).toEqual(['effect_id']);
  });
});

describe('the largest fence', () => {
  test('2^63 − 1 goes through lane, store, log and wire unharmed', async () => {
    const { admin } = service.world;
    await admin.query('UPDATE service_state SET incarnation = 8388607');
    await admin.query(`UPDATE domain_heads SET fence_counter = 1099511627774 WHERE domain_id = 'acme.test'`);
    const effect = await service.reserve();
    expect(effect.fence).toBe(2n ** 63n - 1n);
    const { steps } = await service.call('getEffectHistory', PLANNER, { effectId: effect.effectId });
    expect(steps[0]?.fence).toBe(2n ** 63n - 1n);
    const { effects } = await service.call('listEffects', OPERATOR, { eventId: effect.eventId });
    expect(effects).toEqual([effect]);
  });
});

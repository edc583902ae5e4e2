import { durationMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_AUTHORITY_SYSTEM, DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import { EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { ACME } from '../support/e2e-world.js';
import { type Target, time, TransitionRig } from '../support/transition-rig.js';

const SECOND = 1_000_000n;
/** Send window and settle time where the sink says nothing. */
const SETTLED = 120n * SECOND;
const { SUCCEEDED, FAILED, CANCELLED } = EffectState;

let rig: TransitionRig;
let executor: WorkloadSession;
let reconciler: WorkloadSession;

beforeAll(async () => {
  rig = await TransitionRig.open();
  executor = await rig.world.executor();
  reconciler = await rig.world.reconciler();
});
afterAll(() => rig.close());

async function tooEarly(target: Target, to: EffectState, observed: bigint, waitMs: number): Promise<void> {
  const traces = await rig.traces();
  const evidence = { observedTime: time(observed) };
  expect(await rig.refused('reconcile', reconciler, target, { to, evidence })).toMatchObject({
    code: 'FAILED_PRECONDITION',
    reason: 'RECONCILE_TOO_EARLY',
    retryAfterMs: waitMs,
  });
  expect(await rig.traces()).toEqual(traces);
}

describe('when may it be sent: a negative settlement waits until no send can still come', () => {
  test.each([
    ['FAILED', FAILED],
    ['CANCELLED', CANCELLED],
  ])('%s waits for the clock, to the microsecond', async (_name, to) => {
    const target = await rig.unknown(executor);
    const settled = rig.now + SETTLED;
    await tooEarly(target, to, rig.now, 120_000);
    await rig.move(SETTLED - 1n);
    // An observation of a fast clock does not make it later.
    await tooEarly(target, to, settled, 0.001);
    await rig.move(1n);
    expect(await rig.done('reconcile', reconciler, target, { to })).toMatchObject({ state: to });
  });

  test('it waits for the observation too, however late it is', async () => {
    const target = await rig.unknown(executor);
    const settled = rig.now + SETTLED;
    await rig.move(2n * SETTLED);
    await tooEarly(target, FAILED, settled - 1n, 0.001);
    const evidence = { observedTime: time(settled) };
    expect(await rig.done('reconcile', reconciler, target, { to: FAILED, evidence })).toMatchObject({
      state: FAILED,
    });
  });

  test('SUCCEEDED need not wait', async () => {
    const target = await rig.unknown(executor);
    expect(await rig.done('reconcile', reconciler, target)).toMatchObject({ state: SUCCEEDED });
  });

  test('a repeat of the start is told what is left of the window, and the settlement never finds it open', async () => {
    const target = await rig.prepared();
    const { effectId, evidence, proof } = rig.request('start', executor, target);
    const effects = executor.channel.service(EffectService);
    const start = async () => {
      const { result, sendWindow } = await effects.startExecution({ effectId, evidence, proof });
      const { duplicate, state } = result ?? {};
      return { duplicate, state, left: sendWindow && durationMs(sendWindow) };
    };
    const state = EffectState.EXECUTING;
    expect(await start()).toEqual({ duplicate: false, state, left: 60_000 });
    expect(await start()).toEqual({ duplicate: true, state, left: 60_000 });
    await rig.move(45n * SECOND);
    expect(await start()).toEqual({ duplicate: true, state, left: 15_000 });
    await rig.move(15n * SECOND - 1_000n);
    expect(await start()).toEqual({ duplicate: true, state, left: 1 });
    await rig.move(1_000n);
    expect(await start()).toEqual({ duplicate: true, state, left: 0 });
    await rig.move(30n * SECOND);
    expect(await start()).toEqual({ duplicate: true, state, left: 0 });
    // The effect itself shows the whole window.
    expect(await executor.look(effectId)).toMatchObject({ sendWindow: { seconds: 60n, nanos: 0 } });
    await rig.done('markUnknown', executor, target);
    await tooEarly(target, FAILED, rig.now, 30_000);
    await rig.move(30n * SECOND);
    expect(await rig.done('reconcile', reconciler, target, { to: FAILED })).toMatchObject({ state: FAILED });
  });

  test('it counts from the start, also where the executor was lost much later', async () => {
    const deadline = { seconds: 100n, nanos: 0 };
    const [first, second] = [
      await rig.executing(executor, { executionDeadline: deadline }),
      await rig.executing(executor, { executionDeadline: deadline }),
    ];
    await rig.advance(99_999);
    const early = await executor.look(first.effectId);
    expect(early.state).toBe(EffectState.EXECUTING);
    await rig.advance(1);
    const lost = await executor.look(first.effectId);
    expect(lost).toMatchObject({
      state: EffectState.UNKNOWN,
      stateSource: StateSource.EXECUTOR_LOST,
      unknownTime: time(rig.now),
    });
    await tooEarly(first, FAILED, rig.now, 20_000);
    // Nor can it have been observed before it was lost.
    const evidence = { observedTime: time(rig.now - 1n) };
    expect(await rig.refused('reconcile', reconciler, second, { evidence })).toMatchObject({
      reason: 'EVIDENCE_TIME_OUTSIDE_WINDOW',
    });
    await rig.move(20n * SECOND);
    expect(await rig.done('reconcile', reconciler, first, { to: FAILED })).toMatchObject({ state: FAILED });
  });
});

describe('windows of the sink', () => {
  const seconds = (count: bigint) => ({ seconds: count, nanos: 0 });
  const putSink = (sendWindow: bigint, settleTime: bigint) =>
    rig.world.admin.execute(ACME, {
      case: 'putSink',
      value: {
        sink: {
          sink: DEMO_SINK,
          authoritySystems: [DEMO_AUTHORITY_SYSTEM],
          sendWindow: seconds(sendWindow),
          settleTime: seconds(settleTime),
        },
      },
    });

  test("the start answers the sink's send window, and keeps it; the settle time is the sink's own", async () => {
    await putSink(5n, 10n);
    const target = await rig.prepared();
    const { effectId, evidence, proof } = rig.request('start', executor, target);
    const started = await executor.channel
      .service(EffectService)
      .startExecution({ effectId, evidence, proof });
    expect(started.sendWindow).toMatchObject(seconds(5n));
    await rig.done('markUnknown', executor, target);
    await tooEarly(target, FAILED, rig.now, 15_000);

    await putSink(600n, 20n);
    expect((await executor.look(effectId)).sendWindow).toMatchObject(seconds(5n));
    await tooEarly(target, FAILED, rig.now, 25_000);
    await rig.move(25n * SECOND - 1n);
    await tooEarly(target, CANCELLED, rig.now, 0.001);
    await rig.move(1n);
    expect(await rig.done('reconcile', reconciler, target, { to: FAILED })).toMatchObject({ state: FAILED });
  });
});

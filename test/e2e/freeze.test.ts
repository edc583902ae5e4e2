import { randomUUID } from 'node:crypto';
import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import {
  ACME,
  type E2eWorld,
  EXECUTOR_A,
  GLOBEX,
  HARNESS,
  openE2eWorld,
  OPERATOR,
  refusedWith,
  type StartedEffect,
} from '../support/e2e-world.js';
import {
  cancel,
  findingsOfLog,
  publishAs,
  put,
  reconcileAs,
  reservation,
  reserveAs,
  traces,
  WHOLE_LOG,
} from '../support/e2e-parties.js';

const { PREPARED, EXECUTING, UNKNOWN, SUCCEEDED, FAILED, CANCELLED } = EffectState;
const REASON = 'the bank reports duplicates';

describe.each([
  ['domain', ''],
  ['sink', 'payments'],
])('authority.md, Freeze: a %s', (scope, sink) => {
  let world: E2eWorld;
  let executor: WorkloadSession;
  let reconciler: WorkloadSession;
  const frozen = { code: 'FAILED_PRECONDITION', reason: 'FROZEN', metadata: { scope } };
  /** Begun before the freeze, by the state in which it found them. */
  const begun = new Map<EffectState, StartedEffect[]>();

  const setFreeze = (value: boolean) =>
    world.admin.execute(ACME, { case: 'setFreeze', value: { sink, frozen: value } }, REASON);
  const take = (state: EffectState): StartedEffect => {
    const effect = begun.get(state)?.shift();
    if (!effect) throw new Error('none left');
    return effect;
  };

  beforeAll(async () => {
    world = await openE2eWorld({ globex: true });
    await put(world, {
      case: 'putSink',
      value: { sink: { sink: 'mail', authoritySystems: ['postmaster'] } },
    });
    executor = await world.executor(EXECUTOR_A, { sinks: ['payments', 'mail'] });
    reconciler = await world.reconciler();
    for (const [state, count] of [
      [PREPARED, 4],
      [EXECUTING, 5],
      [UNKNOWN, 1],
    ] as const) {
      const effects = [];
      for (let index = 0; index < count; index += 1) effects.push(await world.effectIn(state, executor));
      begun.set(state, effects);
    }
    await setFreeze(true);
  });
  afterAll(() => world.close());

  describe('stops', () => {
    let before: Record<string, unknown>;
    beforeEach(async () => {
      before = await traces(world);
    });

    test('Reserve at once, without a trace', async () => {
      const request = await reservation(world);
      before = await traces(world);
      expect(await refusedWith(reserveAs(world, HARNESS, request))).toMatchObject(frozen);
      expect(await traces(world)).toEqual(before);
    });

    test('StartExecution at once, without a trace; its proof is good again afterwards', async () => {
      const { effect, attemptId } = take(PREPARED);
      const request = await executor.start(effect, attemptId);
      const call = () => executor.channel.service(EffectService).startExecution(request);
      expect(await refusedWith(call())).toMatchObject(frozen);
      expect(await traces(world)).toEqual(before);
      await setFreeze(false);
      const { result } = await call();
      expect(result).toMatchObject({ state: EXECUTING, duplicate: false });
      await setFreeze(true);
      // What was started before is a duplicate also now.
      expect((await call()).result).toMatchObject({ state: EXECUTING, duplicate: true });
    });
  });

  describe('lets go on', () => {
    test('repeating what was reserved before', async () => {
      await setFreeze(false);
      const request = await reservation(world);
      const first = await reserveAs(world, HARNESS, request);
      await setFreeze(true);
      expect(await reserveAs(world, HARNESS, request)).toEqual({ ...first, duplicate: true });
    });

    test('CancelEffect, with its decision', async () => {
      const { effect } = take(PREPARED);
      expect(await cancel(world, effect.effectId)).toMatchObject({
        state: CANCELLED,
        stateSource: StateSource.ACTOR,
      });
    });

    test.each([
      ['SUCCEEDED', SUCCEEDED],
      ['FAILED', FAILED],
      ['CANCELLED', CANCELLED],
    ])('AcknowledgeTerminal: %s', async (_, state) => {
      const { effect, attemptId } = take(EXECUTING);
      const request = await executor.acknowledge(effect, state, {
        attemptId,
        receiptId: `receipt-${effect.effectId}`,
        receipt: 'done',
      });
      const { result } = await executor.channel.service(EffectService).acknowledgeTerminal(request);
      expect(result).toMatchObject({ state, duplicate: false });
    });

    test('MarkUnknown and Reconcile', async () => {
      const { effect, attemptId } = take(EXECUTING);
      const request = await executor.markUnknown(effect, {
        attemptId,
        reason: 1,
        observationDigest: digest('nothing came back'),
        observedTime: timestampFromMs(await world.now()),
      });
      const { result } = await executor.channel.service(EffectService).markUnknown(request);
      expect(result?.state).toBe(UNKNOWN);
      const settled = await reconcileAs(world, reconciler, take(UNKNOWN), SUCCEEDED);
      expect(settled.state).toBe(SUCCEEDED);
    });

    test('revocations and new registrations, so that somebody can settle', async () => {
      const { effect } = take(PREPARED);
      await put(world, { case: 'revokeGrant', value: { grantId: effect.grantId } });
      const another = await world.reconciler();
      await put(world, {
        case: 'revokeWorkload',
        value: { registrationId: another.registration.registrationId },
      });
      // The sweep goes on too, for what was reserved and for what was lost.
      await world.advance(1);
      expect((await executor.look(effect.effectId)).stateSource).toBe(StateSource.EXPIRY);
      const lost = take(EXECUTING);
      await world.advance(900_000);
      expect((await executor.look(lost.effect.effectId)).stateSource).toBe(StateSource.EXECUTOR_LOST);
    });

    test('what is elsewhere', async () => {
      const grantId = await world.grant({ outputSinks: ['mail'] });
      const elsewhere = await reservation(world, { grantId, outputSink: 'mail' });
      if (scope === 'sink') {
        const { effect } = await world.effectIn(SUCCEEDED, executor, elsewhere);
        expect(effect.state).toBe(SUCCEEDED);
      } else {
        expect(await refusedWith(reserveAs(world, HARNESS, elsewhere))).toMatchObject(frozen);
      }
      // Another domain has a sink of the same name.
      const harness = `spiffe://${GLOBEX}/harness/planner`;
      const foreign = `grant-${randomUUID()}`;
      await world.admin.execute(GLOBEX, {
        case: 'createGrant',
        value: {
          grant: {
            grantId: foreign,
            principalId: 'paula',
            harnessId: 'planner',
            actions: ['refund.create'],
            resources: ['order-1184'],
            inputSources: ['crm'],
            outputSinks: ['payments'],
            dataClasses: [elsewhere.dataClass ?? 0],
            maxUses: 1n,
            expireTime: timestampFromMs((await world.now()) + 60_000),
          },
        },
      });
      const request = await reservation(world, {
        eventId: await publishAs(world, harness),
        grantId: foreign,
      });
      expect((await reserveAs(world, harness, request)).currentState).toBe(PREPARED);
    });
  });

  test('operators see that it is frozen, and why', async () => {
    const admin = world.channel(OPERATOR).service(AdminService);
    const shown = async () => {
      const { domain } = await admin.getDomain({ domainId: ACME });
      return scope === 'domain' ? domain : domain?.sinks.find((one) => one.sink === sink);
    };
    expect(await shown()).toMatchObject({ frozen: true, freezeReason: REASON });
    await setFreeze(false);
    expect(await shown()).toMatchObject({ frozen: false, freezeReason: '' });
    await setFreeze(true);
  });

  test('once it ends, everything begins again', async () => {
    const waiting = await refusedWith(reserveAs(world, HARNESS, await reservation(world)));
    expect(waiting).toMatchObject(frozen);
    await setFreeze(false);
    const { effect } = await world.effectIn(SUCCEEDED, executor, { reservationTtl: durationFromMs(60_000) });
    expect(effect.state).toBe(SUCCEEDED);
    expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
  });
});

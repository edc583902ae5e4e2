import { randomUUID } from 'node:crypto';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  EffectService,
  type ReserveEffectResponse,
  type TransitionResult,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { type E2eWorld, EXECUTOR_A, HARNESS, openE2eWorld, refusedWith } from '../support/e2e-world.js';
import {
  cancel,
  decide,
  findingsOfLog,
  publishAs,
  put,
  type ReserveRequest,
  reservation,
  reserveAs,
  traces,
  usesOf,
  WHOLE_LOG,
} from '../support/e2e-parties.js';
import type { ServiceProcess } from '../support/service-process.js';

const { EXECUTING, SUCCEEDED, FAILED, CANCELLED } = EffectState;
const ROUNDS = 4;
const rounds = Array.from({ length: ROUNDS }, (_, index) => index);

// Through one process the calls meet in one batch, through two they meet at the database.
describe.each(['one process', 'two processes'])(
  'effects.md, Reserve: what others make at the same time, %s',
  (how) => {
    let world: E2eWorld;
    let executor: WorkloadSession;
    let other: ServiceProcess;

    beforeAll(async () => {
      // No sweep but those that `advance` makes.
      const env = { SURETY_SWEEP_INTERVAL_MS: '600000' };
      world = await openE2eWorld({ env });
      other = how === 'one process' ? world.service : await world.startReplica(env);
      executor = await world.executor(EXECUTOR_A);
    });
    afterAll(() => world.close());

    /** The answer, or the reason; a bug of ours fails the test. */
    const outcomeOf = <Reply>(call: Promise<Reply>): Promise<Reply | string> =>
      call.catch((error: unknown) => {
        if (error instanceof SuretyError && error.reason !== 'INTERNAL') return error.reason;
        throw error;
      });
    const reserveElsewhere = (request: ReserveRequest) => reserveAs(world, HARNESS, request, other);

    /** Both at once; which one is sent first changes from round to round. */
    async function meet<A, B>(round: number, a: () => Promise<A>, b: () => Promise<B>) {
      if (round % 2 === 0) return Promise.all([outcomeOf(a()), outcomeOf(b())]);
      const [second, first] = await Promise.all([outcomeOf(b()), outcomeOf(a())]);
      return [first, second] as const;
    }

    /** The key is given away only behind what frees it. */
    function expectInOrder(
      freed: TransitionResult | undefined,
      reserved: ReserveEffectResponse | string,
      otherwise: string,
    ): void {
      if (typeof reserved === 'string') expect(reserved).toBe(otherwise);
      else expect(reserved.auditPosition).toBeGreaterThan(freed?.auditPosition ?? reserved.auditPosition);
    }

    test('a key that a cancel frees', async () => {
      for (const round of rounds) {
        const effectKey = randomUUID();
        const { effectId } = await world.reserve({ effectKey });
        const { decision } = await decide(world, effectId);
        const next = await reservation(world, { effectKey });
        const [freed, reserved] = await meet(
          round,
          () => cancel(world, effectId, decision?.decisionId),
          () => reserveElsewhere(next),
        );
        if (typeof freed === 'string') throw new Error(freed);
        expect(freed.state).toBe(CANCELLED);
        expectInOrder(freed, reserved, 'EFFECT_KEY_BUSY');
      }
    });

    test.each([
      ['FAILED', FAILED, false, 'EFFECT_KEY_BUSY'],
      ['SUCCEEDED and repeatable', SUCCEEDED, true, 'EFFECT_KEY_BUSY'],
    ])('a key that an acknowledgement frees: %s', async (_, state, repeatable, otherwise) => {
      const grantId = await world.grant({ repeatable });
      for (const round of rounds) {
        const wish = { effectKey: randomUUID(), repeatable, grantId };
        const { effect, attemptId } = await world.effectIn(EXECUTING, executor, wish);
        const acknowledge = await executor.acknowledge(effect, state, {
          attemptId,
          receiptId: `receipt-${effect.effectId}`,
          receipt: 'an answer',
        });
        const next = await reservation(world, wish);
        const [freed, reserved] = await meet(
          round,
          () => executor.channel.service(EffectService).acknowledgeTerminal(acknowledge),
          () => reserveElsewhere(next),
        );
        if (typeof freed === 'string') throw new Error(freed);
        expect(freed.result?.state).toBe(state);
        expectInOrder(freed.result, reserved, otherwise);
      }
    });

    test('a key that an acknowledgement closes', async () => {
      for (const round of rounds) {
        const effectKey = randomUUID();
        const { effect, attemptId } = await world.effectIn(EXECUTING, executor, { effectKey });
        const acknowledge = await executor.acknowledge(effect, SUCCEEDED, {
          attemptId,
          receiptId: `receipt-${effect.effectId}`,
          receipt: 'done',
        });
        const next = await reservation(world, { effectKey });
        const [freed, reserved] = await meet(
          round,
          () => executor.channel.service(EffectService).acknowledgeTerminal(acknowledge),
          () => reserveElsewhere(next),
        );
        expect(typeof freed).not.toBe('string');
        expect(['EFFECT_KEY_BUSY', 'EFFECT_KEY_DONE']).toContain(reserved);
      }
    });

    test('event and grant that come with it: it is reserved, or they were not there yet', async () => {
      for (const round of rounds) {
        const [eventId, grantId] = [`event-${randomUUID()}`, `grant-${randomUUID()}`];
        const request = await reservation(world, { eventId, grantId });
        const [[, granted], reserved] = (await meet(
          round,
          () => Promise.all([publishAs(world, HARNESS, { eventId }), world.grant({ grantId })]),
          () => reserveElsewhere(request),
        )) as [[string, string], ReserveEffectResponse | string];
        expect(granted).toBe(grantId);
        if (typeof reserved === 'string') {
          expect(['EVENT_NOT_VISIBLE', 'GRANT_MISSING']).toContain(reserved);
          await reserveElsewhere(request);
        }
        expect(await usesOf(world, grantId)).toBe(1);
      }
    });

    test('a sink that comes with it', async () => {
      for (const round of rounds) {
        const sink = `sink-${randomUUID()}`;
        const grantId = await world.grant({ outputSinks: [sink] });
        const request = await reservation(world, { outputSink: sink, grantId });
        const [, reserved] = await meet(
          round,
          () => put(world, { case: 'putSink', value: { sink: { sink, authoritySystems: ['postmaster'] } } }),
          () => reserveElsewhere(request),
        );
        if (typeof reserved === 'string') expect(reserved).toBe('SINK_UNKNOWN');
        const settled = await reserveElsewhere(request);
        expect(settled.duplicate).toBe(typeof reserved !== 'string');
      }
    });

    test('20 times the same denial: one decision is recorded, and it answers all', async () => {
      const grantId = await world.grant({ actions: ['refund.void'] });
      const request = await reservation(world, { grantId, action: 'refund.void' });
      const before = await traces(world);
      const errors = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          refusedWith(reserveAs(world, HARNESS, request, index % 2 === 0 ? world.service : other)),
        ),
      );
      expect(new Set(errors.map(({ reason }) => reason))).toEqual(new Set(['ENTITLEMENT_MISSING']));
      expect(new Set(errors.map(({ metadata }) => metadata['decision_id'])).size).toBe(1);
      expect(await traces(world)).toMatchObject({
        seq: String(Number(before['seq']) + 1),
        decisions: String(Number(before['decisions']) + 1),
      });
    });

    test('a cancel against the sweep: one, and the log names which', async () => {
      const effects = [];
      for (const _ of rounds) {
        const { effectId } = await world.reserve({ reservationTtl: durationFromMs(10_000) });
        effects.push({ effectId, decisionId: (await decide(world, effectId)).decision?.decisionId });
      }
      const sources = await Promise.all([
        ...effects.map(async ({ effectId, decisionId }) => {
          const outcome = await outcomeOf(cancel(world, effectId, decisionId, HARNESS, other));
          const { stateSource, step } = await executor.look(effectId);
          return { outcome, stateSource, step };
        }),
        world.advance(10_000).then(() => undefined),
      ]);
      for (const one of sources) {
        if (one === undefined) continue;
        const byActor = typeof one.outcome !== 'string';
        if (!byActor) expect(one.outcome).toBe('EFFECT_STATE_CONFLICT');
        expect(one.stateSource).toBe(byActor ? StateSource.ACTOR : StateSource.EXPIRY);
        expect(one.step).toBe(2n);
      }
    });

    test('the log of all this verifies', async () => {
      expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
    });
  },
);

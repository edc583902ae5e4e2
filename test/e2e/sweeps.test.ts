import { fromBinary } from '@bufbuild/protobuf';
import { durationFromMs, type Timestamp, timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_HARNESS } from '../../src/cli/demo/set-up-domain.js';
import { AuditEntrySchema } from '../../src/gen/surety/audit/v1/entry_pb.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { type Effect, EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import {
  ACME,
  AUDITOR,
  type E2eWorld,
  HARNESS,
  openE2eWorld,
  refusedWith,
  type StartedEffect,
} from '../support/e2e-world.js';
import {
  credential,
  entitle,
  findingsOfLog,
  isPending,
  publishAs,
  put,
  reconcileAs,
  reservation,
  reserveAs,
  usesOf,
  WHOLE_LOG,
} from '../support/e2e-parties.js';

const { PREPARED, EXECUTING, UNKNOWN, SUCCEEDED, CANCELLED } = EffectState;
const ms = (time: Timestamp | undefined): number => timestampMs(time ?? timestampFromMs(0));

describe('effects.md, Start before and Executor lost: what time alone moves', () => {
  let world: E2eWorld;
  let executor: WorkloadSession;
  let reconciler: WorkloadSession;

  beforeAll(async () => {
    world = await openE2eWorld();
    executor = await world.executor();
    reconciler = await world.reconciler();
  });
  afterAll(() => world.close());

  const from = async (delayMs: number) => timestampFromMs((await world.now()) + delayMs);

  async function expectExpired(effectId: string): Promise<Effect> {
    const effect = await executor.look(effectId);
    expect(effect).toMatchObject({
      state: CANCELLED,
      stateSource: StateSource.EXPIRY,
      holdsKey: false,
      step: 2n,
    });
    expect(effect.settleTime).toBeDefined();
    expect(await isPending(world, effectId)).toBe(false);
    // The use stays consumed.
    expect(await usesOf(world, effect.grantId)).toBe(1);
    return effect;
  }

  describe('start_before is the earliest of', () => {
    test('24 h, where no ttl is given', async () => {
      const { effect } = await world.effectIn(PREPARED, executor);
      expect(ms(effect.startBeforeTime) - ms(effect.reserveTime)).toBe(86_400_000);
    });

    test.each(['ttl', 'grant', 'event'] as const)(
      'ttl, grant expiry and event deadline: %s',
      async (first) => {
        const at = (name: string) => (name === first ? 60_000 : 120_000);
        const [grantEnds, eventEnds] = [await from(at('grant')), await from(at('event'))];
        const { effect } = await world.effectIn(PREPARED, executor, {
          eventId: await publishAs(world, HARNESS, { effectDeadlineTime: eventEnds }),
          grantId: await world.grant({ expireTime: grantEnds }),
          reservationTtl: durationFromMs(at('ttl')),
        });
        const ends = {
          ttl: ms(effect.reserveTime) + 60_000,
          grant: ms(grantEnds),
          event: ms(eventEnds),
        };
        expect(ms(effect.startBeforeTime)).toBe(ends[first]);
      },
    );
  });

  describe('a PREPARED effect is cancelled, source `expiry`', () => {
    test('past its ttl, and not before', async () => {
      const { effectId } = await world.reserve({ reservationTtl: durationFromMs(300_000) });
      const longer = await world.reserve({ reservationTtl: durationFromMs(900_000) });
      await world.advance(100_000);
      expect((await executor.look(effectId)).state).toBe(PREPARED);
      await world.advance(200_000);
      const effect = await expectExpired(effectId);
      expect(ms(effect.settleTime)).toBeGreaterThanOrEqual(ms(effect.startBeforeTime));
      expect((await executor.look(longer.effectId)).state).toBe(PREPARED);
      // The service itself did it, on nobody's evidence.
      const { steps } = await world
        .channel(AUDITOR)
        .service(EffectService)
        .getEffectHistory({ domainId: ACME, effectId });
      expect(steps[1]).toMatchObject({ source: StateSource.EXPIRY, actorSpiffeId: '', attemptId: '' });
      expect(steps[1]?.evidenceDigest).toHaveLength(0);
    });

    test('past the expiry of its grant', async () => {
      const grantId = await world.grant({ expireTime: await from(90_000) });
      const { effectId } = await world.reserve({ grantId });
      await world.advance(90_000);
      await expectExpired(effectId);
    });

    test('past the deadline of its event', async () => {
      const eventId = await publishAs(world, HARNESS, { effectDeadlineTime: await from(90_000) });
      const { effectId } = await world.reserve({ eventId });
      await world.advance(90_000);
      await expectExpired(effectId);
    });

    test('whose grant was revoked', async () => {
      const [grantId, other] = [await world.grant(), await world.reserve()];
      const { effectId } = await world.reserve({ grantId });
      await put(world, { case: 'revokeGrant', value: { grantId } });
      await world.advance(1);
      await expectExpired(effectId);
      expect((await executor.look(other.effectId)).state).toBe(PREPARED);
    });

    test('whose grant is of an old policy revision', async () => {
      const { effectId } = await world.reserve();
      await put(world, { case: 'bumpPolicyRevision', value: {} });
      await world.advance(1);
      await expectExpired(effectId);
      await entitle(world);
    });

    test('whose grant is of an old credential epoch', async () => {
      const { effectId } = await world.reserve();
      await put(world, { case: 'bumpCredentialEpoch', value: { harnessId: DEMO_HARNESS } });
      await credential(world, { spiffeId: HARNESS, harnessId: DEMO_HARNESS });
      await world.advance(1);
      await expectExpired(effectId);
    });

    test('however many there are', async () => {
      const grantId = await world.grant();
      const request = await reservation(world, { grantId });
      const replies = await Promise.all(
        Array.from({ length: 210 }, (_, index) =>
          reserveAs(world, HARNESS, {
            ...request,
            effectKey: `one of many ${index}`,
            request: { case: 'requestDigest', value: digest(`one of many ${index}`) },
          }),
        ),
      );
      expect(replies).toHaveLength(210);
      await put(world, { case: 'revokeGrant', value: { grantId } });
      await world.advance(1);
      const { rows } = await world.sql.query(
        `SELECT state, count(*)::integer AS count FROM effects WHERE grant_id = $1 GROUP BY state`,
        [grantId],
      );
      expect(rows).toEqual([{ state: 'CANCELLED', count: 210 }]);
    });

    test('by the service itself, without anybody asking', async () => {
      const { effectId } = await world.reserve({ reservationTtl: durationFromMs(1_000) });
      await vi.waitFor(() => expectExpired(effectId), { timeout: 60_000, interval: 100 });
    });
  });

  describe('an EXECUTING effect past its execution deadline is UNKNOWN, source `executor_lost`', () => {
    async function expectLost({ effect, attemptId }: StartedEffect): Promise<Effect> {
      const lost = await executor.look(effect.effectId);
      expect(lost).toMatchObject({
        state: UNKNOWN,
        stateSource: StateSource.EXECUTOR_LOST,
        attemptId,
        holdsKey: true,
        step: 3n,
      });
      expect(ms(lost.unknownTime)).toBeGreaterThanOrEqual(ms(effect.executionDeadlineTime));
      expect(await isPending(world, effect.effectId)).toBe(true);
      return lost;
    }

    test('as the reservation says, and not before', async () => {
      const started = await world.effectIn(EXECUTING, executor, {
        executionDeadline: durationFromMs(300_000),
      });
      const { startTime, executionDeadlineTime } = started.effect;
      expect(ms(executionDeadlineTime) - ms(startTime)).toBe(300_000);
      await world.advance(100_000);
      expect((await executor.look(started.effect.effectId)).state).toBe(EXECUTING);
      await world.advance(200_000);
      await expectLost(started);
    });

    test('15 min, where it says nothing; a reconciler settles it, the executor does not', async () => {
      const started = await world.effectIn(EXECUTING, executor);
      const { startTime, executionDeadlineTime, effectId } = started.effect;
      expect(ms(executionDeadlineTime) - ms(startTime)).toBe(900_000);
      await world.advance(900_000);
      const lost = await expectLost(started);
      const acknowledgement = await executor.acknowledge(lost, SUCCEEDED, {
        attemptId: started.attemptId,
        receiptId: `receipt-${effectId}`,
        receipt: 'done',
      });
      const call = executor.channel.service(EffectService).acknowledgeTerminal(acknowledgement);
      expect(await refusedWith(call)).toMatchObject({ reason: 'EFFECT_MUST_RECONCILE' });
      const settled = await reconcileAs(world, reconciler, { ...started, effect: lost }, SUCCEEDED);
      expect(settled).toMatchObject({ state: SUCCEEDED, stateSource: StateSource.RECONCILER });
      expect(await isPending(world, effectId)).toBe(false);
    });

    test('by the service itself, without anybody asking', async () => {
      const started = await world.effectIn(EXECUTING, executor, { executionDeadline: durationFromMs(1_000) });
      await vi.waitFor(() => expectLost(started), { timeout: 60_000, interval: 100 });
    });
  });

  describe('a grant that ends after the start leaves nobody stuck', () => {
    const ENDINGS: [string, (grantId: string) => Promise<void>][] = [
      ['expires', () => world.advance(90_000)],
      ['is revoked', (grantId) => put(world, { case: 'revokeGrant', value: { grantId } })],
      [
        'goes stale',
        async () => {
          await put(world, { case: 'bumpPolicyRevision', value: {} });
          await entitle(world);
        },
      ],
    ];

    test.each(ENDINGS)('it %s: the executor acknowledges, or a reconciler settles', async (_, end) => {
      const grantId = await world.grant({ expireTime: await from(90_000) });
      const acknowledged = await world.effectIn(EXECUTING, executor, { grantId });
      const unknown = await world.effectIn(EXECUTING, executor, { grantId });
      await end(grantId);
      await world.advance(1);
      const { effectId } = acknowledged.effect;
      expect((await executor.look(effectId)).state).toBe(EXECUTING);

      const effects = executor.channel.service(EffectService);
      await effects.acknowledgeTerminal(
        await executor.acknowledge(acknowledged.effect, SUCCEEDED, {
          attemptId: acknowledged.attemptId,
          receiptId: `receipt-${effectId}`,
          receipt: 'done',
        }),
      );
      expect((await executor.look(effectId)).state).toBe(SUCCEEDED);
      await effects.markUnknown(
        await executor.markUnknown(unknown.effect, {
          attemptId: unknown.attemptId,
          reason: 1,
          observationDigest: digest('nothing came back'),
          observedTime: timestampFromMs(await world.now()),
        }),
      );
      const { attemptId } = unknown;
      const effect = await executor.look(unknown.effect.effectId);
      await reconcileAs(world, reconciler, { attemptId, effect }, SUCCEEDED);
      expect((await executor.look(effect.effectId)).state).toBe(SUCCEEDED);
      // The log says that the grant was good at the start, and no more at the end.
      expect(await grantCurrency(effectId)).toEqual([undefined, true, false]);
      expect(await grantCurrency(effect.effectId)).toEqual([undefined, true, false, false]);
    });

    async function grantCurrency(effectId: string): Promise<(boolean | undefined)[]> {
      const auditor = world.channel(AUDITOR);
      const { steps } = await auditor.service(EffectService).getEffectHistory({ domainId: ACME, effectId });
      const entries = await Promise.all(
        steps.map(({ auditPosition }) =>
          auditor
            .service(AuditService)
            .listEntries({ domainId: ACME, afterSeq: auditPosition - 1n, pageSize: 1 }),
        ),
      );
      return entries.map(
        (page) => fromBinary(AuditEntrySchema, page.entries[0]?.entry ?? Buffer.of()).effect?.grantCurrent,
      );
    }
  });

  test('the log of all this verifies', async () => {
    expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
  });
});

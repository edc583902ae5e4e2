import { randomUUID } from 'node:crypto';
import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import {
  DEMO_ACTION,
  DEMO_DATA_CLASS,
  DEMO_HARNESS,
  DEMO_INPUT_SOURCE,
  DEMO_PRINCIPAL,
  DEMO_SINK,
} from '../../src/cli/demo/set-up-domain.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService, RetryAdvice } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { type E2eWorld, GLOBEX, HARNESS, openE2eWorld, refusedWith } from '../support/e2e-world.js';
import {
  addHarness,
  cancel,
  findingsOfLog,
  MAILER,
  publishAs,
  put,
  reconcileAs,
  type ReserveRequest,
  reservation,
  reserveAs,
  traces,
  VISITOR,
  WHOLE_LOG,
} from '../support/e2e-parties.js';

const GLOBEX_HARNESS = `spiffe://${GLOBEX}/harness/planner`;
const newKey = (): string => `refund:${randomUUID()}`;

describe('effects.md, Reserve 5: the effect key', () => {
  let world: E2eWorld;
  let executor: WorkloadSession;
  let reconciler: WorkloadSession;

  beforeAll(async () => {
    world = await openE2eWorld({ globex: true });
    executor = await world.executor();
    reconciler = await world.reconciler();
    await addHarness(world, { spiffeId: MAILER, harnessId: 'mailer', principalId: 'mona' });
    const sibling = { spiffeId: VISITOR, harnessId: 'sibling', principalId: DEMO_PRINCIPAL };
    await addHarness(world, sibling);
  });
  afterAll(() => world.close());

  /** The same change in other words: another event, digest and grant under the same key. */
  const reworded = (effectKey: string, overrides: ReserveRequest = {}) =>
    reservation(world, { effectKey, ...overrides });

  async function expectInTheWay(
    request: ReserveRequest,
    reason: string,
    metadata: Record<string, string>,
    spiffeId = HARNESS,
  ): Promise<void> {
    const before = await traces(world);
    const error = await refusedWith(reserveAs(world, spiffeId, request));
    expect(error).toMatchObject({ code: 'FAILED_PRECONDITION', reason });
    expect(error.metadata).toEqual(metadata);
    expect(await traces(world)).toEqual(before);
  }

  describe('what is in the way, and nothing is written', () => {
    test.each([
      ['PREPARED', 'EFFECT_KEY_BUSY'],
      ['EXECUTING', 'EFFECT_KEY_BUSY'],
      ['UNKNOWN', 'EFFECT_KEY_BUSY'],
      ['SUCCEEDED', 'EFFECT_KEY_DONE'],
    ] as const)('%s is %s; a fresh grant does not help', async (state, reason) => {
      const effectKey = newKey();
      const { effect } = await world.effectIn(EffectState[state], executor, { effectKey });
      expect(effect).toMatchObject({ holdsKey: true, effectKey });
      const metadata = { state, effect_id: effect.effectId };
      await expectInTheWay(await reworded(effectKey), reason, metadata);
      await expectInTheWay(await reworded(effectKey, { grantId: effect.grantId }), reason, metadata);
      // Nor does it help to say that one would not mind.
      const repeatable = await world.grant({ repeatable: true });
      await expectInTheWay(
        await reworded(effectKey, { grantId: repeatable, repeatable: true }),
        reason,
        metadata,
      );
    });

    test('its id is told only to whoever may see it', async () => {
      const [busy, done] = [newKey(), newKey()];
      await world.effectIn(EffectState.PREPARED, executor, { effectKey: busy });
      await world.effectIn(EffectState.SUCCEEDED, executor, { effectKey: done });
      const grantId = await world.grant({ principalId: 'mona', harnessId: 'mailer' });
      const theirs = async (effectKey: string) =>
        reworded(effectKey, { eventId: await publishAs(world, MAILER), grantId });
      await expectInTheWay(await theirs(busy), 'EFFECT_KEY_BUSY', { state: 'PREPARED' }, MAILER);
      await expectInTheWay(await theirs(done), 'EFFECT_KEY_DONE', { state: 'SUCCEEDED' }, MAILER);
      // Nor is it told to another harness of the same principal: the actor is both.
      const siblings = await world.grant({ harnessId: 'sibling' });
      const twin = await reworded(busy, { eventId: await publishAs(world, VISITOR), grantId: siblings });
      await expectInTheWay(twin, 'EFFECT_KEY_BUSY', { state: 'PREPARED' }, VISITOR);
      // Nor is it told to a party of the event, which does not see the effect either.
      const eventId = await publishAs(world, HARNESS, { recipientHarnessIds: ['mailer'] });
      const ours = await reservation(world, { eventId });
      await reserveAs(world, HARNESS, ours);
      const request: ReserveRequest = {
        ...ours,
        grantId,
        request: { case: 'requestDigest', value: digest('theirs') },
      };
      await expectInTheWay(request, 'EFFECT_KEY_BUSY', { state: 'PREPARED' }, MAILER);
    });
  });

  describe('after FAILED and CANCELLED the key is free, and the identity is not', () => {
    type Ending = () => Promise<{ request: ReserveRequest; effectId: string }>;
    const begin = async () => {
      const request = await reworded(newKey());
      return { request, ...(await reserveAs(world, HARNESS, request)) };
    };
    const byExecutor =
      (state: EffectState): Ending =>
      async () => {
        const begun = await begin();
        await world.effectIn(state, executor, begun.request);
        return begun;
      };
    const byReconciler =
      (state: EffectState): Ending =>
      async () => {
        const begun = await begin();
        const unknown = await world.effectIn(EffectState.UNKNOWN, executor, begun.request);
        await world.advance(121_000);
        await reconcileAs(world, reconciler, unknown, state);
        return begun;
      };
    const byActor: Ending = async () => {
      const begun = await begin();
      await cancel(world, begun.effectId);
      return begun;
    };
    const byExpiry: Ending = async () => {
      const request = await reworded(newKey(), { reservationTtl: durationFromMs(1_000) });
      const { effectId } = await reserveAs(world, HARNESS, request);
      await world.advance(1_000);
      return { request, effectId };
    };

    test.each<[string, EffectState, Ending]>([
      ['FAILED by the executor', EffectState.FAILED, byExecutor(EffectState.FAILED)],
      ['CANCELLED by the executor', EffectState.CANCELLED, byExecutor(EffectState.CANCELLED)],
      ['FAILED by a reconciler', EffectState.FAILED, byReconciler(EffectState.FAILED)],
      ['CANCELLED by a reconciler', EffectState.CANCELLED, byReconciler(EffectState.CANCELLED)],
      ['CANCELLED by the actor', EffectState.CANCELLED, byActor],
      ['CANCELLED by expiry', EffectState.CANCELLED, byExpiry],
    ])('%s', async (_, state, end) => {
      const { request, effectId } = await end();
      const shown = await executor.look(effectId);
      expect(shown).toMatchObject({ state, holdsKey: false });
      const before = await traces(world);
      // The exact request is answered by the stored effect for ever, and advised to take a new event.
      const repeated = await reserveAs(world, HARNESS, request);
      expect(repeated).toMatchObject({ effectId, duplicate: true, currentState: state });
      expect(await traces(world)).toEqual(before);
      const retry = await world.channel(HARNESS).service(EffectService).checkRetry({ effectId });
      expect(retry).toMatchObject({ advice: RetryAdvice.NEW_EVENT, state });
      const again = await reserveAs(world, HARNESS, await reworded(request.effectKey ?? ''));
      expect(again.duplicate).toBe(false);
      expect(again.effectId).not.toBe(effectId);
      // The old one is still answered, and by itself, while the new one holds the key.
      expect((await reserveAs(world, HARNESS, request)).effectId).toBe(effectId);
    });
  });

  describe('repeatable: only where effect, its grant, the new request and its grant all say so', () => {
    const BOTH = [true, false];
    const matrix = BOTH.flatMap((effect) =>
      BOTH.flatMap((grant) =>
        BOTH.flatMap((request) => BOTH.map((newGrant) => ({ effect, grant, request, newGrant }))),
      ),
    );

    test.each(matrix)('%o', async ({ effect, grant, request, newGrant }) => {
      const effectKey = newKey();
      const first = await world.effectIn(EffectState.SUCCEEDED, executor, {
        effectKey,
        repeatable: effect,
        grantId: await world.grant({ repeatable: grant }),
      });
      expect(first.effect.holdsKey).toBe(!(effect && grant));
      const next = await reworded(effectKey, {
        repeatable: request,
        grantId: await world.grant({ repeatable: newGrant }),
      });
      if (effect && grant && request && newGrant) {
        const reply = await reserveAs(world, HARNESS, next);
        expect(reply.duplicate).toBe(false);
      } else {
        await expectInTheWay(next, 'EFFECT_KEY_DONE', {
          state: 'SUCCEEDED',
          effect_id: first.effect.effectId,
        });
      }
    });

    test('while one of them is live, a repeatable one waits too', async () => {
      const effectKey = newKey();
      const grantId = await world.grant({ repeatable: true });
      const wish = { effectKey, grantId, repeatable: true };
      await world.effectIn(EffectState.SUCCEEDED, executor, wish);
      const { effect } = await world.effectIn(EffectState.EXECUTING, executor, wish);
      const metadata = { state: 'EXECUTING', effect_id: effect.effectId };
      await expectInTheWay(await reworded(effectKey, wish), 'EFFECT_KEY_BUSY', metadata);
    });

    test('its identity stays unique all the same', async () => {
      const request = await reworded(newKey(), {
        grantId: await world.grant({ repeatable: true }),
        repeatable: true,
      });
      const { effectId } = await reserveAs(world, HARNESS, request);
      await world.effectIn(EffectState.SUCCEEDED, executor, request);
      const repeated = await reserveAs(world, HARNESS, request);
      expect(repeated).toMatchObject({ effectId, duplicate: true, currentState: EffectState.SUCCEEDED });
    });
  });

  describe('what a key is', () => {
    const other: NonNullable<ReserveRequest['request']> = {
      case: 'requestDigest',
      value: digest('reworded'),
    };

    test('left empty it is the event and the resource: a reworded request for both is in the way', async () => {
      const grantId = await world.grant({ resources: ['order-1184', 'order-1185'] });
      const request = await reservation(world, { grantId });
      const { effectId } = await reserveAs(world, HARNESS, request);
      const metadata = { state: 'PREPARED', effect_id: effectId };
      await expectInTheWay({ ...request, request: other }, 'EFFECT_KEY_BUSY', metadata);
      await reserveAs(world, HARNESS, { ...request, request: other, resource: 'order-1185' });
      await reserveAs(world, HARNESS, await reservation(world, { grantId }));
    });

    test('event and resource are told apart: no pair makes the key of another', async () => {
      const id = randomUUID();
      const pairs = [
        [`${id}a`, 'bc'],
        [`${id}ab`, 'c'],
        [id, 'abc'],
      ] as const;
      const grantId = await world.grant({ resources: pairs.map(([, resource]) => resource) });
      const keys = [];
      for (const [eventId, resource] of pairs) {
        await world.publish(eventId);
        const reply = await reserveAs(
          world,
          HARNESS,
          await reservation(world, { eventId, resource, grantId }),
        );
        keys.push(Buffer.from(reply.effectKeyDigest).toString('hex'));
      }
      expect(new Set(keys).size).toBe(pairs.length);
    });

    test('no explicit key reaches the default one', async () => {
      const request = await reservation(world);
      const { effectKeyDigest } = await reserveAs(world, HARNESS, request);
      const eventId = request.eventId ?? '';
      const attempts = [
        Buffer.from(effectKeyDigest).toString('hex'),
        Buffer.from(effectKeyDigest).toString('base64url'),
        eventId,
        'order-1184',
        `${eventId}order-1184`,
        `${eventId}:order-1184`,
      ];
      for (const effectKey of attempts) {
        const reply = await reserveAs(world, HARNESS, await reworded(effectKey));
        expect(Buffer.compare(reply.effectKeyDigest, effectKeyDigest)).not.toBe(0);
      }
    });

    test('it is exactly what was said, at one sink of one domain', async () => {
      const effectKey = newKey();
      const sink = { sink: 'mail', authoritySystems: ['postmaster'] };
      await put(world, { case: 'putSink', value: { sink } });
      const first = await reserveAs(world, HARNESS, await reworded(effectKey));
      const grantId = await world.grant({ outputSinks: ['mail'] });
      const elsewhere = await reserveAs(
        world,
        HARNESS,
        await reworded(effectKey, { outputSink: 'mail', grantId }),
      );
      const abroad = await reserveAs(world, GLOBEX_HARNESS, await globexReservation(effectKey));
      expect(new Set([first.effectId, elsewhere.effectId, abroad.effectId]).size).toBe(3);
      for (const variant of [effectKey.toUpperCase(), `${effectKey} `, `${effectKey}\u0301`]) {
        await reserveAs(world, HARNESS, await reworded(variant));
      }
    });

    async function globexReservation(effectKey: string): Promise<ReserveRequest> {
      const grantId = `grant-${randomUUID()}`;
      await world.admin.execute(GLOBEX, {
        case: 'createGrant',
        value: {
          grant: {
            grantId,
            principalId: DEMO_PRINCIPAL,
            harnessId: DEMO_HARNESS,
            actions: [DEMO_ACTION],
            resources: ['order-1184'],
            inputSources: [DEMO_INPUT_SOURCE],
            outputSinks: [DEMO_SINK],
            dataClasses: [DEMO_DATA_CLASS],
            maxUses: 1n,
            expireTime: timestampFromMs((await world.now()) + 3_600_000),
          },
        },
      });
      return reservation(world, { eventId: await publishAs(world, GLOBEX_HARNESS), grantId, effectKey });
    }
  });

  test('the log of all this verifies', async () => {
    expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
  });
});

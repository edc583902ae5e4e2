import { fromJsonString, toJson, toJsonString } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Effect, EffectSchema, EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  EffectService,
  type ReserveEffectResponse,
  ReserveEffectResponseSchema,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import {
  ACME,
  AUDITOR,
  type E2eWorld,
  EXECUTOR_A,
  HARNESS,
  openE2eWorld,
  refusedWith,
} from '../support/e2e-world.js';
import {
  bySuperuser,
  cancel,
  findingsOfLog,
  reconcileAs,
  reservation,
  reserveAs,
  traces,
  WHOLE_LOG,
} from '../support/e2e-parties.js';

/** A number cannot hold it: 2^53 + 1 reads as 2^53. */
const BEYOND_DOUBLE = 2n ** 53n + 1n;
const LAST = 2n ** 63n - 1n;
const COUNTER_BITS = 40n;

describe('effects.md, Reserve 8: fences of 63 bits', () => {
  let world: E2eWorld;

  /** Reserved in the first incarnation. */
  let early: ReserveEffectResponse;

  beforeAll(async () => {
    world = await openE2eWorld();
    early = await world.reserve();
  });
  afterAll(() => world.close());

  /** Puts incarnation and counter where the next fence is this one, as years of use and restores would. */
  async function goTo(fence: bigint): Promise<void> {
    await bySuperuser(world, 'UPDATE service_state SET incarnation = $1', [String(fence >> COUNTER_BITS)]);
    await bySuperuser(world, 'UPDATE domain_heads SET fence_counter = $1 WHERE domain_id = $2', [
      String((fence & (2n ** COUNTER_BITS - 1n)) - 1n),
      ACME,
    ]);
  }

  function expectInJson(effect: Effect, reply: ReserveEffectResponse, fence: bigint): void {
    const text = `"fence":"${fence}"`;
    expect(toJson(EffectSchema, effect)).toMatchObject({ fence: String(fence) });
    expect(toJsonString(EffectSchema, effect)).toContain(text);
    expect(fromJsonString(EffectSchema, toJsonString(EffectSchema, effect)).fence).toBe(fence);
    expect(toJsonString(ReserveEffectResponseSchema, reply)).toContain(text);
  }

  test.each([
    ['2^53 + 1', BEYOND_DOUBLE],
    ['2^63 - 1', LAST],
  ])('%s, through reservation, proof, log, lists and JSON', async (_, fence) => {
    await goTo(fence);
    const [executor, reconciler] = [await world.executor(EXECUTOR_A), await world.reconciler()];
    expect(executor.service.incarnation).toBe(fence >> COUNTER_BITS);
    const request = await reservation(world);
    const reply = await reserveAs(world, HARNESS, request);
    expect(reply.fence).toBe(fence);
    expectInJson(await executor.look(reply.effectId), reply, fence);

    // The proof binds the fence: one that lost its last bit on the way is another.
    const shown = await executor.look(reply.effectId);
    const rounded = await executor.start({ ...shown, fence: fence - 1n }, `attempt of ${reply.effectId}`);
    const effects = executor.channel.service(EffectService);
    expect(await refusedWith(effects.startExecution(rounded))).toMatchObject({
      reason: 'PROOF_BINDING_MISMATCH',
      metadata: { field: 'fence' },
    });

    const unknown = await world.effectIn(EffectState.UNKNOWN, executor, request);
    const settled = await reconcileAs(world, reconciler, unknown, EffectState.SUCCEEDED);
    expect(settled).toMatchObject({ fence, state: EffectState.SUCCEEDED });
    const again = await reserveAs(world, HARNESS, request);
    expect(again).toMatchObject({ fence, duplicate: true });
    const auditor = world.channel(AUDITOR).service(EffectService);
    const { steps } = await auditor.getEffectHistory({ domainId: ACME, effectId: reply.effectId });
    expect(steps.map((step) => step.fence)).toEqual(Array.from({ length: 4 }, () => fence));
    const list = await auditor.listEffects({ domainId: ACME, eventId: request.eventId ?? '' });
    expect(list.effects.map((effect) => effect.fence)).toEqual([fence]);
    const { rows } = await world.sql.query('SELECT fence::text FROM effects WHERE effect_id = $1', [
      reply.effectId,
    ]);
    expect(rows).toEqual([{ fence: String(fence) }]);
  });

  test('behind the last one there is none: nothing is reserved, nothing wraps around, the rest goes on', async () => {
    const request = await reservation(world);
    const before = await traces(world);
    const error = await refusedWith(reserveAs(world, HARNESS, request));
    expect(error).toMatchObject({ code: 'INTERNAL', reason: 'INTERNAL' });
    expect(await traces(world)).toEqual(before);
    expect(await world.publish()).not.toBe('');
    // What an earlier incarnation reserved waits for a reconciler, whatever its fence is.
    expect(await refusedWith(cancel(world, early.effectId))).toMatchObject({
      reason: 'EFFECT_MUST_RECONCILE',
    });
  });

  test('lists page by fence, also by those that no double can hold', async () => {
    const auditor = world.channel(AUDITOR).service(EffectService);
    const fences: bigint[] = [];
    let pageToken = '';
    do {
      const page = await auditor.listEffects({ domainId: ACME, pageSize: 1, pageToken });
      fences.push(...page.effects.map(({ fence }) => fence));
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
    expect(fences).toEqual([early.fence, BEYOND_DOUBLE, LAST]);
  });

  test('the log verifies across incarnations', async () => {
    expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
  });
});

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { CommandBase, Decision } from '../../src/ledger/decision.js';
import { accept } from '../../src/ledger/decision.js';
import { expireEffect } from '../../src/ledger/effect/expire-effect.js';
import {
  DOMAIN,
  type EffectWorld,
  EXECUTOR_B,
  freshId,
  openWorld,
  type Replica,
  seedGrant,
  seedRegistration,
} from '../support/effect-world.js';
import { patientUrl } from '../support/postgres.js';
import {
  acknowledgeCall,
  type Call,
  done,
  type EffectOutcome,
  reserveCall,
  reserved,
  seedWorkers,
  startCall,
  started,
  submit,
  unknownCall,
  type Workers,
} from './effect-life.js';
import { Hold, type LaneReplica, laneReplica } from './lane-replica.js';
import { expectSound, fingerprint } from './store-invariants.js';

// architecture.md, "The lane": bounded queues, bounded batches, deadlines before the batch and never after.

let world: EffectWorld;
let healthy: Replica;
let workers: Workers & { grantId: string };
let replica: LaneReplica;
/** The lanes' clock where calls have deadlines, in milliseconds: it stands still until a test moves it. */
let clockMs = 0;

beforeAll(async () => {
  world = await openWorld();
  healthy = world.replica();
  workers = await seedWorkers(world);
});
afterEach(async () => {
  await replica.close();
});
afterAll(() => world.close());

/**
 * Opens lanes whose first batch, of this call alone, is held behind its lock. Nothing else of the domain can be done
 * meanwhile: other calls are made before.
 */
async function holdUp(
  call: Call,
  options: { queueLimit?: number; batchLimit?: number; deadline?: number } = {},
): Promise<{ letGo: () => void; running: Promise<EffectOutcome> }> {
  const hold = new Hold('after-gather');
  const url = patientUrl(world.database.serviceUrl);
  replica = laneReplica(url, { ...options, faults: hold, monotonicMs: () => clockMs });
  const running = submit(replica, call, options.deadline);
  await hold.held;
  return { letGo: hold.letGo, running };
}

function calls(count: number): Promise<Call[]> {
  return Promise.all(Array.from({ length: count }, () => reserveCall(healthy, workers.grantId)));
}

describe('a queue that is full', () => {
  test('refuses with BACKPRESSURE and when to come back; what was queued is served', async () => {
    const [first, ...rest] = (await calls(8)) as [Call, ...Call[]];
    const { letGo, running } = await holdUp(first, { queueLimit: 5 });
    const outcomes = rest.map((call) => submit(replica, call));
    for (const outcome of await Promise.all(outcomes.slice(5))) {
      expect(outcome).toMatchObject({
        ok: false,
        recorded: false,
        refusal: { reason: 'BACKPRESSURE', retryAfter: 250_000n },
      });
    }
    expect(replica.lanes.queued).toBe(5);
    letGo();
    for (const outcome of [await running, ...(await Promise.all(outcomes.slice(0, 5)))]) {
      expect(outcome).toMatchObject({ ok: true, reply: { duplicate: false } });
    }
    expect(replica.lanes.queued).toBe(0);
    for (const call of rest.slice(5)) {
      expect(await submit(replica, call)).toMatchObject({ ok: true, reply: { duplicate: false } });
    }
    await expectSound(world.admin);
  });

  test('is served first come, first served, in bounded batches', async () => {
    const [first, ...rest] = (await calls(9)) as [Call, ...Call[]];
    const { letGo, running } = await holdUp(first, { batchLimit: 3 });
    const queued = rest.map((call) => submit(replica, call));
    letGo();
    const effects = await Promise.all([running, ...queued].map((outcome) => done(outcome)));
    await expect.poll(() => replica.tally.batches).toEqual([1, 3, 3, 2]);
    const fences = effects.map(({ fence }) => fence);
    expect(fences).toEqual([...fences].sort((a, b) => (a < b ? -1 : 1)));
  });
});

describe('a deadline', () => {
  test('that passes while the call is queued: it is not begun', async () => {
    const [first, hasty, patient] = (await calls(3)) as [Call, Call, Call];
    const { letGo, running } = await holdUp(first);
    const late = submit(replica, hasty, clockMs + 200);
    const inTime = submit(replica, patient, clockMs + 301);
    clockMs += 300;
    letGo();
    expect(await late).toMatchObject({ ok: false, recorded: false, refusal: { reason: 'DEADLINE_PASSED' } });
    expect(await running).toMatchObject({ ok: true });
    expect(await inTime).toMatchObject({ ok: true });
    const { effectId } = hasty.command as unknown as { effectId: string };
    const { rows } = await world.admin.query('SELECT FROM effects WHERE effect_id = $1', [effectId]);
    expect(rows).toEqual([]);
    await expectSound(world.admin);
  });

  test('that passes after its batch began: it is answered all the same', async () => {
    const [call] = (await calls(1)) as [Call];
    const { letGo, running } = await holdUp(call, { deadline: clockMs + 1_000 });
    clockMs += 1_200;
    letGo();
    expect(await running).toMatchObject({ ok: true, reply: { duplicate: false } });
  });
});

describe('commands that must not share a batch', () => {
  test('two steps of one effect in one burst: each finds what the one before it made', async () => {
    replica = laneReplica(world.database.serviceUrl);
    const effect = await started(healthy, workers);
    // The second is legal only after the first, the third only after the second.
    const unknown = unknownCall(workers.executor, effect);
    const burst = [unknown, acknowledgeCall(workers.executor, effect), unknown].map((call) =>
      submit(replica, call),
    );
    const [one, two, three] = await Promise.all(burst);
    expect(one).toMatchObject({ ok: true, reply: { duplicate: false, effect: { state: 'UNKNOWN' } } });
    expect(two).toMatchObject({ ok: false, recorded: true, refusal: { reason: 'EFFECT_MUST_RECONCILE' } });
    expect(three).toMatchObject({ ok: true, reply: { duplicate: true } });
    await expect.poll(() => replica.tally.batches).toEqual([1, 1, 1]);
    expect(replica.tally.retries).toBe(0);
    await expectSound(world.admin);
  });

  test('two executors start one effect in one burst: the first alone', async () => {
    replica = laneReplica(world.database.serviceUrl);
    const other = await seedRegistration(world, EXECUTOR_B);
    const effect = await reserved(healthy, workers);
    const [first, second] = [startCall(workers.executor, effect), startCall(other, effect, EXECUTOR_B)];
    const outcomes = await Promise.all([submit(replica, first), submit(replica, second)]);
    expect(outcomes[0]).toMatchObject({ ok: true, reply: { duplicate: false } });
    expect(outcomes[1]).toMatchObject({ ok: false, refusal: { reason: 'EFFECT_STATE_CONFLICT' } });
    await expectSound(world.admin);
  });

  test('steps of different effects do share one', async () => {
    replica = laneReplica(world.database.serviceUrl);
    const effects = [await reserved(healthy, workers), await reserved(healthy, workers)];
    await Promise.all(effects.map((effect) => submit(replica, startCall(workers.executor, effect))));
    await expect.poll(() => replica.tally.batches).toEqual([2]);
  });

  test('an exclusive command has a batch of its own, in its place', async () => {
    replica = laneReplica(world.database.serviceUrl);
    const exclusive: Decision<CommandBase, string> = {
      kind: 'test.exclusive',
      exclusive: true,
      reads: () => ({}),
      decide: () => accept('done'),
    };
    const [one, two, three] = (await calls(3)) as [Call, Call, Call];
    const outcomes = await Promise.all([
      submit(replica, one),
      submit(replica, two),
      replica.lanes.submit(exclusive, { domainId: DOMAIN, commandId: freshId('cmd') }),
      submit(replica, three),
    ]);
    expect(outcomes.every((outcome) => outcome.ok)).toBe(true);
    await expect.poll(() => replica.tally.batches).toEqual([2, 1, 1]);
  });

  test('a key that one command frees is taken by the next, in one batch', async () => {
    replica = laneReplica(world.database.serviceUrl);
    const effectKey = freshId('key');
    const brief = await reserveCall(healthy, workers.grantId, { effectKey, reservationTtl: 1n });
    const { effectId } = await done(submit(healthy, brief));
    const next = await reserveCall(healthy, workers.grantId, { effectKey });
    const [swept, taken] = await Promise.all([
      replica.lanes.submit(expireEffect, { domainId: DOMAIN, commandId: freshId('sweep'), effectId }),
      submit(replica, next),
    ]);
    expect(swept).toMatchObject({ ok: true, reply: { changed: true } });
    expect(taken).toMatchObject({ ok: true, reply: { duplicate: false } });
    await expect.poll(() => replica.tally.batches).toEqual([2]);
    expect(replica.tally.retries).toBe(0);
    await expectSound(world.admin);
  });

  test('one use left and a burst of reservations in one batch: one', async () => {
    replica = laneReplica(world.database.serviceUrl);
    const { grantId } = await seedGrant(world, { maxUses: 1n });
    const burst = await Promise.all(Array.from({ length: 6 }, () => reserveCall(healthy, grantId)));
    const outcomes = await Promise.all(burst.map((call) => submit(replica, call)));
    await expect.poll(() => replica.tally.batches).toEqual([6]);
    expect(outcomes.map((outcome) => outcome.ok)).toEqual([true, false, false, false, false, false]);
    await expectSound(world.admin);
  });
});

describe('lanes that come to an end', () => {
  test('drain what was taken, and take nothing more', async () => {
    const [first, second, late] = (await calls(3)) as [Call, Call, Call];
    const { letGo, running } = await holdUp(first);
    const queued = submit(replica, second);
    const drained = replica.lanes.drain();
    expect(await submit(replica, late)).toMatchObject({
      ok: false,
      refusal: { reason: 'DRAINING', retryAfter: expect.any(BigInt) },
    });
    letGo();
    await drained;
    expect(await running).toMatchObject({ ok: true });
    expect(await queued).toMatchObject({ ok: true });
  });

  test('a domain that is not there has no lane, and costs none', async () => {
    replica = laneReplica(world.database.serviceUrl);
    const [call] = (await calls(1)) as [Call];
    const before = await fingerprint(world.admin);
    const lost = { ...call, command: { ...call.command, domainId: 'nobody.test' } };
    const outcomes = await Promise.all(Array.from({ length: 5 }, () => submit(replica, lost)));
    for (const outcome of outcomes)
      expect(outcome).toMatchObject({ ok: false, refusal: { reason: 'DOMAIN_INACTIVE' } });
    expect(await fingerprint(world.admin)).toEqual(before);
  });
});

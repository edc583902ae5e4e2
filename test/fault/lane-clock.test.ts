import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { expireEffect } from '../../src/ledger/effect/expire-effect.js';
import {
  DOMAIN,
  type EffectWorld,
  freshId,
  nowMicros,
  openWorld,
  type Replica,
  seedGrant,
} from '../support/effect-world.js';
import {
  acknowledgeCall,
  done,
  reconcileCall,
  reserveCall,
  reserved,
  seedWorkers,
  startCall,
  submit,
  unknownCall,
  type Workers,
} from './effect-life.js';
import { type LaneReplica, laneReplica } from './lane-replica.js';
import { expectSound } from './store-invariants.js';

// architecture.md, "The lane": the store's clock judges, is read behind the lock, and never goes back.

const SECOND = 1_000_000n;
const MINUTE = 60n * SECOND;

let world: EffectWorld;
let replica: LaneReplica;
let healthy: Replica;
let workers: Workers & { grantId: string };

beforeAll(async () => {
  world = await openWorld();
  healthy = world.replica();
  workers = await seedWorkers(world);
});
beforeEach(() => {
  replica = laneReplica(world.database.serviceUrl);
});
afterEach(async () => {
  vi.useRealTimers();
  await replica.close();
});
afterAll(() => world.close());

describe('a call that waits for the lock', () => {
  /** Another session holds the domain for so long, in milliseconds, from when this resolves. */
  async function holdDomain(ms: number): Promise<{ released: Promise<void> }> {
    const holder = new pg.Client({ connectionString: world.database.url });
    await holder.connect();
    await holder.query('BEGIN');
    await holder.query('SELECT FROM domain_heads WHERE domain_id = $1 FOR UPDATE', [DOMAIN]);
    const released = new Promise((resolve) => setTimeout(resolve, ms)).then(() => holder.end());
    return { released };
  }

  test('a grant that expires meanwhile counts as expired, one that does not is used', async () => {
    const [short, long] = [freshId('grant'), freshId('grant')];
    const calls = [await reserveCall(healthy, short), await reserveCall(healthy, long)];
    const expiresAt = nowMicros() + 3n * SECOND;
    await seedGrant(world, { grantId: short, expiresAt });
    await seedGrant(world, { grantId: long, expiresAt: nowMicros() + MINUTE });
    const { released } = await holdDomain(4_000);
    expect(nowMicros()).toBeLessThan(expiresAt);
    const outcomes = await Promise.all(calls.map((call) => submit(replica, call)));
    await released;
    expect(outcomes[0]).toMatchObject({ ok: false, refusal: { reason: 'GRANT_EXPIRED' } });
    expect(outcomes[1]).toMatchObject({ ok: true });
    expect(replica.tally.retries).toBe(0);
  });

  test('an effect whose start-before passes meanwhile is not started', async () => {
    const effects = [
      await done(
        submit(healthy, await reserveCall(healthy, workers.grantId, { reservationTtl: 3n * SECOND })),
      ),
      await done(submit(healthy, await reserveCall(healthy, workers.grantId, { reservationTtl: MINUTE }))),
    ] as const;
    const calls = effects.map((effect) => startCall(workers.executor, effect));
    const { released } = await holdDomain(4_000);
    expect(nowMicros()).toBeLessThan(effects[0].startBefore);
    const outcomes = await Promise.all(calls.map((call) => submit(replica, call)));
    await released;
    expect(outcomes[0]).toMatchObject({ ok: false, refusal: { reason: 'START_TOO_LATE' } });
    expect(outcomes[1]).toMatchObject({ ok: true });
    await expectSound(world.admin);
  });
});

describe("the process's own clock", () => {
  test.each([
    ['an hour ahead', 3_600_000],
    ['an hour behind', -3_600_000],
  ])('%s changes no decision and no time that is stored', async (_, offsetMs) => {
    /** What the service does while its clock is wrong; callers have the right time. */
    const wrongly = <T>(work: () => Promise<T>): Promise<T> => {
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + offsetMs });
      return work().finally(() => vi.useRealTimers());
    };
    const about = (time: bigint | null): number => Number(((time ?? 0n) - nowMicros()) / SECOND);

    // Would be over an hour ahead, or not begun an hour behind.
    const ttl = 30n * MINUTE;
    const call = await reserveCall(healthy, workers.grantId, { reservationTtl: ttl });
    const effect = await wrongly(() => done(submit(replica, call)));
    expect(Math.abs(about(effect.reservedAt))).toBeLessThan(20);
    expect(effect.startBefore).toBe(effect.reservedAt + ttl);
    const sweep = { domainId: DOMAIN, commandId: freshId('sweep'), effectId: effect.effectId };
    expect(await wrongly(() => replica.lanes.submit(expireEffect, sweep))).toMatchObject({
      reply: { changed: false },
    });

    const start = startCall(workers.executor, effect);
    const started = await wrongly(() => done(submit(replica, start)));
    expect(Math.abs(about(started.startedAt))).toBeLessThan(20);
    const unknown = unknownCall(workers.executor, started);
    const uncertain = await wrongly(() => done(submit(replica, unknown)));
    const reconciling = reconcileCall(workers.reconciler, uncertain);
    const settled = await wrongly(() => done(submit(replica, reconciling)));
    expect(Math.abs(about(settled.settledAt))).toBeLessThan(20);

    const briefCall = await reserveCall(healthy, workers.grantId, { reservationTtl: 1n });
    const brief = await wrongly(() => done(submit(replica, briefCall)));
    expect(
      await wrongly(() => replica.lanes.submit(expireEffect, { ...sweep, effectId: brief.effectId })),
    ).toMatchObject({ reply: { changed: true } });
    await expectSound(world.admin);
  });
});

describe("the store's clock", () => {
  afterEach(() => setOffset(0n));

  /** Moves the clock of the test database, in either direction. */
  function setOffset(offset: bigint): Promise<unknown> {
    return world.admin.query('UPDATE service_state SET clock_offset = $1', [offset.toString()]);
  }

  async function lastTime(): Promise<bigint> {
    const { rows } = await world.admin.query('SELECT last_time FROM domain_heads WHERE domain_id = $1', [
      DOMAIN,
    ]);
    return BigInt(rows[0].last_time);
  }

  test('that goes back stands still, for this process and any other, and 61 s stop the domain', async () => {
    await setOffset(40n * SECOND);
    const ahead = await reserved(replica, workers);
    expect(ahead.reservedAt - nowMicros()).toBeGreaterThan(30n * SECOND);
    await setOffset(0n);
    // A process that knows only what the head says.
    const other = laneReplica(world.database.serviceUrl);
    for (const at of [replica, other]) {
      const call = await reserveCall(healthy, workers.grantId);
      const effect = await done(submit(at, call));
      expect(effect.reservedAt).toBe(ahead.reservedAt);
    }
    expect(await lastTime()).toBe(ahead.reservedAt);
    const call = await reserveCall(healthy, workers.grantId);

    await setOffset(-30n * SECOND);
    for (const at of [replica, other]) {
      expect(await submit(at, call)).toMatchObject({
        ok: false,
        recorded: false,
        refusal: { reason: 'STORE_REGRESSED' },
      });
      expect(await submit(at, call)).toMatchObject({ ok: false, refusal: { reason: 'STORE_REGRESSED' } });
      expect(at.tally.regressions).toBe(1);
    }
    expect(await lastTime()).toBe(ahead.reservedAt);
    // It came up again: nobody has to restart anything.
    await setOffset(0n);
    expect(await submit(replica, call)).toMatchObject({ ok: true, reply: { duplicate: false } });
    expect(await submit(other, call)).toMatchObject({ ok: true, reply: { duplicate: true } });
    await expectSound(world.admin);
    await other.close();
  });

  test('that goes back after a batch that wrote nothing stands still all the same', async () => {
    const call = await reserveCall(healthy, workers.grantId);
    await done(submit(replica, call));
    const before = await lastTime();
    const next = await reserveCall(healthy, workers.grantId);
    await setOffset(50n * SECOND);
    expect(await submit(replica, call)).toMatchObject({ ok: true, reply: { duplicate: true } });
    expect(await lastTime()).toBe(before);
    await setOffset(0n);
    const effect = await done(submit(replica, next));
    expect(effect.reservedAt - nowMicros()).toBeGreaterThan(40n * SECOND);
  });

  test('that is moved ahead lets what has a time run out', async () => {
    const effect = await reserved(healthy, workers);
    const started = await done(submit(healthy, startCall(workers.executor, effect)));
    const acknowledge = acknowledgeCall(workers.executor, started);
    await setOffset(6n * MINUTE);
    expect(await submit(replica, acknowledge)).toMatchObject({
      ok: false,
      refusal: { reason: 'PROOF_EXPIRED' },
    });
  });
});

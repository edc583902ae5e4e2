import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
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
import { patientUrl } from '../support/postgres.js';
import { StillClock } from '../support/still-clock.js';
import {
  acknowledgeCall,
  type Call,
  done,
  type EffectOutcome,
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

// A world for each test: a domain's time never goes back, so that a clock that was moved cannot be put right for the next.
beforeEach(async () => {
  world = await openWorld();
  healthy = world.replica();
  workers = await seedWorkers(world);
  replica = laneReplica(patientUrl(world.database.serviceUrl));
});
afterEach(async () => {
  vi.useRealTimers();
  await replica.close();
  await world.close();
});

/** Moves the clock of the test database, in either direction. */
function setOffset(offset: bigint): Promise<unknown> {
  return world.admin.query('UPDATE service_state SET clock_offset = $1', [offset.toString()]);
}

describe('a call that waits for the lock', () => {
  /** Submits calls while another session holds the domain, and moves the clock before they get it. */
  async function submitWhileHeld(calls: readonly Call[], meanwhile: bigint): Promise<EffectOutcome[]> {
    const holder = new pg.Client({ connectionString: world.database.url });
    await holder.connect();
    await holder.query('BEGIN');
    await holder.query('SELECT FROM domain_heads WHERE domain_id = $1 FOR UPDATE', [DOMAIN]);
    const outcomes = calls.map((call) => submit(replica, call));
    await expect.poll(waitingForLock).toBe(1);
    await setOffset(meanwhile);
    await holder.end();
    return Promise.all(outcomes);
  }

  async function waitingForLock(): Promise<number> {
    const { rows } = await world.admin.query(
      `SELECT count(*)::int AS count FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%domain_heads%'`,
    );
    return rows[0].count as number;
  }

  test('a grant that expires meanwhile counts as expired, one that does not is used', async () => {
    const [short, long] = [freshId('grant'), freshId('grant')];
    const calls = [await reserveCall(healthy, short), await reserveCall(healthy, long)];
    await seedGrant(world, { grantId: short, expiresAt: nowMicros() + 30n * MINUTE });
    await seedGrant(world, { grantId: long, expiresAt: nowMicros() + 90n * MINUTE });
    const outcomes = await submitWhileHeld(calls, 60n * MINUTE);
    expect(outcomes[0]).toMatchObject({ ok: false, refusal: { reason: 'GRANT_EXPIRED' } });
    expect(outcomes[1]).toMatchObject({ ok: true });
    expect(replica.tally.retries).toBe(0);
  });

  test('an effect whose start-before passes meanwhile is not started', async () => {
    // Less than a proof is good for.
    const reservationTtls = [2n * MINUTE, 60n * MINUTE];
    const calls: Call[] = [];
    for (const reservationTtl of reservationTtls) {
      const reserve = await reserveCall(healthy, workers.grantId, { reservationTtl });
      calls.push(startCall(workers.executor, await done(submit(healthy, reserve))));
    }
    const outcomes = await submitWhileHeld(calls, 3n * MINUTE);
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
    expect(Math.abs(about(effect.reservedAt))).toBeLessThan(600);
    expect(effect.startBefore).toBe(effect.reservedAt + ttl);
    const sweep = { domainId: DOMAIN, commandId: freshId('sweep'), effectId: effect.effectId };
    expect(await wrongly(() => replica.lanes.submit(expireEffect, sweep))).toMatchObject({
      reply: { changed: false },
    });

    const start = startCall(workers.executor, effect);
    const started = await wrongly(() => done(submit(replica, start)));
    expect(Math.abs(about(started.startedAt))).toBeLessThan(600);
    const unknown = unknownCall(workers.executor, started);
    const uncertain = await wrongly(() => done(submit(replica, unknown)));
    const reconciling = reconcileCall(workers.reconciler, uncertain);
    const settled = await wrongly(() => done(submit(replica, reconciling)));
    expect(Math.abs(about(settled.settledAt))).toBeLessThan(600);

    const briefCall = await reserveCall(healthy, workers.grantId, { reservationTtl: 1n });
    const brief = await wrongly(() => done(submit(replica, briefCall)));
    expect(
      await wrongly(() => replica.lanes.submit(expireEffect, { ...sweep, effectId: brief.effectId })),
    ).toMatchObject({ reply: { changed: true } });
    await expectSound(world.admin);
  });
});

describe("the store's clock", () => {
  async function lastTime(): Promise<bigint> {
    const { rows } = await world.admin.query('SELECT last_time FROM domain_heads WHERE domain_id = $1', [
      DOMAIN,
    ]);
    return BigInt(rows[0].last_time);
  }

  test('that goes back by a minute stands still, for this process and any other, and by more stops the domain', async () => {
    const clock = await StillClock.install(world.admin);
    const ahead = await reserved(replica, workers);
    expect(ahead.reservedAt).toBe(clock.now);
    await clock.move(-MINUTE);
    // A process that knows only what the head says.
    const other = laneReplica(patientUrl(world.database.serviceUrl));
    for (const at of [replica, other]) {
      const call = await reserveCall(at, workers.grantId);
      const effect = await done(submit(at, call));
      expect(effect.reservedAt).toBe(ahead.reservedAt);
    }
    expect(await lastTime()).toBe(ahead.reservedAt);
    const call = await reserveCall(replica, workers.grantId);

    await clock.move(-1n);
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
    await clock.move(1n);
    expect(await submit(replica, call)).toMatchObject({ ok: true, reply: { duplicate: false } });
    expect(await submit(other, call)).toMatchObject({ ok: true, reply: { duplicate: true } });
    await expectSound(world.admin);
    await other.close();
  });

  test('that goes back after a batch that wrote nothing stands still all the same', async () => {
    const clock = await StillClock.install(world.admin);
    const call = await reserveCall(replica, workers.grantId);
    await done(submit(replica, call));
    const before = await lastTime();
    const next = await reserveCall(replica, workers.grantId);
    await clock.move(50n * SECOND);
    expect(await submit(replica, call)).toMatchObject({ ok: true, reply: { duplicate: true } });
    expect(await lastTime()).toBe(before);
    const ahead = clock.now;
    await clock.move(-50n * SECOND);
    const effect = await done(submit(replica, next));
    expect(effect.reservedAt).toBe(ahead);
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

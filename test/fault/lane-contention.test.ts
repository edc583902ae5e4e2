import { setTimeout } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { DOMAIN, type EffectWorld, openWorld, type Replica } from '../support/effect-world.js';
import { patientUrl } from '../support/postgres.js';
import { done, reserveCall, seedWorkers, submit } from './effect-life.js';
import { type LaneReplica, laneReplica } from './lane-replica.js';
import { expectSound } from './store-invariants.js';

// architecture.md: a domain is served by one transaction at a time, whatever the number of replicas. Those that wait for their
// turn gather all that has come until then, so that a hot domain on several replicas does not pay for small batches.

/** How long the domain is held where that is measured, in milliseconds. */
const LONG_MS = 1_000;

let world: EffectWorld;
let other: Replica;
let grantId: string;
let replica: LaneReplica;
/** The lanes' clock. It stands still, so that any wait is longer than gathering takes, unless a test lets it run. */
let clock: () => number;

beforeAll(async () => {
  world = await openWorld();
  other = world.replica();
  ({ grantId } = await seedWorkers(world));
});
beforeEach(async () => {
  clock = () => 0;
  replica = openReplica();
  return () => replica.close();
});
afterAll(() => world.close());

function openReplica(options: { batchLimit?: number; poolSize?: number } = {}): LaneReplica {
  const url = patientUrl(world.database.serviceUrl);
  return laneReplica(url, { ...options, monotonicMs: () => clock() });
}

/** Another session holds the domain until it lets go. */
async function holdDomain(): Promise<{ letGo: () => Promise<void> }> {
  const holder = new pg.Client({ connectionString: world.database.url });
  await holder.connect();
  await holder.query('BEGIN');
  await holder.query('SELECT FROM domain_heads WHERE domain_id = $1 FOR UPDATE', [DOMAIN]);
  return { letGo: () => holder.end() };
}

/** Resolves when a batch of the replica waits for the domain. */
async function someoneWaits(): Promise<void> {
  const waiting = async (): Promise<number> => {
    const { rows } = await world.admin.query<{ waiting: number }>(
      `SELECT count(*)::int AS waiting FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%domain_heads%'`,
    );
    return rows[0]?.waiting ?? 0;
  };
  await expect.poll(waiting).toBe(1);
}

type Call = Awaited<ReturnType<typeof reserveCall>>;

function calls(count: number): Promise<Call[]> {
  return Promise.all(Array.from({ length: count }, () => reserveCall(other, grantId)));
}

/** Submits while the domain is held, for so many milliseconds: the first waits for it, the others come meanwhile. */
async function submitWhileHeld([first, ...others]: readonly Call[], heldMs = 0): Promise<void> {
  const { letGo } = await holdDomain();
  const submitted = [done(submit(replica, first as Call))];
  await someoneWaits();
  submitted.push(...others.map((call) => done(submit(replica, call))));
  if (heldMs > 0) await setTimeout(heldMs);
  await letGo();
  await Promise.all(submitted);
}

/** The replica waits for the domain once, and finds that another one was in between. */
async function contend(): Promise<void> {
  const [own, between, waiting] = (await calls(3)) as [Call, Call, Call];
  await done(submit(replica, own));
  await done(submit(other, between));
  await submitWhileHeld([waiting]);
  replica.tally.batches.length = 0;
}

test('a batch says how long it waited for its domain, also where it gathers behind the lock', async () => {
  const [free, once, own, between, waiting, ...behind] = (await calls(7)) as [Call, Call, Call, Call, Call];
  await done(submit(replica, free));
  await submitWhileHeld([once], LONG_MS);
  await done(submit(replica, own));
  await done(submit(other, between));
  await submitWhileHeld([waiting], LONG_MS);
  clock = () => performance.now();
  await submitWhileHeld(behind, LONG_MS);
  expect(replica.tally.batches).toEqual([1, 1, 1, 1, 2]);
  const waits = replica.tally.lockWaits;
  expect(waits).toHaveLength(5);
  expect(waits[0]).toBeGreaterThan(0);
  // Held for longer, since this process asked for it: the store's clock and ours are of one machine.
  expect([waits[1], waits[3], waits[4]].filter((ms) => (ms ?? 0) < LONG_MS)).toEqual([]);
  // Of two, since a machine may stall between them and the lock.
  expect(Math.min(waits[0] as number, waits[2] as number)).toBeLessThan(LONG_MS);
});

describe('a replica that others keep waiting', () => {
  test('takes what came while it waited into the batch that it waited for', async () => {
    await contend();
    await submitWhileHeld(await calls(3));
    expect(replica.tally.batches).toEqual([3]);
    expect(replica.tally.retries).toBe(0);
    await expectSound(world.admin);
  });

  test('takes no more than a batch may hold, and the rest goes next', async () => {
    await replica.close();
    replica = openReplica({ batchLimit: 2 });
    await contend();
    await submitWhileHeld(await calls(4));
    expect(replica.tally.batches).toEqual([2, 2]);
  });

  test('sends a batch at once again when nobody else was in between', async () => {
    const [one, two, ...held] = (await calls(5)) as [Call, Call, Call, Call, Call];
    await contend();
    await done(submit(replica, one));
    await done(submit(replica, two));
    replica.tally.batches.length = 0;
    await submitWhileHeld(held);
    expect(replica.tally.batches).toEqual([1, 2]);
  });

  test('sends a batch at once again when it gathers for longer than it waits', async () => {
    let now = 0;
    clock = () => (now += 1_000_000);
    await contend();
    await submitWhileHeld(await calls(3));
    expect(replica.tally.batches).toEqual([1, 2]);
  });
});

test('a lane that waits for a connection takes what came meanwhile into the same batch', async () => {
  await replica.close();
  replica = openReplica({ poolSize: 1 });
  const [first, ...others] = (await calls(3)) as [Call, Call, Call];
  const connection = await replica.pool.acquire();
  const submitted = [done(submit(replica, first))];
  // Without a turn of the loop, in which a timer could end the wait.
  while (replica.pool.load.waiting === 0) await Promise.resolve();
  submitted.push(...others.map((call) => done(submit(replica, call))));
  replica.pool.release(connection, true);
  await Promise.all(submitted);
  expect(replica.tally.batches).toEqual([3]);
});

import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  IDLE_IN_TRANSACTION_MS,
  LOCK_TIMEOUT_MS,
  PipelineConnection,
  STATEMENT_TIMEOUT_MS,
} from '../../src/store/connection.js';
import { ConnectionPool } from '../../src/store/connection-pool.js';
import { serviceRole } from '../../src/store/migrate-roles.js';
import { createTestDatabase, type TestDatabase, urlFor } from '../support/postgres.js';
import { startTcpProxy } from '../support/tcp-proxy.js';

let database: TestDatabase;
let admin: pg.Client;
const pools: ConnectionPool[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  admin = new pg.Client({ connectionString: database.url });
  await admin.connect();
});
afterEach(async () => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
  await Promise.all(pools.splice(0).map((pool) => pool.close()));
});
afterAll(async () => {
  await admin.end();
  await database.drop();
});

function settings(url = database.serviceUrl) {
  return { url, applicationName: 'surety-pool-test' };
}

function openPool(size: number, url?: string): ConnectionPool {
  const pool = new ConnectionPool(settings(url), size);
  pools.push(pool);
  return pool;
}

async function show(connection: PipelineConnection, name: string): Promise<unknown> {
  const [answer] = await connection.flight([{ text: `SELECT current_setting('${name}') AS value` }]);
  return answer?.status === 'fulfilled' ? answer.value.rows[0]?.['value'] : answer?.reason;
}

async function pidOf(connection: PipelineConnection): Promise<number> {
  const [answer] = await connection.flight([{ text: 'SELECT pg_backend_pid() AS pid' }]);
  if (answer?.status !== 'fulfilled') throw answer?.reason;
  return answer.value.rows[0]?.['pid'] as number;
}

function connections(): Promise<number> {
  return admin
    .query("SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = 'surety-pool-test'")
    .then(({ rows }) => rows[0].count as number);
}

describe('a pool', () => {
  test('has so many connections and no more; who comes later waits, first come first served', async () => {
    const pool = openPool(2);
    const [one, two] = [await pool.acquire(), await pool.acquire()];
    const order: string[] = [];
    const third = pool.acquire().then((connection) => (order.push('third'), connection));
    const fourth = pool.acquire().then((connection) => (order.push('fourth'), connection));
    expect(pool.load).toEqual({ inUse: 2, waiting: 2 });
    expect(await connections()).toBe(2);
    pool.release(one, true);
    expect(await third).toBe(one);
    pool.release(two, true);
    expect(await fourth).toBe(two);
    expect(order).toEqual(['third', 'fourth']);
    expect(await connections()).toBe(2);
    pool.release(one, true);
    pool.release(two, true);
    expect(pool.load).toEqual({ inUse: 0, waiting: 0 });
  });

  test('tells how long each was waited for', async () => {
    const waits: number[] = [];
    const pool = new ConnectionPool(settings(), 1, (ms) => waits.push(ms));
    pools.push(pool);
    const held = await pool.acquire();
    const second = pool.acquire();
    const begun = performance.now();
    await show(held, 'lock_timeout');
    pool.release(held, true);
    const waited = performance.now() - begun;
    pool.release(await second, true);
    pool.release(await pool.acquire(), true);
    expect(waits).toHaveLength(3);
    expect(waits[1]).toBeGreaterThanOrEqual(waited);
    expect(waits[2]).toBeLessThan(waits[0] as number);
  });

  test('lets nobody wait for ever, and forgets who gave up', async () => {
    const pool = openPool(1);
    const held = await pool.acquire();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const waiting = pool.acquire().catch((error: unknown) => error);
    vi.advanceTimersByTime(9_999);
    expect(pool.load.waiting).toBe(1);
    vi.advanceTimersByTime(1);
    expect(await waiting).toMatchObject({ failure: 'not_done', transient: true });
    expect(pool.load).toEqual({ inUse: 1, waiting: 0 });
    vi.useRealTimers();
    pool.release(held, true);
    expect(await pool.acquire()).toBe(held);
    pool.release(held, true);
  });

  test('throws away what something went wrong on', async () => {
    const pool = openPool(1);
    const bad = await pool.acquire();
    pool.release(bad, false);
    expect(bad.usable).toBe(false);
    const good = await pool.acquire();
    expect(good).not.toBe(bad);
    await expect.poll(connections).toBe(1);
    pool.release(good, true);
  });

  test('does not hand out a connection that ended while it lay idle', async () => {
    const pool = openPool(1);
    const idle = await pool.acquire();
    const pid = await pidOf(idle);
    pool.release(idle, true);
    await admin.query('SELECT pg_terminate_backend($1)', [pid]);
    await expect.poll(() => idle.usable).toBe(false);
    const next = await pool.acquire();
    expect(await pidOf(next)).not.toBe(pid);
    pool.release(next, true);
  });

  test('trusts none of those that lie idle once one was cut off', async () => {
    const pool = openPool(3);
    const [one, two, three] = [await pool.acquire(), await pool.acquire(), await pool.acquire()];
    pool.release(one, true);
    pool.release(two, true);
    await admin.query('SELECT pg_terminate_backend($1)', [await pidOf(three)]);
    await expect.poll(() => three.usable).toBe(false);
    pool.release(three, false);
    expect([one.usable, two.usable]).toEqual([false, false]);
    await expect.poll(connections).toBe(0);
  });

  test('keeps those that lie idle where only a statement failed', async () => {
    const pool = openPool(2);
    const [one, two] = [await pool.acquire(), await pool.acquire()];
    pool.release(one, true);
    await two.flight([{ text: 'SELECT 1/0' }]);
    pool.release(two, false);
    expect([one.usable, two.usable]).toEqual([true, false]);
  });

  test('gives the place back where no connection could be had', async () => {
    const proxy = await startTcpProxy({ targetPort: 1 });
    const pool = openPool(1, urlFor(database.serviceUrl, { port: proxy.port }));
    for (let i = 0; i < 3; i += 1) {
      await expect(pool.acquire()).rejects.toMatchObject({ failure: 'not_done', transient: true });
      expect(pool.load).toEqual({ inUse: 0, waiting: 0 });
    }
    await proxy.close();
  });

  test('that is closed gives none any more, and those in use end when they come back', async () => {
    const pool = openPool(2);
    const [one, two] = [await pool.acquire(), await pool.acquire()];
    pool.release(one, true);
    await pool.close();
    expect(one.usable).toBe(false);
    await expect(pool.acquire()).rejects.toMatchObject({ failure: 'not_done', transient: false });
    expect(await pidOf(two)).toBeGreaterThan(0);
    pool.release(two, true);
    expect(two.usable).toBe(false);
    await expect.poll(connections).toBe(0);
  });
});

describe('every connection', () => {
  test('ends an idle transaction before a waiter gives up its lock, and a waiter before its statement', async () => {
    expect(IDLE_IN_TRANSACTION_MS).toBeLessThan(LOCK_TIMEOUT_MS);
    expect(LOCK_TIMEOUT_MS).toBeLessThan(STATEMENT_TIMEOUT_MS);
    const connection = await PipelineConnection.open(settings());
    expect(await show(connection, 'idle_in_transaction_session_timeout')).toBe(
      `${IDLE_IN_TRANSACTION_MS / 1000}s`,
    );
    expect(await show(connection, 'lock_timeout')).toBe(`${LOCK_TIMEOUT_MS / 1000}s`);
    expect(await show(connection, 'statement_timeout')).toBe(`${STATEMENT_TIMEOUT_MS / 1000}s`);
    await connection.end();
    const other = await PipelineConnection.open({ ...settings(), statementTimeoutMs: 2_000 });
    expect(await show(other, 'statement_timeout')).toBe('2s');
    await other.end();
  });

  test('plans its statements once, unless it is told otherwise', async () => {
    const lane = await PipelineConnection.open(settings());
    expect(await show(lane, 'plan_cache_mode')).toBe('force_generic_plan');
    expect(await show(lane, 'enable_seqscan')).toBe('off');
    await lane.end();
    const reader = await PipelineConnection.open({ ...settings(), planEachTime: true });
    expect(await show(reader, 'plan_cache_mode')).toBe('auto');
    expect(await show(reader, 'enable_seqscan')).toBe('on');
    await reader.end();
  });

  test('takes the serving role where it logs in as another', async () => {
    const connection = await PipelineConnection.open({ ...settings(database.url), role: serviceRole });
    const [answer] = await connection.flight([{ text: 'DELETE FROM effects' }]);
    expect(answer).toMatchObject({ status: 'rejected', reason: { code: '42501' } });
    await connection.end();
  });

  test.each([
    ['synchronous_commit', 'off'],
    ['default_transaction_isolation', "'repeatable read'"],
  ])('is refused where %s is %s, though only for this database', async (name, value) => {
    await admin.query(`ALTER DATABASE ${database.name} SET ${name} = ${value}`);
    try {
      await expect(openPool(1).acquire()).rejects.toMatchObject({
        failure: 'not_done',
        detail: `unsafe ${name}`,
      });
    } finally {
      await admin.query(`ALTER DATABASE ${database.name} RESET ${name}`);
    }
    await expect.poll(connections).toBe(0);
    const pool = openPool(1);
    pool.release(await pool.acquire(), true);
  });

  test('is what its URL says, whatever PG* variables say', async () => {
    vi.stubEnv('PGOPTIONS', '-c statement_timeout=1 -c default_transaction_isolation=serializable');
    vi.stubEnv('PGSSLMODE', 'require');
    vi.stubEnv('PGUSER', 'somebody');
    vi.stubEnv('PGHOST', 'nowhere.invalid');
    vi.stubEnv('PGPORT', '1');
    vi.stubEnv('PGDATABASE', 'nothing');
    vi.stubEnv('PGAPPNAME', 'another');
    const connection = await PipelineConnection.open(settings());
    expect(await show(connection, 'statement_timeout')).toBe(`${STATEMENT_TIMEOUT_MS / 1000}s`);
    expect(await show(connection, 'application_name')).toBe('surety-pool-test');
    await connection.end();
  });

  test('looks nothing up where somebody else may put something', async () => {
    const connection = await PipelineConnection.open(settings());
    expect(await show(connection, 'search_path')).toBe('public');
    await connection.end();
  });
});

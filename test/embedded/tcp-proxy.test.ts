import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase, urlFor } from '../support/postgres.js';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.js';

// The proxy itself: a fault test can only be trusted if the fault happens, and where it should.

let database: TestDatabase;
let direct: Client;
let proxy: TcpProxy;

beforeAll(async () => {
  database = await createTestDatabase();
  direct = new Client(database.url);
  await direct.connect();
  await direct.query('CREATE TABLE notes (id int PRIMARY KEY, body text)');
});

afterAll(async () => {
  await direct.end();
  await database.drop();
});

beforeEach(async () => {
  await direct.query('TRUNCATE notes');
  proxy = await startTcpProxy({ targetPort: Number(new URL(database.url).port) });
});

afterEach(async () => {
  await proxy.close();
});

async function connectThrough(options: { pipeline?: boolean } = {}): Promise<Client> {
  const client = new Client({ connectionString: urlFor(database.url, { port: proxy.port }), ...options });
  client.on('error', () => {});
  await client.connect();
  return client;
}

async function storedIds(): Promise<number[]> {
  const { rows } = await direct.query<{ id: number }>('SELECT id FROM notes ORDER BY id');
  return rows.map((row) => row.id);
}

describe('a proxy in good weather', () => {
  test('relays both directions whole, however much it is', async () => {
    const client = await connectThrough();
    const body = 'x'.repeat(8 << 20);
    await client.query('INSERT INTO notes VALUES (1, $1)', [body]);
    const { rows } = await client.query('SELECT body FROM notes');
    expect(rows).toEqual([{ body }]);
    await client.end();
    await expect.poll(() => proxy.connections()).toBe(0);
  });
});

describe('bad weather', () => {
  test('a delay counts in each direction', async () => {
    const client = await connectThrough();
    proxy.delay(60);
    const before = performance.now();
    await client.query('SELECT 1');
    expect(performance.now() - before).toBeGreaterThanOrEqual(119);
  });

  test('in a blackhole nothing passes, and all of it arrives in order afterwards', async () => {
    const client = await connectThrough();
    proxy.blackhole(true);
    const answers: number[] = [];
    const queries = [1, 2].map((id) =>
      client.query('INSERT INTO notes VALUES ($1)', [id]).then(() => answers.push(id)),
    );
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect(answers).toEqual([]);
    expect(await storedIds()).toEqual([]);
    proxy.blackhole(false);
    await Promise.all(queries);
    expect(answers).toEqual([1, 2]);
    expect(await storedIds()).toEqual([1, 2]);
  });

  test('a blackhole hides even that the server has gone', async () => {
    const client = await connectThrough();
    const ended = new Promise((resolve) => client.once('end', () => resolve('ended')));
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    proxy.blackhole(true);
    await direct.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid]);
    const silence = new Promise((resolve) => setTimeout(() => resolve('silence'), 150));
    expect(await Promise.race([ended, silence])).toBe('silence');
    proxy.blackhole(false);
    expect(await ended).toBe('ended');
  });

  test('dropAll breaks the connections there are, and takes new ones', async () => {
    const client = await connectThrough();
    const sleeping = client.query('SELECT pg_sleep(600)');
    await expect.poll(isSleeping).toBe(true);
    proxy.dropAll();
    await expect(sleeping).rejects.toThrow();
    const again = await connectThrough();
    expect((await again.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  });
});

describe('cutting a connection at a message', () => {
  test('answered: the commit is done, and its answer is lost', async () => {
    const client = await connectThrough();
    await client.query('BEGIN');
    await client.query('INSERT INTO notes VALUES (1)');
    const cut = proxy.cutAfter('COMMIT');
    await expect(client.query('COMMIT')).rejects.toThrow();
    await cut;
    expect(await storedIds()).toEqual([1]);
  });

  test('answered, of a pipelined flight: the answers to what came before it are lost too', async () => {
    const client = await connectThrough({ pipeline: true });
    const cut = proxy.cutAfter('COMMIT');
    const flight = await Promise.allSettled([
      client.query('BEGIN'),
      client.query('INSERT INTO notes VALUES ($1)', [1]),
      client.query('COMMIT'),
      client.query('SELECT 1'),
    ]);
    await cut;
    expect(flight.at(2)?.status).toBe('rejected');
    expect(flight.at(3)?.status).toBe('rejected');
    expect(await storedIds()).toEqual([1]);
  });

  test('answered, of a prepared statement: the server acts when the Sync has come', async () => {
    const client = await connectThrough();
    const cut = proxy.cutAfter('notes_insert');
    await expect(
      client.query({ name: 'notes_insert', text: 'INSERT INTO notes VALUES ($1)', values: [1] }),
    ).rejects.toThrow();
    await cut;
    expect(await storedIds()).toEqual([1]);
  });

  test('before: the commit never reaches the server', async () => {
    const client = await connectThrough();
    await client.query('BEGIN');
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    await client.query('INSERT INTO notes VALUES (1)');
    const cut = proxy.cutAfter('COMMIT', 'before');
    await expect(client.query('COMMIT')).rejects.toThrow();
    await cut;
    await expect.poll(() => backendIsGone(rows[0]?.pid)).toBe(true);
    expect(await storedIds()).toEqual([]);
  });

  test('forwarded: the client is cut off while the commit is still to be done', async () => {
    const client = await connectThrough();
    await client.query('BEGIN');
    await client.query('INSERT INTO notes VALUES (1)');
    // The server has the commit, and cannot do it before the lock is let go.
    await direct.query('SELECT pg_advisory_lock(1)');
    const cut = proxy.cutAfter('COMMIT', 'forwarded');
    await expect(client.query('SELECT pg_advisory_xact_lock(1); COMMIT')).rejects.toThrow();
    await cut;
    expect(await storedIds()).toEqual([]);
    await direct.query('SELECT pg_advisory_unlock(1)');
    await expect.poll(storedIds).toEqual([1]);
  });

  test('happens once, and only to the connection that sent it', async () => {
    const [first, second] = [await connectThrough(), await connectThrough()];
    const cut = proxy.cutAfter((message) => message.type === 'Q' && message.body.includes('SELECT 7'));
    await second.query('SELECT 6');
    await expect(first.query('SELECT 7')).rejects.toThrow();
    await cut;
    expect((await second.query('SELECT 7 AS seven')).rows).toEqual([{ seven: 7 }]);
  });
});

/** Whether the server does what it was asked for. */
async function isSleeping(): Promise<boolean> {
  const { rowCount } = await direct.query(
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'",
  );
  return rowCount === 1;
}

async function backendIsGone(pid: number | undefined): Promise<boolean> {
  const { rowCount } = await direct.query('SELECT FROM pg_stat_activity WHERE pid = $1', [pid]);
  return rowCount === 0;
}

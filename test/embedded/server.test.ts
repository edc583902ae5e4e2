import { mkdtemp, readFile, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  type EmbeddedPostgres,
  removeEmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../src/embedded/embedded-postgres.js';
import { endPostmaster } from '../../src/embedded/end-postmaster.js';
import { findNativeFolder } from '../../src/embedded/platform-package.js';
import { processInfo } from '../../src/embedded/process-info.js';
import { urlFor } from '../support/postgres.js';

// architecture.md, Embedded Postgres: a real server, durable, reachable by us alone.

let dataDir: string;
const servers: EmbeddedPostgres[] = [];

beforeAll(async () => {
  dataDir = await mkdtemp(path.join(os.tmpdir(), 'surety-test-'));
});

afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
});

afterAll(() => removeEmbeddedPostgres(dataDir));

async function start(
  options: { port?: number; settings?: Record<string, string>; log?: (message: string) => void } = {},
): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ dataDir, ...options });
  servers.push(server);
  return server;
}

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new Client(url);
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query({ text: sql, rowMode: 'array' })).rows;
  } finally {
    await client.end();
  }
}

const SLEEPING = "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event = 'PgSleep'";

describe('a server', () => {
  test('is durable, and listens on 127.0.0.1 alone', async () => {
    const server = await start({ settings: { max_connections: '7' } });
    const settings = await query(
      server.url,
      `SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit',
         'listen_addresses', 'unix_socket_directories', 'max_connections', 'data_checksums', 'server_encoding')`,
    );
    expect(Object.fromEntries(settings as [string, string][])).toEqual({
      fsync: 'on',
      full_page_writes: 'on',
      synchronous_commit: 'on',
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      max_connections: '7',
      data_checksums: 'on',
      server_encoding: 'UTF8',
    });
  });

  test('lets nobody in without the password, which only we can read', async () => {
    const server = await start();
    const file = path.join(dataDir, 'superuser-password');
    const password = (await readFile(file, 'utf8')).trim();
    expect(new URL(server.url).password).toBe(password);
    expect(password).toMatch(/^[\w-]{43}$/);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    await expect(query(urlFor(server.url, { password: 'wrong' }), 'SELECT 1')).rejects.toMatchObject({
      code: '28P01',
    });
    const [[stored]] = (await query(server.url, 'SELECT rolpassword FROM pg_authid WHERE rolcanlogin')) as [
      [string],
    ];
    expect(stored).toMatch(/^SCRAM-SHA-256\$/);
    const rules = await query(server.url, 'SELECT DISTINCT auth_method FROM pg_hba_file_rules');
    expect(rules).toEqual([['scram-sha-256']]);
  });

  test('keeps data and password over a stop and a start', async () => {
    const first = await start();
    await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    await first.stop();
    expect(processInfo(first.pid)).toBeUndefined();
    const second = await start();
    expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([[42]]);
    expect(new URL(second.url).password).toBe(new URL(first.url).password);
  });

  test('stops fast, however busy its clients are, and more than once', async () => {
    const lines: string[] = [];
    const server = await start({ log: (line) => lines.push(line) });
    const busy = query(server.url, 'SELECT pg_sleep(3600)');
    await expect.poll(() => query(server.url, SLEEPING)).toEqual([[1]]);
    await Promise.all([server.stop(), expect(busy).rejects.toThrow()]);
    await server.stop();
    await server.exited;
    const asked = lines.filter((line) => /received .+ shutdown request/.test(line));
    expect(asked).toEqual([expect.stringContaining('received fast shutdown request')]);
  });

  test('takes the port that it is given, and says if it is taken', async () => {
    const holder = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => holder.once('listening', resolve));
    const { port } = holder.address() as AddressInfo;
    await expect(start({ port })).rejects.toMatchObject({ reason: 'PORT_IN_USE' });
    await new Promise((resolve) => holder.close(resolve));
    expect((await start({ port })).port).toBe(port);
  });

  test('is not taken away from a living process', async () => {
    const server = await start();
    await expect(start()).rejects.toMatchObject({ reason: 'ALREADY_RUNNING' });
    expect(await query(server.url, 'SELECT 1')).toEqual([[1]]);
  });

  test('says what Postgres said when it does not start', async () => {
    await expect(start({ settings: { max_connections: 'many' } })).rejects.toMatchObject({
      reason: 'START_FAILED',
      output: expect.stringContaining('invalid value for parameter "max_connections"'),
    });
  });
});

describe('settings', () => {
  test.each([
    'fsync',
    'full_page_writes',
    'synchronous_commit',
    'listen_addresses',
    'unix_socket_directories',
    'port',
    'hba_file',
    'surety.owner_pid',
    'work_mem=1 -c fsync',
    'FSYNC',
  ])('%s is refused, and nothing is made', async (name) => {
    const other = path.join(dataDir, 'other');
    const starting = startEmbeddedPostgres({ dataDir: other, settings: { [name]: 'off' } });
    await expect(starting).rejects.toMatchObject({ reason: 'SETTING_NOT_ALLOWED' });
    await expect(stat(other)).rejects.toMatchObject({ code: 'ENOENT' });
  });
});

describe('a server that does not heed the signals to stop', () => {
  test('is killed when the waits are over', async () => {
    const server = await start();
    process.kill(server.pid, 'SIGSTOP');
    let ended = false;
    void server.exited.then(() => {
      ended = true;
    });
    await endPostmaster(server.pid, () => ended, [
      { signal: 'SIGINT', waitMs: 50 },
      { signal: 'SIGQUIT', waitMs: 50 },
      { signal: 'SIGKILL', waitMs: 5_000 },
    ]);
    expect(ended).toBe(true);
  });

  test('and that not even a kill ends is an error', async () => {
    await expect(
      endPostmaster(process.pid, () => false, [{ signal: 'SIGCONT', waitMs: 20 }]),
    ).rejects.toMatchObject({ reason: 'STOP_FAILED' });
  });
});

describe('the package with the binaries', () => {
  test('is named when there is none for this machine', async () => {
    await expect(findNativeFolder('sunos', 'sparc')).rejects.toMatchObject({
      reason: 'PLATFORM_UNSUPPORTED',
    });
  });

  test('is named when it is not installed', async () => {
    const other = process.platform === 'darwin' ? 'linux' : 'darwin';
    await expect(findNativeFolder(other, 'arm64')).rejects.toMatchObject({ reason: 'PACKAGE_MISSING' });
  });
});

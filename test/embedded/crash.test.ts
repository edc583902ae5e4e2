import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { processInfo } from '../../src/embedded/process-info.js';
import { startPrivatePostgres } from '../support/postgres.js';
import { Checkout, isRoot, nobody, type Report, type Runner } from './checkout.js';

// What becomes of a server whose owner, or which itself, dies hard.

let checkout: Checkout;

beforeAll(async () => {
  checkout = await Checkout.create();
});

afterAll(() => checkout.remove());

afterEach(() => checkout.stopAll());

async function start(options: Record<string, unknown> = {}): Promise<Runner & { report: Required<Report> }> {
  const runner = await checkout.start(options);
  expect(runner.report.reason).toBeUndefined();
  return runner as Runner & { report: Required<Report> };
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

const isGone = (pid: number) => () => processInfo(pid) === undefined;

/** The watchdog is the owner's child that runs watchdog-process.mjs. */
function watchdogOf(owner: number): number {
  const pids = execFileSync('ps', ['-A', '-o', 'pid='], { encoding: 'utf8' }).trim().split(/\s+/).map(Number);
  const found = pids.find((pid) => {
    const info = processInfo(pid);
    return info?.parentPid === owner && info.command.includes('watchdog-process.mjs');
  });
  if (found === undefined) throw new Error('no watchdog');
  return found;
}

describe('when the process that started it is killed', () => {
  test('the watchdog stops the server, cleanly, and ends', async () => {
    const runner = await start();
    const watchdog = watchdogOf(runner.process.pid ?? 0);
    await query(runner.report.url, 'CREATE TABLE IF NOT EXISTS watched (id int)');
    await runner.kill();
    await expect.poll(isGone(runner.report.pid), { timeout: 60_000 }).toBe(true);
    await expect.poll(isGone(watchdog), { timeout: 60_000 }).toBe(true);
    // A server that shut down by itself has removed this file.
    expect(existsSync(path.join(runner.report.data, 'postmaster.pid'))).toBe(false);
  });

  test('the watchdog removes what is to be removed', async () => {
    const dataDir = path.join(checkout.folder, 'temporary');
    const runner = await start({ dataDir, removeWhenDone: true });
    expect(existsSync(dataDir)).toBe(true);
    await runner.kill();
    await expect.poll(() => existsSync(dataDir), { timeout: 60_000 }).toBe(false);
  });

  test('and the watchdog with it: the next start stops the orphan and finds what was committed', async () => {
    const first = await start();
    process.kill(watchdogOf(first.process.pid ?? 0), 'SIGKILL');
    await query(first.report.url, 'CREATE TABLE orphaned AS SELECT 1 AS id');
    await first.kill();
    expect(processInfo(first.report.pid)).toBeDefined();

    const second = await start();
    expect(isGone(first.report.pid)()).toBe(true);
    expect(second.report.log).toContainEqual(
      expect.stringMatching(
        `^stopping the Postgres .process ${first.report.pid}. that process ${first.process.pid}`,
      ),
    );
    expect(await query(second.report.url, 'SELECT id FROM orphaned')).toEqual([[1]]);
  });

  test('at once by the next start, with the watchdog at work: the new server lives', async () => {
    const first = await start();
    first.process.kill('SIGKILL');
    const second = await start();
    await expect.poll(isGone(first.report.pid), { timeout: 60_000 }).toBe(true);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await query(second.report.url, 'SELECT 1')).toEqual([[1]]);
  });
});

describe.runIf(process.platform === 'linux')('the server and its owner', () => {
  test('share nothing: no variable of the environment and no signal of a terminal', async () => {
    const { report } = await start();
    const environment = readFileSync(`/proc/${report.pid}/environ`, 'utf8').split('\0').filter(Boolean);
    expect(environment.map((line) => line.split('=')[0]).sort()).toEqual(['LC_ALL', 'PATH', 'TZ']);
    const group = execFileSync('ps', ['-o', 'pgid=', '-p', String(report.pid)], { encoding: 'utf8' });
    expect(Number(group)).toBe(report.pid);
  });
});

describe('a second process', () => {
  test('does not take the server of one that lives', async () => {
    const first = await start();
    const second = await checkout.start();
    expect(second.report.reason).toBe('ALREADY_RUNNING');
    expect(second.report.message).toContain(`process ${first.process.pid}`);
    expect((await checkout.removeData()).reason).toBe('ALREADY_RUNNING');
    expect(await query(first.report.url, 'SELECT 1')).toEqual([[1]]);
  });

  test('that starts at the same moment for the first time neither breaks nor shares it', async () => {
    const dataDir = path.join(checkout.folder, 'contested');
    const [one, other] = await Promise.all([checkout.start({ dataDir }), checkout.start({ dataDir })]);
    expect([one.report.reason, other.report.reason]).toContain('ALREADY_RUNNING');
    const started = [one, other].filter((runner) => runner.report.reason === undefined);
    expect(started.map((runner) => runner.report.message)).toEqual([undefined]);
    expect(await query(started[0]?.report.url ?? '', 'SELECT 1')).toEqual([[1]]);
    await started[0]?.stop();
  });
});

describe('a postmaster.pid that was left behind', () => {
  test('from before the machine started, with a pid that is somebody else now, does not stop a start', async () => {
    const first = await start();
    await query(first.report.url, 'CREATE TABLE IF NOT EXISTS rebooted AS SELECT 1 AS id');
    await first.stop();
    // A process of the account that runs Postgres: only then would Postgres itself take it for the server.
    const somebody = spawn('sleep', ['60'], isRoot && nobody !== undefined ? nobody : {});
    const lines = [
      somebody.pid,
      first.report.data,
      1_000_000_000,
      first.report.port,
      '',
      '127.0.0.1',
      '',
      '',
    ];
    await writeFile(path.join(first.report.data, 'postmaster.pid'), lines.join('\n'));
    try {
      const second = await start();
      expect(await query(second.report.url, 'SELECT id FROM rebooted')).toEqual([[1]]);
      expect(somebody.exitCode ?? somebody.signalCode).toBeNull();
    } finally {
      somebody.kill();
    }
  });
});

describe('when the server itself is killed', () => {
  test('it recovers what was committed, on the same port, and nothing else', async () => {
    const server = await startPrivatePostgres();
    try {
      const database = await server.createTestDatabase({ empty: true });
      await query(database.url, 'CREATE TABLE crashed AS SELECT 1 AS id');
      const open = new Client(database.url);
      open.on('error', () => {});
      await open.connect();
      await open.query('BEGIN; INSERT INTO crashed VALUES (2)');
      const before = server.pid();
      await server.kill();
      await expect(query(database.url, 'SELECT 1')).rejects.toThrow();
      await server.restart();
      expect(server.pid()).not.toBe(before);
      expect(await query(database.url, 'SELECT id FROM crashed')).toEqual([[1]]);
      await open.end().catch(() => {});
    } finally {
      await server.stop();
    }
  });

  test('with a client at work, whose backend is still ending when it is started again', async () => {
    const server = await startPrivatePostgres();
    try {
      const database = await server.createTestDatabase({ empty: true });
      const busy = query(
        database.url,
        'SELECT count(*) FROM generate_series(1, 300) a, generate_series(1, 100000) b',
      );
      busy.catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 200));
      process.kill(server.pid(), 'SIGKILL');
      await server.restart();
      expect(await query(database.url, 'SELECT 1')).toEqual([[1]]);
    } finally {
      await server.stop();
    }
  });
});

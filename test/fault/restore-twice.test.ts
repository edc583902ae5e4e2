import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { chooseIncarnation } from '../../src/cli/restore/choose-incarnation.js';
import { microsToTimestamp } from '../../src/identity/timestamp.js';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { Faults } from '../../src/lane/faults.js';
import { SILENT_OBSERVER } from '../../src/lane/lane-observer.js';
import { Lanes } from '../../src/lane/lanes.js';
import { adminService } from '../../src/rpc/admin-service.js';
import { newId } from '../../src/rpc/new-id.js';
import { ConnectionPool } from '../../src/store/connection-pool.js';
import { beginIncarnation, RestoreRefused, readRestoreState } from '../../src/store/restore.js';
import { AdminWorld, DOMAIN, ROOT, refusedFor, SERVICE_DOMAIN } from '../support/admin-world.js';
import { startCommand } from '../support/command-process.js';
import { fingerprint } from './store-invariants.js';

// effects.md, Restore: one backup is brought back, and then once more. What was given out or signed after the first restore is
// good for nothing after the second.

const TABLES = [
  'service_state',
  'domains',
  'domain_heads',
  'audit_entries',
  'admin_commands',
  'actor_counters',
  'lanes',
];

let world: AdminWorld;
let url: string;
/** What no backup brings back: the time. */
let passed: bigint;

beforeAll(async () => {
  world = await AdminWorld.open();
  url = world.database.url;
  await world.execute(SERVICE_DOMAIN, { case: 'createDomain', value: { domainId: DOMAIN } });
  for (const table of TABLES) await world.sql.query(`CREATE TABLE backup_${table} AS TABLE ${table}`);
});
afterAll(() => world.close());
beforeEach(async () => {
  passed = 0n;
  await bringBack();
});

async function bringBack(): Promise<void> {
  await world.sql.query('SET session_replication_role = replica');
  for (const table of TABLES) {
    await world.sql.query(`DELETE FROM ${table}`);
    await world.sql.query(`INSERT INTO ${table} SELECT * FROM backup_${table}`);
  }
  await world.sql.query('SET session_replication_role = origin');
  await setClock();
}

async function setClock(): Promise<void> {
  await world.sql.query('UPDATE service_state SET clock_offset = $1', [passed.toString()]);
}

/** As the command does it on a database that is not for tests; what it sleeps passes at once. */
async function restore(): Promise<bigint> {
  const incarnation = await chooseIncarnation({
    readState: () => readRestoreState(url),
    sleep: async (ms) => {
      passed += BigInt(ms) * 1000n;
      await setClock();
    },
    onWait: () => {},
  });
  await begin(incarnation);
  return incarnation;
}

function begin(incarnation: bigint) {
  return beginIncarnation({ url, codec: auditCodec, commandId: newId('restore'), incarnation });
}

async function one<T>(sql: string): Promise<T> {
  return (await world.sql.query(sql)).rows[0] as T;
}

/** What a service answers that was started just now. */
async function sendToNewService(commandJws: string): Promise<string> {
  const pool = new ConnectionPool({ url: world.database.serviceUrl, applicationName: 'surety-test' }, 2);
  const commands = new Lanes({
    ...{ pool, codec: auditCodec, faults: new Faults(undefined), observer: SILENT_OBSERVER },
    ...{ laneId: newId('lane'), queueLimit: 10, batchLimit: 10 },
  });
  const { executeCommand } = adminService({ ...world.tools, commands }).handlers as never as {
    executeCommand: (request: { commandJws: string }, context: unknown) => Promise<unknown>;
  };
  try {
    return await refusedFor(executeCommand({ commandJws }, world.context(ROOT, 'operator', DOMAIN)));
  } finally {
    await commands.drain();
    await pool.close();
  }
}

describe('a backup that is brought back twice', () => {
  test('begins two incarnations: what was signed for the first ends no freeze of the second', async () => {
    const first = await restore();
    const { now } = await one<{ now: string }>('SELECT surety_now() AS now');
    const issued = BigInt(now);
    const { revision } = await one<{ revision: string }>(
      `SELECT revision FROM domains WHERE domain_id = '${DOMAIN}'`,
    );
    const unfreeze = await world.sign(
      DOMAIN,
      { case: 'setFreeze', value: { frozen: false } },
      {
        incarnation: first,
        expectedEntityRevision: BigInt(revision),
        issuedTime: microsToTimestamp(issued) as never,
        expireTime: microsToTimestamp(issued + 300_000_000n) as never,
      },
    );
    expect(await sendToNewService(unfreeze)).toBe('done');
    // It was the wrong moment: once more.
    await bringBack();
    const second = await restore();
    expect(second).toBeGreaterThan(first);
    expect(await sendToNewService(unfreeze)).toBe('COMMAND_SIGNATURE_INVALID incarnation');
    expect(await one(`SELECT frozen FROM domains WHERE domain_id = '${DOMAIN}'`)).toEqual({ frozen: true });
  });

  test('begins a number of its own also where the first was restored twice', async () => {
    const begun = [await restore(), await restore()];
    await bringBack();
    begun.push(await restore(), await restore());
    expect(begun).toEqual([...new Set(begun)].sort((a, b) => (a < b ? -1 : 1)));
  });
});

describe('a database that is not for tests', () => {
  beforeEach(async () => void (await world.sql.query('UPDATE service_state SET test_database = false')));
  afterEach(async () => void (await world.sql.query('UPDATE service_state SET test_database = true')));

  test('begins no incarnation before its period is over, and none that it has', async () => {
    const { nextIncarnation, now } = await readRestoreState(url);
    const before = await fingerprint(world.sql);
    for (const early of [nextIncarnation as bigint, (nextIncarnation as bigint) + 5n]) {
      await expect(begin(early)).rejects.toThrow(RestoreRefused);
    }
    await expect(begin(1n)).rejects.toThrow('Another restore has begun incarnation 1 meanwhile');
    expect(await fingerprint(world.sql)).toEqual(before);
    // The choice of somebody who has waited for three minutes.
    expect(await begin((nextIncarnation as bigint) - 2n)).toMatchObject({ domains: 2 });
    expect((await readRestoreState(url)).now).toBeGreaterThan(now);
  });

  test('is waited for by the command, which says how long and why, and has changed nothing until then', async () => {
    const before = await fingerprint(world.sql);
    const command = startCommand(['restore', '--json'], { SURETY_MIGRATION_URL: url });
    while (!command.err().includes('\n'))
      await new Promise((resolve) => command.child.stderr?.once('data', resolve));
    expect(command.err()).toMatch(
      /^surety restore: waits \d+ s, until \S+Z by the database's clock: .* incarnation \d+ too\./,
    );
    command.child.kill('SIGTERM');
    expect(await command.ended).toMatchObject({ code: 'SIGTERM', out: '' });
    expect(await fingerprint(world.sql)).toEqual(before);
  });
});

import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  DEFAULT_BREAKER_RESET,
  DEFAULT_BREAKER_THRESHOLD,
  DEFAULT_LIMITS,
  DEFAULT_SERVICE_REQUESTS_PER_MINUTE,
  DEFAULT_UNKNOWN_AGE,
  DEFAULT_UNKNOWN_CEILING,
} from '../../src/ledger/admission/limits.js';
import { migrate } from '../../src/store/migrate.js';
import {
  acknowledgeCall,
  done,
  reserveCall,
  seedWorkers,
  startCall,
  submit,
  unknownCall,
} from '../fault/effect-life.js';
import { expectSound } from '../fault/store-invariants.js';
import { DOMAIN, type EffectWorld, openWorld, SERVICE_DOMAIN, SINK } from '../support/effect-world.js';
import { createTestDatabase, type TestDatabase } from '../support/postgres.js';

// Migration 0003 on a database that has served before: what it counts from then on begins with what is there.

const FOLDER = fileURLToPath(new URL('../../src/store/migrations/', import.meta.url));
/** The last version without admission. */
const BEFORE = '0002';

let world: EffectWorld;
let old: TestDatabase;
let sql: pg.Client;
let before: string;

beforeAll(async () => {
  world = await openWorld();
  old = await createTestDatabase({ empty: true });
  sql = new pg.Client(old.url);
  await sql.connect();
  before = await mkdtemp(path.join(os.tmpdir(), 'surety-before-admission-'));
  for (const name of await readdir(FOLDER)) {
    if (name.slice(0, BEFORE.length) <= BEFORE) await cp(path.join(FOLDER, name), path.join(before, name));
  }
});
afterAll(async () => {
  await sql.end();
  await old.drop();
  await world.close();
  await rm(before, { recursive: true });
});

/** Brings every row that the older schema has a place for over to it, triggers asleep, as a restore would. */
async function copyRows(): Promise<void> {
  const { rows } = await sql.query<{ name: string }>(
    `SELECT table_name AS name FROM information_schema.tables
      WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND table_name NOT LIKE 'schema_migration%'`,
  );
  await sql.query('SET session_replication_role = replica');
  for (const { name } of rows) {
    const found = await world.admin.query<{ row: unknown }>(`SELECT to_jsonb(t) AS row FROM ${name} AS t`);
    await sql.query(`DELETE FROM ${name}`);
    for (const { row } of found.rows) {
      const insert = `INSERT INTO ${name} SELECT * FROM jsonb_populate_record(NULL::${name}, $1::jsonb)`;
      await sql.query(insert, [JSON.stringify(row)]);
    }
  }
  await sql.query('SET session_replication_role = origin');
}

test('counters begin with what is there, limits with their defaults, and a service goes on from them', async () => {
  const replica = world.replica();
  const { grantId, executor } = await seedWorkers(world);
  const reserved = async () => done(submit(replica, await reserveCall(replica, grantId, { effectKey: '' })));
  const started = async () => done(submit(replica, startCall(executor, await reserved())));
  const unknown = async () => done(submit(replica, unknownCall(executor, await started())));
  for (let i = 0; i < 4; i += 1) await reserved();
  for (let i = 0; i < 3; i += 1) await started();
  for (let i = 0; i < 2; i += 1) await unknown();
  await done(submit(replica, acknowledgeCall(executor, await started(), 'FAILED')));

  await migrate({ url: old.url, directory: pathToFileURL(`${before}/`), test: true });
  await copyRows();
  const { applied } = await migrate({ url: old.url, test: true });
  expect(applied[0]).toBe(Number(BEFORE) + 1);

  const heads = await sql.query(
    'SELECT domain_id, calls, safety_calls, pending, served_calls, served_actors FROM domain_heads ORDER BY domain_id',
  );
  const none = { calls: 0, safety_calls: 0, served_calls: [], served_actors: [] };
  expect(heads.rows).toEqual([
    { domain_id: DOMAIN, ...none, pending: 9 },
    { domain_id: SERVICE_DOMAIN, ...none, pending: 0 },
  ]);
  const counters = await sql.query('SELECT * FROM sink_counters');
  const closed = { breaker: 'closed', failures: 0, opened_at: null, probe_effect_id: null };
  expect(counters.rows).toEqual([{ domain_id: DOMAIN, sink: SINK, ...closed, unknown: 2 }]);
  expect((await sql.query('SELECT FROM actor_counters')).rowCount).toBe(0);

  const domains = await sql.query(
    'SELECT requests_per_minute, actor_requests_per_minute, pending_ceiling, fairness_burst, max_hops FROM domains',
  );
  const { requestsPerMinute, actorRequestsPerMinute, pendingCeiling, fairnessBurst, maxHops } =
    DEFAULT_LIMITS;
  const limits = {
    requests_per_minute: requestsPerMinute,
    actor_requests_per_minute: actorRequestsPerMinute,
    pending_ceiling: pendingCeiling,
    fairness_burst: fairnessBurst,
    max_hops: maxHops,
  };
  expect(domains.rows).toEqual([limits, limits]);
  const service = await sql.query('SELECT requests_per_minute FROM service_state');
  expect(service.rows).toEqual([{ requests_per_minute: DEFAULT_SERVICE_REQUESTS_PER_MINUTE }]);
  const sinks = await sql.query(
    'SELECT breaker_threshold, breaker_reset, unknown_ceiling, unknown_age FROM sinks',
  );
  expect(sinks.rows).toEqual([
    {
      breaker_threshold: DEFAULT_BREAKER_THRESHOLD,
      breaker_reset: String(DEFAULT_BREAKER_RESET),
      unknown_ceiling: DEFAULT_UNKNOWN_CEILING,
      unknown_age: String(DEFAULT_UNKNOWN_AGE),
    },
  ]);

  await expectSound(sql);
  const next = world.replica({ url: old.serviceUrl });
  const effect = await done(submit(next, await reserveCall(next, grantId)));
  const executing = await done(submit(next, startCall(executor, effect)));
  await done(submit(next, unknownCall(executor, executing)));
  await done(submit(next, await reserveCall(next, grantId)));
  await expectSound(sql);
  await next.close();
});

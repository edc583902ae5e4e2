import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import { DAY } from '../../src/ledger/types.js';
import { archiveRole } from '../../src/store/migrate-roles.js';
import { columnName, TABLES } from '../../src/store/tables.js';
import {
  acknowledgeCall,
  done,
  reserved,
  seedWorkers,
  started,
  submit,
  type Workers,
} from '../fault/effect-life.js';
import { advanceClock, archiveDirectly, archiver } from '../support/archive-world.js';
import { DOMAIN, type EffectWorld, openWorld, type Replica } from '../support/effect-world.js';
import { attempt, columnsOf, GUARD, NO_PRIVILEGE, UNIQUE } from './guard-attempts.js';

// effects.md, Archival, and architecture.md, Migrations: what the database refuses by itself, whoever asks.

let world: EffectWorld;
let replica: Replica;
let workers: Workers & { grantId: string };
/** Plain clients with the rights of the roles. */
let service: pg.Client;
let archive: pg.Client;
let settled: EffectRow;
let archived: EffectRow;
let live: EffectRow;

beforeAll(async () => {
  world = await openWorld();
  replica = world.replica();
  workers = await seedWorkers(world);
  service = new pg.Client({ connectionString: world.database.serviceUrl });
  archive = new pg.Client({ connectionString: world.database.url });
  await Promise.all([service.connect(), archive.connect()]);
  await archive.query(`SET ROLE ${archiveRole}`);
  live = await started(replica, workers);
  settled = await done(submit(replica, acknowledgeCall(workers.executor, await started(replica, workers))));
  archived = await done(submit(replica, acknowledgeCall(workers.executor, await started(replica, workers))));
  await advanceClock(world, 2n * DAY);
  await archiveDirectly(world, archiver(world), [archived.effectId]);
});
afterAll(async () => {
  await Promise.all([service.end(), archive.end()]);
  await world.close();
});

const KEPT = Object.keys(TABLES.effect_tombstones.columns).filter((field) => field in TABLES.effects.columns);

/** A tombstone of an effect as its row is, but for some columns. */
function tombstone(
  effectId: string,
  change: Readonly<Record<string, string>> = {},
  archiveNumber = 1,
): string {
  const kept = KEPT.map(columnName);
  const values = kept.map((column) => change[column] ?? column);
  return `INSERT INTO effect_tombstones (domain_id, ${kept.join(', ')}, tuple_digest, record_digest, archive_number, archived_at)
    SELECT domain_id, ${values.join(', ')}, identity_digest, identity_digest, ${archiveNumber}, 1 FROM effects
    WHERE domain_id = '${DOMAIN}' AND effect_id = '${effectId}'`;
}

const remove = (table: string, effectId: string): string =>
  `DELETE FROM ${table} WHERE domain_id = '${DOMAIN}' AND effect_id = '${effectId}'`;
/** What a constraint that is looked at when the transaction ends says. */
const AT_THE_END = 'SET CONSTRAINTS ALL IMMEDIATE';

describe('who serves', () => {
  test.each([
    ['removes no effect', () => remove('effects', settled.effectId)],
    ['removes no receipt', () => remove('transitions', settled.effectId)],
    ['removes no archived one either', () => remove('transitions', archived.effectId)],
    ['makes no tombstone', () => tombstone(settled.effectId)],
    ['removes no tombstone', () => remove('effect_tombstones', archived.effectId)],
    ['records no archive', () => "INSERT INTO archives VALUES ('x', 1, 'x', '\\x', 0, 0, '\\x', 0)"],
  ])('%s', async (_, sql) => {
    expect(await attempt(service, sql())).toBe(NO_PRIVILEGE);
  });

  const copyOfArchived = (change: Readonly<Record<string, string>>): string => {
    const columns = columnsOf('effects');
    const born = { effect_id: "'another'", fence: 'fence + 1000000', ...BORN, ...change } as Record<
      string,
      string
    >;
    return `INSERT INTO effects (${columns.join(', ')})
      SELECT ${columns.map((column) => born[column] ?? column).join(', ')} FROM effects
      WHERE domain_id = '${DOMAIN}' AND effect_id = '${settled.effectId}'`;
  };
  const BORN = {
    state: "'PREPARED'",
    step: '1',
    attempt_id: 'NULL',
    started_at: 'NULL',
    settled_at: 'NULL',
    holds_key: 'true',
    key_digest: 'sha256(effect_id::bytea)',
    identity_digest: 'sha256(identity_digest)',
  };
  const digest = (bytes: Buffer): string => `'\\x${bytes.toString('hex')}'::bytea`;

  test('reserves no archived identity again, and no key that an archived effect holds', async () => {
    expect(await attempt(service, copyOfArchived({}))).toBe(1);
    const identity = { identity_digest: digest(archived.identityDigest) };
    expect(await attempt(service, copyOfArchived(identity))).toBe(UNIQUE);
    expect(await attempt(service, copyOfArchived({ key_digest: digest(archived.keyDigest) }))).toBe(UNIQUE);
  });
});

describe('who archives', () => {
  test('removes nothing that has no tombstone', async () => {
    for (const effectId of [live.effectId, settled.effectId]) {
      expect(await attempt(archive, remove('transitions', effectId))).toBe(GUARD);
      expect(await attempt(archive, remove('effects', effectId))).toBe(GUARD);
    }
    expect(await attempt(archive, 'DELETE FROM effects')).toBe(GUARD);
  });

  test('removes what has one', async () => {
    const { effectId } = settled;
    const all = [
      tombstone(effectId),
      remove('transitions', effectId),
      remove('effects', effectId),
      AT_THE_END,
    ];
    expect(typeof (await attempt(archive, all.join(';')))).not.toBe('string');
  });

  test('makes a tombstone of nothing that lives on', async () => {
    expect(await attempt(archive, tombstone(live.effectId))).toBe(GUARD);
    const prepared = await reserved(replica, workers);
    expect(await attempt(archive, tombstone(prepared.effectId, { state: "'CANCELLED'" }))).toBe(GUARD);
    // Of a settled one only together with its removal, and under an archive that is recorded.
    expect(await attempt(archive, `${tombstone(settled.effectId)}; ${AT_THE_END}`)).toBe(GUARD);
    const unrecorded = [tombstone(settled.effectId, {}, 7), remove('effects', settled.effectId), AT_THE_END];
    expect(await attempt(archive, unrecorded.join(';'))).toBe(GUARD);
  });

  test.each(KEPT.map(columnName).filter((column) => column !== 'effect_id'))(
    'makes no tombstone with another %s',
    async (column) => {
      const { rows } = await world.admin.query(
        `SELECT data_type AS type FROM information_schema.columns WHERE table_name = 'effects' AND column_name = $1`,
        [column],
      );
      const other: Record<string, string> = {
        text: `coalesce(${column}, '') || 'x'`,
        bigint: `${column} + 1`,
        bytea: `sha256(coalesce(${column}, ''))`,
        boolean: `NOT ${column}`,
      };
      const sql = tombstone(settled.effectId, { [column]: other[rows[0].type as string] as string });
      expect(await attempt(archive, sql)).toBe(GUARD);
    },
  );

  test('makes no tombstone of what is contested', async () => {
    await world.admin.query('BEGIN');
    await world.admin.query('ALTER TABLE effects DISABLE TRIGGER effects_guard');
    await world.admin.query('UPDATE effects SET disputed = true WHERE effect_id = $1', [settled.effectId]);
    await world.admin.query('ALTER TABLE effects ENABLE TRIGGER effects_guard');
    await expect(world.admin.query(tombstone(settled.effectId))).rejects.toMatchObject({ code: GUARD });
    await world.admin.query('ROLLBACK');
  });

  test.each([
    ['changes no tombstone', "UPDATE effect_tombstones SET state = 'FAILED'"],
    ['removes no tombstone', 'DELETE FROM effect_tombstones'],
    ['changes no archive', 'UPDATE archives SET log_last_seq = 1'],
    ['changes no effect', "UPDATE effects SET state = 'FAILED'"],
    ['changes no receipt', 'UPDATE transitions SET late = true'],
    ['reserves nothing', 'INSERT INTO effects SELECT * FROM effects'],
    ['removes nothing of the log', 'DELETE FROM audit_entries'],
    ['changes nothing of the log', "UPDATE audit_entries SET entry = ''"],
    ['removes no provenance', 'DELETE FROM provenance_records'],
    ['removes no event', 'DELETE FROM events'],
    ['removes no decision', 'DELETE FROM decisions'],
    ['gives no use back', 'UPDATE grants SET uses = 0'],
    ['changes no domain', 'UPDATE domains SET frozen = false'],
    ['empties nothing', 'TRUNCATE effects'],
  ])('%s', async (_, sql) => {
    expect(await attempt(archive, sql)).toBe(NO_PRIVILEGE);
  });

  test('moves no head back', async () => {
    expect(await attempt(archive, 'UPDATE domain_heads SET seq = seq - 1')).toBe(GUARD);
  });
});

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { KEY_FIELDS, type TableName } from '../../src/ledger/tables.js';
import { DAY } from '../../src/ledger/types.js';
import { columnName, keyColumns, TABLES } from '../../src/store/tables.js';
import { done, reconcileCall, started, submit, unknownCall } from '../fault/effect-life.js';
import { DOMAIN, nowMicros } from '../support/effect-world.js';
import { manyActions, seedActions } from '../support/action-rows.js';
import { advanceClock, archiveDirectly, archiver } from '../support/archive-world.js';
import { attempt, columnsOf, GUARD, NO_PRIVILEGE, seedRow, UNIQUE } from './guard-attempts.js';
import { type GuardWorld, openGuardWorld } from './guard-world.js';

// effects.md, States: the database refuses by itself, also from buggy code of ours or from psql.

let guarded: GuardWorld;
let world: GuardWorld['world'];
let replica: GuardWorld['replica'];
let workers: GuardWorld['workers'];
let service: GuardWorld['service'];

beforeAll(async () => {
  guarded = await openGuardWorld();
  ({ world, replica, workers, service } = guarded);
  // Something in every table that a life fills.
  const unknown = await done(submit(replica, unknownCall(workers.executor, await started(replica, workers))));
  const settled = await done(submit(replica, reconcileCall(workers.reconciler, unknown)));
  const again = await done(submit(replica, unknownCall(workers.executor, await started(replica, workers))));
  await done(submit(replica, reconcileCall(workers.reconciler, again)));
  await advanceClock(world, 2n * DAY);
  await archiveDirectly(world, archiver(world), [settled.effectId]);
  await seedActions(world, manyActions(nowMicros()));
});
afterAll(() => guarded.close());

const NAMES = Object.keys(TABLES) as TableName[];
/** Rows of these come and go: they are inserted and deleted, never changed. */
const COME_AND_GO: ReadonlySet<TableName> = new Set(['pending_work', 'transition_nonces', 'replay_nonces']);
/** The role that archives adds these, and the service only reads them. */
const ARCHIVES: ReadonlySet<string> = new Set<TableName>(['archives', 'effect_tombstones']);
const APPEND_ONLY = NAMES.filter((name) => TABLES[name].mutable.length === 0 && !COME_AND_GO.has(name));
/** Changed, but never removed and with rules of their own. */
const GUARDED: readonly string[] = ['effects', 'grants', 'domain_heads', 'actions', 'bounded_grants'];
const OTHERS = ['domains', 'domain_heads', 'lanes', 'service_state'];

describe('what the service may', () => {
  test('is, by table, to read, to add, and to change what moves: nothing else', async () => {
    const rights: Record<string, unknown> = {};
    const expected: Record<string, unknown> = {};
    for (const name of NAMES) {
      expected[name] = {
        select: true,
        insert: !ARCHIVES.has(name),
        delete: COME_AND_GO.has(name),
        truncate: false,
        update: TABLES[name].mutable.map(columnName).sort(),
      };
      rights[name] = await rightsOn(name);
    }
    expect(rights).toEqual(expected);
    expect(await rightsOn('lanes')).toMatchObject({ delete: true, update: ['last_batch', 'updated_at'] });
    expect(await rightsOn('domain_heads')).toMatchObject({ delete: false, truncate: false });
    expect(await rightsOn('domains')).toMatchObject({ delete: false, truncate: false });
    expect(await rightsOn('service_state')).toMatchObject({
      insert: false,
      delete: false,
      update: ['clock_offset', 'requests_per_minute'],
    });
  });

  test('is known for every table that there is', async () => {
    const { rows } = await world.admin.query(
      "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY relname",
    );
    const described = new Set<string>([...NAMES, ...OTHERS]);
    const unknown = rows.map((row) => row.relname as string).filter((name) => !described.has(name));
    // Of the migration runner, and out of the service's reach.
    for (const name of unknown) {
      const { update, ...rights } = (await rightsOn(name)) as { update: string[] };
      expect({ name, ...rights, update }).toMatchObject({
        insert: false,
        delete: false,
        truncate: false,
        update: [],
      });
    }
  });

  test.each([
    ['ALTER TABLE effects DISABLE TRIGGER ALL', NO_PRIVILEGE],
    ['DROP TRIGGER effects_guard ON effects', NO_PRIVILEGE],
    ["SET session_replication_role = 'replica'", NO_PRIVILEGE],
    ['CREATE TABLE mine (id int)', NO_PRIVILEGE],
    [
      'CREATE FUNCTION surety_effect_guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$',
      NO_PRIVILEGE,
    ],
    ['UPDATE service_state SET incarnation = incarnation + 1', NO_PRIVILEGE],
    ['UPDATE service_state SET test_database = true', NO_PRIVILEGE],
  ])('is not: %s', async (sql, state) => {
    expect(await attempt(service, sql)).toBe(state);
  });

  async function rightsOn(name: string): Promise<object> {
    const { rows } = await service.query(
      `SELECT has_table_privilege($1, 'SELECT') AS select, has_table_privilege($1, 'INSERT') AS insert,
        has_table_privilege($1, 'DELETE') AS delete, has_table_privilege($1, 'TRUNCATE') AS truncate,
        ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
          AND has_column_privilege($1, attname, 'UPDATE') ORDER BY attname COLLATE "C") AS update`,
      [name],
    );
    return rows[0];
  }
});

describe.each(APPEND_ONLY)('%s is append-only', (name) => {
  test.each(columnsOf(name))('%s is not changed by the service, nor by its owner', async (column) => {
    await seedRow(world.admin, name, DOMAIN);
    const sql = `UPDATE ${name} SET ${column} = ${column}`;
    expect(await attempt(service, sql)).toBe(NO_PRIVILEGE);
    expect(await attempt(world.admin, sql)).toBe(GUARD);
  });

  test('nothing is removed by the service, nor by its owner', async () => {
    await seedRow(world.admin, name, DOMAIN);
    for (const sql of [`DELETE FROM ${name}`, `TRUNCATE ${name}`, `TRUNCATE ${name} CASCADE`]) {
      expect(await attempt(service, sql), sql).toBe(NO_PRIVILEGE);
      expect(await attempt(world.admin, sql), sql).toBe(GUARD);
    }
  });

  test('a key is taken once', async () => {
    await seedRow(world.admin, name, DOMAIN);
    const columns = columnsOf(name).join(', ');
    const key = ['domain_id', ...keyColumns(name)].join(', ');
    expect(KEY_FIELDS[name].length).toBeGreaterThan(0);
    const sql = `INSERT INTO ${name} (${columns}) SELECT ${columns} FROM (SELECT * FROM ${name} ORDER BY ${key} LIMIT 1) AS t`;
    // A second tombstone is refused before its key is looked at: its effect is not there any more.
    if (name === 'effect_tombstones') return expect(await attempt(world.admin, sql)).toBe(GUARD);
    expect(await attempt(ARCHIVES.has(name) ? world.admin : service, sql)).toBe(UNIQUE);
  });
});

describe('every table', () => {
  test.each(NAMES.filter((name) => TABLES[name].mutable.length > 0))(
    '%s: the service removes nothing and changes no key',
    async (name) => {
      for (const sql of [`DELETE FROM ${name}`, `TRUNCATE ${name}`]) {
        expect(await attempt(service, sql), sql).toBe(NO_PRIVILEGE);
      }
      for (const column of ['domain_id', ...keyColumns(name)]) {
        expect(await attempt(service, `UPDATE ${name} SET ${column} = ${column}`), column).toBe(NO_PRIVILEGE);
      }
    },
  );

  test.each(GUARDED)('%s: nor does its owner remove anything', async (name) => {
    expect(await attempt(world.admin, `DELETE FROM ${name}`)).toBe(GUARD);
  });

  test('effects: nor is the table emptied', async () => {
    expect(await attempt(world.admin, 'TRUNCATE effects')).toBe(GUARD);
  });
});

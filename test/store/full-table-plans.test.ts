import { afterAll, beforeAll, expect, test } from 'vitest';
import { sha256 } from '../../src/ledger/encoding.js';
import type { TableName } from '../../src/ledger/tables.js';
import { PLANNED_ONCE } from '../../src/store/connection.js';
import { byKeyText } from '../../src/store/gather-planner.js';
import { loadStatements } from '../../src/store/sql-files.js';
import {
  type EffectWorld,
  freshId,
  openWorld,
  publish,
  reservation,
  reserve,
  seedGrant,
} from '../support/effect-world.js';
import { byDomainAlone, planOf, writeText } from './statement-plans.js';

// lookup-plans.test.ts looks at the plans of empty tables. Here a lane's connection makes its plans where there is much of
// everything that a reservation touches, with statistics and without: they must be no worse.

const ROWS = 20_000;
const PAGE = 1_000;
/** Its entry and row, its grant by the key, and that grant's domain and harness. */
const BLOCKS_PER_EFFECT = 15;
/** What is there belongs to two domains, half to each. */
const TWO_DOMAINS = "CASE WHEN n % 2 = 0 THEN 'globex.test' ELSE t.domain_id END";
/** Ids begin with the time: rows lie in the order of their index, and to walk all of it seems cheap. */
const IN_ORDER = "lpad(n::text, 6, '0')";
/** The columns of each table that tell its rows apart, as an expression of a row t and a number n. */
const COPIED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  events: { event_id: `t.event_id || ${IN_ORDER}` },
  grants: { grant_id: `t.grant_id || ${IN_ORDER}` },
  decisions: { decision_id: `t.decision_id || ${IN_ORDER}`, audit_seq: 't.audit_seq + n' },
  pending_work: { effect_id: `t.effect_id || ${IN_ORDER}` },
  audit_entries: { seq: 't.seq + n * 10', effect_id: `t.effect_id || ${IN_ORDER}` },
  provenance_records: {
    object_id: `t.object_id || ${IN_ORDER}`,
    provenance_digest: "sha256(('record' || n)::bytea)",
  },
  effects: {
    effect_id: `t.effect_id || ${IN_ORDER}`,
    identity_digest: "sha256(('identity' || n)::bytea)",
    key_digest: "sha256(('key' || n)::bytea)",
    fence: 't.fence + n',
    event_id: `t.event_id || ${IN_ORDER}`,
    grant_id: `t.grant_id || ${IN_ORDER}`,
  },
};

let world: EffectWorld;
beforeAll(async () => {
  world = await openWorld();
  const replica = world.replica();
  const { grantId } = await seedGrant(world);
  const eventId = await publish(replica);
  const effectKey = freshId('change');
  await reserve(replica, reservation(eventId, grantId, { effectKey, requestDigest: sha256(effectKey) }));
  // The guards would want a life for each row.
  await world.admin.query('SET session_replication_role = replica');
  for (const setting of PLANNED_ONCE) await world.admin.query(`SET ${setting}`);
});
afterAll(() => world.close());

/** Makes copies of a table's only row, from one number to another. */
async function copyRow(
  table: string,
  columns: Readonly<Record<string, string>>,
  from: number,
  to: number,
): Promise<void> {
  const { rows } = await world.admin.query(
    'SELECT attname AS name FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 ORDER BY attnum',
    [table],
  );
  const values = rows.map(({ name }) =>
    name === 'domain_id' ? TWO_DOMAINS : (columns[name as string] ?? `t.${name}`),
  );
  await world.admin.query(
    `INSERT INTO ${table} SELECT ${values.join(', ')} FROM (SELECT * FROM ${table} ORDER BY ctid LIMIT 1) AS t, generate_series(${from}, ${to}) AS n`,
  );
}

const statements = [
  ...(Object.keys(COPIED) as TableName[]).map((name) => [`${name} by its key`, byKeyText(name)] as const),
  ...[1, 2].flatMap((count) => [
    [`grants: an update of ${count}`, writeText('grants', 'update', count)] as const,
    [`effects: an update of ${count}`, writeText('effects', 'update', count)] as const,
    [`pending_work: a removal of ${count}`, writeText('pending_work', 'delete', count)] as const,
  ]),
  ...loadStatements('./sql/gather.sql'),
];

const exactIndexes = [
  ['identities_with_audit', ['effects_identity_of_event']],
  ['unsettled_of', ['effects_unsettled']],
  ['keys_with_audit', ['effects_key_holder', 'effects_key_let_go']],
  ['effect_contexts', ['effects_pkey']],
] as const;

async function forgetStatistics(): Promise<void> {
  await world.admin.query(
    "DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)",
  );
}

/** Each lookup that the domain alone answers, and each statement that must use an index and uses another. */
async function badPlans(): Promise<string[][]> {
  const found: string[][] = [];
  for (const [name, text] of statements) {
    const lines = await byDomainAlone(world.admin, text);
    if (lines.length > 0) found.push([name, ...lines]);
  }
  const gather = loadStatements('./sql/gather.sql');
  for (const [name, indexes] of exactIndexes) {
    const plan = await planOf(world.admin, gather.get(name) ?? '');
    const used = new Set(plan.flatMap((line) => /Index.* Scan.* using (effects_\w+)/.exec(line)?.[1] ?? []));
    if ([...used].join() !== indexes.join()) found.push([name, ...used]);
  }
  return found;
}

// A plan is kept, whenever it was made. Of two indexes that begin alike, and would seem to find as few rows, it takes the
// narrower, for as long as the other one is a level higher: it would go on to read all effects of an event when there are
// thousands. And without statistics every index that begins with the domain seems to find one row of the first two hundred.
test('the exact index, also planned where there are a few hundred of everything', async () => {
  for (let rows = 20; rows <= 400; rows += 20) {
    for (const [table, columns] of Object.entries(COPIED)) await copyRow(table, columns, rows - 19, rows);
    await forgetStatistics();
    expect([rows, 'without statistics', ...(await badPlans())]).toEqual([rows, 'without statistics']);
    await world.admin.query('ANALYZE');
    expect([rows, 'with statistics', ...(await badPlans())]).toEqual([rows, 'with statistics']);
  }
  // And then a few rows of a table of some pages are best found by walking all of them, with statistics that say so.
  for (let rows = 1_000; rows <= ROWS; rows += 1_000) {
    const from = rows === 1_000 ? 401 : rows - 999;
    for (const [table, columns] of Object.entries(COPIED)) await copyRow(table, columns, from, rows);
    await world.admin.query('ANALYZE');
    expect([rows, ...(await badPlans())]).toEqual([rows]);
  }
  await world.admin.query('RESET session_replication_role');
  await forgetStatistics();
});

test.each(statements)('%s, without statistics', async (_, text) => {
  expect(await byDomainAlone(world.admin, text)).toEqual([]);
});

test('with statistics', async () => {
  await world.admin.query('ANALYZE');
  for (const [name, text] of statements) {
    expect([name, ...(await byDomainAlone(world.admin, text))]).toEqual([name]);
  }
});

// What the sweep of ended grants looks at in a second is a page, however much is not settled. The reader plans it each time.
test('the walk over what is not settled reads a page of its index, from any place on', async () => {
  for (const setting of PLANNED_ONCE) await world.admin.query(`RESET ${setting.split('=', 1)[0]}`);
  const text = loadStatements('./sql/queries/sweep.sql').get('prepared_effects_of_ended_grants') ?? '';
  await world.admin.query(`PREPARE walk AS ${text}`);
  const blocksOf = async (place: string, page: number): Promise<number> => {
    const { rows } = await world.admin.query(
      `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE walk ('${place}', '', '', '', ${page})`,
    );
    const plan = rows[0]['QUERY PLAN'][0].Plan as Record<string, number>;
    return (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0);
  };
  const [few, many] = [await blocksOf('', PAGE / 10), await blocksOf('', PAGE)];
  expect(many).toBeLessThan(PAGE * BLOCKS_PER_EFFECT);
  expect(few).toBeLessThan((PAGE / 10) * BLOCKS_PER_EFFECT);
  expect(await blocksOf('z', PAGE)).toBeLessThan(BLOCKS_PER_EFFECT);
});

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TableName } from '../../src/ledger/tables.js';
import { byKeyText } from '../../src/store/gather-planner.js';
import { loadStatements } from '../../src/store/sql-files.js';
import { keyColumns, TABLES } from '../../src/store/tables.js';
import { type EffectWorld, openWorld } from '../support/effect-world.js';
import { byDomainAlone, changedTables, planOf, writeText } from './statement-plans.js';

// architecture.md, Gather: a connection plans its statements once, often while the tables are empty, and goes on with these
// plans when they are full. A lookup that then only knows the domain would read all of it.

let world: EffectWorld;
beforeAll(async () => {
  world = await openWorld();
  await world.admin.query('SET plan_cache_mode = force_generic_plan');
});
afterAll(() => world.close());

test.each(Object.keys(TABLES) as TableName[])('%s: by its key', async (name) => {
  expect(keyColumns(name).length).toBeGreaterThan(0);
  expect(await byDomainAlone(world.admin, byKeyText(name))).toEqual([]);
});

test.each(changedTables)('%s: the rows that an update names', async (name) => {
  for (const count of [1, 2]) {
    expect(await byDomainAlone(world.admin, writeText(name, 'update', count))).toEqual([]);
  }
});

test.each(['pending_work', 'effects', 'transitions'] as const)(
  '%s: the rows that are removed',
  async (name) => {
    for (const count of [1, 2]) {
      expect(await byDomainAlone(world.admin, writeText(name, 'delete', count))).toEqual([]);
    }
  },
);

describe.each(['./sql/gather.sql', './sql/gather-actions.sql'])('%s', (file) => {
  test.each([...loadStatements(file)])('%s', async (_, text) => {
    expect(await byDomainAlone(world.admin, text)).toEqual([]);
  });
});

// Where several indexes of a table begin with the domain, each seems to find one row while there are few: only the order that is
// asked for tells a plan which of them is meant.
test('a lookup of one row says its order, unless its table has no second index', async () => {
  const { rows } = await world.admin.query(`
    SELECT c.relname AS table, count(*) AS indexes FROM pg_index AS i
    JOIN pg_class AS c ON c.oid = i.indrelid
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] AND a.attname = 'domain_id'
    WHERE i.indpred IS NULL GROUP BY 1`);
  const indexes = new Map(rows.map((row) => [row.table as string, Number(row.indexes)]));
  const unordered: string[] = [];
  let looked = 0;
  for (const file of ['./sql/gather.sql', './sql/gather-actions.sql']) {
    for (const [name, text] of loadStatements(file)) {
      for (const [, table = '', rest = ''] of text.matchAll(
        / FROM (\w+)\s+WHERE ((?:(?! FROM )[^])*?)\bLIMIT 1\b/g,
      )) {
        looked += 1;
        if (!rest.includes('ORDER BY') && indexes.get(table) !== 1) unordered.push(`${name}: ${table}`);
      }
    }
  }
  expect(looked).toBeGreaterThan(80);
  expect(unordered).toEqual([]);
});

// What is due is a range of an index: a sweep that looks at all that is not due costs more each second the more there is of it.
const dueStatements = [...loadStatements('./sql/queries/sweep.sql')].filter(([, text]) =>
  text.includes('surety_now'),
);

test('every kind of thing that time moves has its sweep', () => {
  expect(dueStatements.map(([name]) => name)).toEqual([
    'late_prepared_effects',
    'lost_executions',
    'expired_proposals',
    'expired_action_leases',
    'unobservable_actions',
  ]);
});

test.each(dueStatements)('%s: what is due, and nothing else', async (_, text) => {
  const lines = await planOf(world.admin, text);
  const filters = lines.filter((line) => line.startsWith('Filter:'));
  expect(filters.filter((line) => /surety_now|<=/.test(line))).toEqual([]);
  expect(lines.filter((line) => /^Index Cond: .*<=/.test(line))).toHaveLength(1);
});

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

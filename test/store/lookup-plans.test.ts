import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TableName } from '../../src/ledger/tables.js';
import { byKeyText } from '../../src/store/gather-planner.js';
import { loadStatements } from '../../src/store/sql-files.js';
import { keyColumns, TABLES } from '../../src/store/tables.js';
import { writeStatements } from '../../src/store/write-statements.js';
import type { RowChange } from '../../src/ledger/working-set.js';
import { type EffectWorld, openWorld } from '../support/effect-world.js';

// architecture.md, Gather: a connection plans its statements once, often while the tables are empty, and goes on with these
// plans when they are full. A lookup that then only knows the domain would read all of it.

let world: EffectWorld;
beforeAll(async () => {
  world = await openWorld();
  await world.admin.query('SET plan_cache_mode = force_generic_plan');
});
afterAll(() => world.close());

/** The lines of the plan that a connection makes once. */
async function planOf(text: string): Promise<string[]> {
  await world.admin.query(`PREPARE looked_at AS ${text}`);
  const { rows: types } = await world.admin.query(
    "SELECT parameter_types::text[] AS types FROM pg_prepared_statements WHERE name = 'looked_at'",
  );
  const { types: parameters } = types[0] as { types: string | string[] };
  const count = Array.isArray(parameters) ? parameters.length : parameters.split(',').length;
  const { rows } = await world.admin.query(
    `EXPLAIN (COSTS OFF) EXECUTE looked_at (${Array.from({ length: count }, () => 'NULL').join(', ')})`,
  );
  await world.admin.query('DEALLOCATE looked_at');
  return rows.map((row) => (row['QUERY PLAN'] as string).trim());
}

/** The lookups of a statement that an index answers by the domain alone. */
async function byDomainAlone(text: string): Promise<string[]> {
  const lines = await planOf(text);
  return lines.filter((line, i) => {
    const condition = lines[i + 1] ?? '';
    return (
      /(Index|Seq) Scan/.test(line) && !WHOLE.test(line) && !/AND|ANY|domain_id = [a-z(]/.test(condition)
    );
  });
}

/** Tables of few rows, or of one for each domain, and scans that are walked as far as a page goes. */
const WHOLE = /on (service_state|domains|domain_heads|gate_shapes)/;

test.each(Object.keys(TABLES) as TableName[])('%s: by its key', async (name) => {
  expect(keyColumns(name).length).toBeGreaterThan(0);
  expect(await byDomainAlone(byKeyText(name))).toEqual([]);
});

/** What a batch writes that changes, or removes, one row of a table; its values do not matter here. */
function writeText(table: TableName, kind: 'update' | 'delete'): string {
  const row = Object.fromEntries(Object.keys(TABLES[table].columns).map((field) => [field, null]));
  const change = {
    table,
    before: row,
    after: kind === 'update' ? { ...row } : undefined,
  } as unknown as RowChange;
  const changes = {
    rows: [change],
    head: undefined,
    domain: undefined,
    createdDomains: [],
    serviceLimit: undefined,
  };
  return writeStatements('acme.test', changes)[0]?.text ?? '';
}

const changed = (Object.keys(TABLES) as TableName[]).filter((name) => TABLES[name].mutable.length > 0);

test.each(changed)('%s: the row that an update names', async (name) => {
  expect(await byDomainAlone(writeText(name, 'update'))).toEqual([]);
});

test.each(['pending_work', 'effects', 'transitions'] as const)(
  '%s: the row that is removed',
  async (name) => {
    expect(await byDomainAlone(writeText(name, 'delete'))).toEqual([]);
  },
);

describe.each(['./sql/gather.sql', './sql/gather-actions.sql'])('%s', (file) => {
  test.each([...loadStatements(file)])('%s', async (_, text) => {
    expect(await byDomainAlone(text)).toEqual([]);
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
  const lines = await planOf(text);
  const filters = lines.filter((line) => line.startsWith('Filter:'));
  expect(filters.filter((line) => /surety_now|<=/.test(line))).toEqual([]);
  expect(lines.filter((line) => /^Index Cond: .*<=/.test(line))).toHaveLength(1);
});

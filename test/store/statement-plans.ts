import type pg from 'pg';
import type { TableName } from '../../src/ledger/tables.js';
import type { RowChange } from '../../src/ledger/working-set.js';
import { TABLES } from '../../src/store/tables.js';
import { writeStatements } from '../../src/store/write-statements.js';

/** Tables of few rows, or of one for each domain, and scans that are walked as far as a page goes. */
const WHOLE = /on (service_state|domains|domain_heads|gate_shapes)/;

/** The lines of the plan that a connection makes once. */
export async function planOf(client: pg.Client, text: string): Promise<string[]> {
  await client.query(`PREPARE looked_at AS ${text}`);
  const { rows: types } = await client.query(
    "SELECT parameter_types::text[] AS types FROM pg_prepared_statements WHERE name = 'looked_at'",
  );
  const { types: parameters } = types[0] as { types: string | string[] };
  const count = Array.isArray(parameters) ? parameters.length : parameters.split(',').length;
  const { rows } = await client.query(
    `EXPLAIN (COSTS OFF) EXECUTE looked_at (${Array.from({ length: count }, () => 'NULL').join(', ')})`,
  );
  await client.query('DEALLOCATE looked_at');
  return rows.map((row) => (row['QUERY PLAN'] as string).trim());
}

/** The lookups of a statement that an index answers by the domain alone, or none at all. */
export async function byDomainAlone(client: pg.Client, text: string): Promise<string[]> {
  const lines = await planOf(client, text);
  return lines.filter((line, i) => {
    const condition = lines[i + 1] ?? '';
    return (
      /(Index|Seq) Scan/.test(line) && !WHOLE.test(line) && !/AND|ANY|domain_id = [a-z(]/.test(condition)
    );
  });
}

/** What a batch writes that changes, or removes, rows of a table; their values do not matter here. */
export function writeText(table: TableName, kind: 'update' | 'delete', count: number): string {
  const row = Object.fromEntries(Object.keys(TABLES[table].columns).map((field) => [field, null]));
  const change = {
    table,
    before: row,
    after: kind === 'update' ? { ...row } : undefined,
  } as unknown as RowChange;
  const changes = {
    rows: Array.from({ length: count }, () => change),
    head: undefined,
    domain: undefined,
    createdDomains: [],
    serviceLimit: undefined,
  };
  return writeStatements('acme.test', changes)[0]?.text ?? '';
}

/** The tables that a batch changes rows of. */
export const changedTables = (Object.keys(TABLES) as TableName[]).filter(
  (name) => TABLES[name].mutable.length > 0,
);

import type pg from 'pg';
import type { TableName } from '../../src/ledger/tables.js';
import { columnName, TABLES } from '../../src/store/tables.js';

/** SQLSTATEs of a refusal. */
export const NO_PRIVILEGE = '42501';
export const GUARD = '23001';
export const CHECK = '23514';
export const UNIQUE = '23505';

/** Runs a statement in a transaction that is undone. @returns how many rows it touched, or the SQLSTATE */
export async function attempt(
  client: pg.Client,
  sql: string,
  values: unknown[] = [],
): Promise<number | string> {
  await client.query('BEGIN');
  try {
    const { rowCount } = await client.query(sql, values);
    return rowCount ?? 0;
  } catch (error) {
    return (error as { code: string }).code;
  } finally {
    await client.query('ROLLBACK');
  }
}

/** The columns of a table, in the order of its description. */
export function columnsOf(name: TableName): string[] {
  return ['domain_id', ...Object.keys(TABLES[name].columns).map(columnName)];
}

const SAMPLES = {
  text: 'x',
  int8: '1',
  int4: '1',
  bool: 'false',
  bytea: Buffer.alloc(32),
  'text[]': '{x}',
  'int4[]': '{1}',
  'bytea[]': '{}',
};

/** Columns that hold only certain texts. */
const CHOICES: Readonly<Record<string, string>> = { 'clearance_receipts.purpose': 'review' };

/** A row for a table that is still empty, so that a trigger for each row has one to refuse. */
export async function seedRow(admin: pg.Client, name: TableName, domainId: string): Promise<void> {
  const { rows } = await admin.query(`SELECT FROM ${name} LIMIT 1`);
  if (rows.length > 0) return;
  const values = Object.entries(TABLES[name].columns).map(
    ([field, type]) => CHOICES[`${name}.${field}`] ?? SAMPLES[type as keyof typeof SAMPLES],
  );
  const places = ['$1', ...values.map((_, i) => `$${i + 2}`)];
  await admin.query(`INSERT INTO ${name} (${columnsOf(name).join(', ')}) VALUES (${places.join(', ')})`, [
    domainId,
    ...values,
  ]);
}

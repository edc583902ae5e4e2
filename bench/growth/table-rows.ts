import type pg from 'pg';
import { ByteTemplate, type Slot } from './byte-template.js';

/** One column of a row as the binary format has it; null: NULL. */
interface Field {
  readonly column: string;
  readonly type: string;
  readonly value: Buffer | null;
}

/** A stored row, column by column in the table's order. */
export type StoredRow = readonly Field[];

/** How the server itself makes a value's binary form. */
const SENDERS: Readonly<Record<string, string>> = {
  text: 'textsend',
  bytea: 'byteasend',
  int8: 'int8send',
  int4: 'int4send',
  bool: 'boolsend',
};
const NULL_LENGTH = -1;
const INT8_BYTES = 8;

/** Rows of a table as they are stored. @param where with $1, … for the values, in order of `order` */
export async function storedRows(
  sql: pg.Client,
  table: string,
  where: string,
  values: readonly unknown[],
): Promise<StoredRow[]> {
  const { rows: columns } = await sql.query<{ name: string; type: string }>(
    `SELECT attname AS name, t.typname AS type FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
     WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
    [table],
  );
  const sent = columns.map(({ name, type }) => `${SENDERS[type] ?? 'array_send'}(${name}) AS ${name}`);
  const { rows } = await sql.query<Record<string, Buffer | null>>(
    `SELECT ${sent.join(', ')} FROM ${table} WHERE ${where}`,
    [...values],
  );
  return rows.map((row) =>
    columns.map(({ name, type }) => ({ column: name, type, value: row[name] ?? null })),
  );
}

/** A column's value. @throws Error where there is none */
export function bytesOf(row: StoredRow, column: string): Buffer {
  const value = row.find((field) => field.column === column)?.value;
  if (!value) throw new Error(`the template has no ${column}`);
  return value;
}

/** A column of text. */
export function textOf(row: StoredRow, column: string): string {
  return bytesOf(row, column).toString('utf8');
}

/** A column of type bigint. */
export function numberOf(row: StoredRow, column: string): number {
  return Number(bytesOf(row, column).readBigInt64BE());
}

/** The same row with other bytes in some columns. */
export function withBytes(row: StoredRow, changed: Readonly<Record<string, Buffer>>): StoredRow {
  return row.map((field) => ({ ...field, value: changed[field.column] ?? field.value }));
}

/**
 * A row in the form that a binary COPY takes: the number of fields, and each with its length. Integers are replaced where
 * a whole column is equal, text and bytes wherever they stand.
 */
export function rowTemplate(row: StoredRow, slots: readonly Slot[], integers: readonly Slot[]): ByteTemplate {
  const count = Buffer.alloc(2);
  count.writeInt16BE(row.length);
  const parts: Buffer[] = [count];
  const wholes: Slot[] = [];
  for (const { type, value } of row) {
    const length = Buffer.alloc(4);
    length.writeInt32BE(value?.length ?? NULL_LENGTH);
    parts.push(length);
    if (!value) continue;
    const whole = type === 'int8' ? integers.find(({ pattern }) => pattern.equals(value)) : undefined;
    if (whole) wholes.push(whole);
    parts.push(value);
  }
  const bytes = Buffer.concat(parts);
  return new ByteTemplate(bytes, [...slots, ...wholes.map((slot) => withLength(slot))]);
}

/** With the length before it, an integer is not taken for one by chance within text or bytes. */
function withLength(slot: Slot): Slot {
  const head = Buffer.alloc(4);
  head.writeInt32BE(INT8_BYTES);
  return { name: slot.name, pattern: Buffer.concat([head, slot.pattern]), value: slot.value };
}

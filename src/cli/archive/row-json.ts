import type { Tables } from '../../ledger/tables.js';
import type { ColumnType } from '../../store/table-spec.js';
import { columnName, TABLES } from '../../store/tables.js';

/** A row by the names of its columns: integers of 64 bits as decimal text, bytes as base64. */
export type JsonRow = Readonly<Record<string, string | number | boolean | null>>;

/** The tables whose rows are archived; none has a column that is an array. */
type ArchivedTable = 'effects' | 'transitions';

function columnsOf(table: ArchivedTable): [string, ColumnType][] {
  return Object.entries(TABLES[table].columns);
}

export function rowToJson<T extends ArchivedTable>(table: T, row: Tables[T]): JsonRow {
  const fields = row as unknown as Record<string, unknown>;
  return Object.fromEntries(
    columnsOf(table).map(([field, type]) => [columnName(field), toJson(type, fields[field])]),
  );
}

/** @throws TypeError or SyntaxError where it is not such a row */
export function rowFromJson<T extends ArchivedTable>(table: T, json: JsonRow): Tables[T] {
  const columns = columnsOf(table);
  if (Object.keys(json).length !== columns.length) throw new TypeError('not the columns of the table');
  return Object.fromEntries(
    columns.map(([field, type]) => [field, fromJson(type, json[columnName(field)])]),
  ) as unknown as Tables[T];
}

function toJson(type: ColumnType, value: unknown): JsonRow[string] {
  if (value === null) return null;
  if (type === 'int8') return (value as bigint).toString();
  if (type === 'bytea') return (value as Buffer).toString('base64');
  return value as string | number | boolean;
}

function fromJson(type: ColumnType, value: JsonRow[string] | undefined): unknown {
  if (value === undefined) throw new TypeError('a column is missing');
  if (value === null) return null;
  if (type === 'int8') return BigInt(value);
  if (type === 'bytea') return Buffer.from(value as string, 'base64');
  return value;
}

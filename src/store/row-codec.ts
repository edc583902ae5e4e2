import type { CustomTypesConfig } from 'pg';
import type { TableName, Tables } from '../ledger/tables.js';
import { binaryArray, isElementType } from './binary-array.js';
import { parseRecord } from './record-text.js';
import type { ColumnType } from './table-spec.js';
import { TABLES } from './tables.js';

/** Type ids of Postgres that rows are read with. */
const INT8 = 20;
const INT4 = 23;
const BOOL = 16;
const BYTEA = 17;
const TEXT_ARRAY = 1009;
const INT4_ARRAY = 1007;
const BYTEA_ARRAY = 1001;

const PARSERS: ReadonlyMap<number, (text: string) => unknown> = new Map<number, (text: string) => unknown>([
  [INT8, (text) => BigInt(text)],
  [INT4, (text) => Number(text)],
  [BOOL, (text) => text === 't'],
  [BYTEA, parseBytea],
  [TEXT_ARRAY, parseArray],
  [INT4_ARRAY, (text) => parseArray(text).map(Number)],
  [BYTEA_ARRAY, (text) => parseArray(text).map(parseBytea)],
]);

/** How a value of a type is read; undefined: it stays the text that Postgres sent. */
export function parserOf(typeId: number): ((text: string) => unknown) | undefined {
  return PARSERS.get(typeId);
}

const TYPE_IDS: Readonly<Record<ColumnType, number | undefined>> = {
  text: undefined,
  int8: INT8,
  int4: INT4,
  bool: BOOL,
  bytea: BYTEA,
  'text[]': TEXT_ARRAY,
  'int4[]': INT4_ARRAY,
  'bytea[]': BYTEA_ARRAY,
};

/** How the text of a column is read; undefined: it is a text. */
function parserOfType(type: ColumnType): ((text: string) => unknown) | undefined {
  const id = TYPE_IDS[type];
  return id === undefined ? undefined : PARSERS.get(id);
}

/**
 * How values come out of the driver, on every connection of ours: int8 as bigint (a fence has 63 bits), bytea as Buffer.
 * Everything else stays the text that Postgres sent.
 */
export const TYPES: CustomTypesConfig = {
  getTypeParser: ((oid: number) => PARSERS.get(oid) ?? ((text: string) => text)) as never,
};

function parseBytea(text: string): Buffer {
  return Buffer.from(text.slice(2), 'hex');
}

/** A one-dimensional array literal without NULLs, as Postgres writes it. */
function parseArray(literal: string): string[] {
  const items: string[] = [];
  let at = 1;
  while (at < literal.length - 1) {
    if (literal[at] === '"') {
      let item = '';
      for (at += 1; literal[at] !== '"'; at += 1) {
        if (literal[at] === '\\') at += 1;
        item += literal[at];
      }
      items.push(item);
      at += 2;
    } else {
      const end = literal.indexOf(',', at);
      const stop = end === -1 ? literal.length - 1 : end;
      items.push(literal.slice(at, stop));
      at = stop + 1;
    }
  }
  return items;
}

/** One value as text for Postgres; null stays null. A flight takes nothing else (architecture.md, pg in pipeline mode). */
export function encodeValue(type: ColumnType, value: unknown): string | null {
  if (value === null || value === undefined) return null;
  switch (type) {
    case 'text':
      return value as string;
    case 'int8':
    case 'int4':
      return (value as bigint | number).toString();
    case 'bool':
      return value === true ? 't' : 'f';
    case 'bytea':
      return `\\x${hex(value as Uint8Array)}`;
    case 'text[]':
      return arrayLiteral('text', value as readonly string[]);
    case 'int4[]':
      return arrayLiteral('int4', value as readonly number[]);
    case 'bytea[]':
      return arrayLiteral('bytea', value as readonly Uint8Array[]);
  }
}

/** One parameter that carries a column of many rows. Arrays in arrays travel as texts, whose rows are cast one by one. */
export function encodeArray(type: ColumnType, values: readonly unknown[]): Buffer {
  if (isElementType(type)) return binaryArray(type, values);
  return binaryArray(
    'text',
    values.map((value) => encodeValue(type, value)),
  );
}

function arrayLiteral(type: 'text' | 'int4' | 'bytea', values: readonly unknown[]): string {
  const quoted = type !== 'int4';
  let literal = '{';
  for (let i = 0; i < values.length; i += 1) {
    if (i > 0) literal += ',';
    const text = encodeValue(type, values[i]);
    if (text === null) literal += 'NULL';
    else literal += quoted ? `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"` : text;
  }
  return `${literal}}`;
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}

/** A column of a row that travels as one value. */
interface FoundColumn {
  readonly field: string;
  readonly parse: ((text: string) => unknown) | undefined;
}

const FOUND_COLUMNS: ReadonlyMap<TableName, readonly FoundColumn[]> = new Map(
  (Object.keys(TABLES) as TableName[]).map((table) => [
    table,
    Object.entries(TABLES[table].columns as Readonly<Record<string, ColumnType>>).map(([field, type]) => ({
      field,
      parse: parserOfType(type),
    })),
  ]),
);

/** A row of a table that came as one value (`foundRow`). */
export function decodeFound<T extends TableName>(table: T, text: string): Tables[T] {
  const columns = FOUND_COLUMNS.get(table) ?? [];
  const values = parseRecord(text);
  const row: Record<string, unknown> = {};
  for (let i = 0; i < columns.length; i += 1) {
    const { field, parse } = columns[i] as FoundColumn;
    const value = values[i] as string | null;
    row[field] = value === null || parse === undefined ? value : parse(value);
  }
  return row as unknown as Tables[T];
}

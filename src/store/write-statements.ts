import { KEY_FIELDS, type TableName } from '../ledger/tables.js';
import type { ChangeLog, RowChange } from '../ledger/working-set.js';
import type { Micros } from '../ledger/types.js';
import type { Statement, Value } from './connection.js';
import { counted } from './counted.js';
import { domainStatements } from './domain-statements.js';
import { pgType } from './gather-planner.js';
import { encodeArray, encodeValue } from './row-codec.js';
import type { ColumnType } from './table-spec.js';
import { columnName, TABLES } from './tables.js';

/** Rows of unknown type, since the statements are built from the descriptions. */
type AnyRow = Readonly<Record<string, unknown>>;

interface AnySpec {
  readonly name: string;
  readonly columns: Readonly<Record<string, ColumnType>>;
  readonly mutable: readonly string[];
  readonly guards?: readonly string[];
  readonly comesFirst?: true;
}

/** The change log as a few bulk statements, each row named once, one row as plain values; updates, which may free a key, before inserts; tombstones before all. */
export function writeStatements(domainId: string, changes: ChangeLog): Statement[] {
  const byTable = new Map<TableName, RowChange[]>();
  for (const change of changes.rows) {
    const list = byTable.get(change.table);
    if (list) list.push(change);
    else byTable.set(change.table, [change]);
  }
  const first: Statement[] = [];
  const deletes: Statement[] = [];
  const updates: Statement[] = [];
  const inserts: Statement[] = [];
  for (const [table, rows] of byTable) {
    const gone = rows.filter((row) => row.after === undefined).map((row) => row.before as unknown as AnyRow);
    const changed = rows.filter((row) => row.before !== undefined && row.after !== undefined);
    const fresh = rows.filter((row) => row.before === undefined && row.after !== undefined);
    if (gone.length > 0) deletes.push(deleteStatement(domainId, table, gone));
    if (changed.length > 0) updates.push(updateStatement(domainId, table, changed));
    if (fresh.length > 0) {
      const spec = TABLES[table] as unknown as AnySpec;
      (spec.comesFirst === true ? first : inserts).push(
        insertStatement(
          domainId,
          table,
          fresh.map((row) => row.after as unknown as AnyRow),
        ),
      );
    }
  }
  return [...first, ...deletes, ...updates, ...inserts, ...domainStatements(domainId, changes)];
}

const texts = new Map<string, string>();

function cachedText(key: string, build: () => string): string {
  let text = texts.get(key);
  if (text === undefined) texts.set(key, (text = build()));
  return text;
}

/** An array column cannot be unnested as one: its literals travel as text and are cast row by row. */
function arrayType(type: ColumnType): string {
  return type.endsWith('[]') ? 'text' : pgType(type);
}

function cast(type: ColumnType, expression: string): string {
  return type.endsWith('[]') ? `${expression}::${type === 'int4[]' ? 'integer[]' : type}` : expression;
}

function column(type: ColumnType, rows: readonly AnyRow[], field: string): Value {
  return encodeArray(
    type,
    rows.map((row) => row[field]),
  );
}

/** One value of each column: what a lone call writes is not worth an array for each. */
function values(spec: AnySpec, fields: readonly string[], row: AnyRow): (string | null)[] {
  return fields.map((field) => encodeValue(spec.columns[field] as ColumnType, row[field]));
}

function insertOne(domainId: string, table: TableName, row: AnyRow): Statement {
  const spec = TABLES[table] as unknown as AnySpec;
  const fields = Object.keys(spec.columns);
  const text = cachedText(`insert one ${table}`, () => {
    const places = fields.map((_, i) => `$${i + 2}`);
    return `INSERT INTO ${spec.name} (domain_id, ${fields.map(columnName).join(', ')}) VALUES ($1, ${places.join(', ')})`;
  });
  return { name: `insert_${table}_one`, text, values: [domainId, ...values(spec, fields, row)] };
}

function updateOne(domainId: string, table: TableName, change: RowChange): Statement {
  const spec = TABLES[table] as unknown as AnySpec;
  const keys = KEY_FIELDS[table] as readonly string[];
  const guards = spec.guards ?? [];
  const text = cachedText(`update one ${table}`, () => {
    const columns = keys.map(columnName);
    const place = new Map(columns.map((column, i) => [column, `$${i + 2}`]));
    const match = guards.map((field, i) => ` AND ${columnName(field)} = $${i + 2 + keys.length}`).join('');
    const first = 2 + keys.length + guards.length;
    const sets = spec.mutable.map((field, i) => `${columnName(field)} = $${i + first}`);
    const where = placeOf(spec.name, columns, (column) => place.get(column) as string, match);
    return counted(`UPDATE ${spec.name} SET ${sets.join(', ')} WHERE ctid = (${where})`, '1');
  });
  const before = change.before as unknown as AnyRow;
  const old = values(spec, [...keys, ...guards], before);
  const fresh = values(spec, spec.mutable, change.after as unknown as AnyRow);
  return { name: `update_${table}_one`, text, values: [domainId, ...old, ...fresh] };
}

function deleteOne(domainId: string, table: TableName, row: AnyRow): Statement {
  const spec = TABLES[table] as unknown as AnySpec;
  const keys = KEY_FIELDS[table] as readonly string[];
  const text = cachedText(`delete one ${table}`, () => {
    const columns = keys.map(columnName);
    const place = new Map(columns.map((column, i) => [column, `$${i + 2}`]));
    const where = placeOf(spec.name, columns, (column) => place.get(column) as string);
    return counted(`DELETE FROM ${spec.name} WHERE ctid = (${where})`, '1');
  });
  return { name: `delete_${table}_one`, text, values: [domainId, ...values(spec, keys, row)] };
}

function insertStatement(domainId: string, table: TableName, rows: readonly AnyRow[]): Statement {
  if (rows.length === 1) return insertOne(domainId, table, rows[0] as AnyRow);
  const spec = TABLES[table] as unknown as AnySpec;
  const fields = Object.keys(spec.columns);
  const text = cachedText(`insert ${table}`, () => {
    const columns = fields.map(columnName);
    const arrays = fields.map((field, i) => `$${i + 2}::${arrayType(spec.columns[field] as ColumnType)}[]`);
    const values = fields.map((field) => cast(spec.columns[field] as ColumnType, `r.${columnName(field)}`));
    return (
      `INSERT INTO ${spec.name} (domain_id, ${columns.join(', ')}) SELECT $1, ${values.join(', ')} ` +
      `FROM unnest(${arrays.join(', ')}) AS r(${columns.join(', ')})`
    );
  });
  const columns = fields.map((field) => column(spec.columns[field] as ColumnType, rows, field));
  return { name: `insert_${table}`, text, values: [domainId, ...columns] };
}

function updateStatement(domainId: string, table: TableName, changes: readonly RowChange[]): Statement {
  const spec = TABLES[table] as unknown as AnySpec;
  if (spec.mutable.length === 0) throw new Error(`${table} is never updated`);
  if (changes.length === 1) return updateOne(domainId, table, changes[0] as RowChange);
  const keys = KEY_FIELDS[table] as readonly string[];
  const guards = spec.guards ?? [];
  const text = cachedText(`update ${table}`, () => {
    const inputs = [
      ...keys.map((field) => ({ field, name: `key_${columnName(field)}` })),
      ...guards.map((field) => ({ field, name: `old_${columnName(field)}` })),
      ...spec.mutable.map((field) => ({ field, name: `new_${columnName(field)}` })),
    ];
    const arrays = inputs.map(
      ({ field }, i) => `$${i + 3}::${arrayType(spec.columns[field] as ColumnType)}[]`,
    );
    const sets = spec.mutable.map(
      (field) =>
        `${columnName(field)} = ${cast(spec.columns[field] as ColumnType, `r.new_${columnName(field)}`)}`,
    );
    const match = guards.map((field) => ` AND ${columnName(field)} = r.old_${columnName(field)}`).join('');
    const columns = keys.map(columnName);
    return counted(
      `UPDATE ${spec.name} AS t SET ${sets.join(', ')} FROM unnest(${arrays.join(', ')}) ` +
        `AS r(${inputs.map(({ name }) => name).join(', ')}) ` +
        `CROSS JOIN LATERAL (${placeOf(spec.name, columns, (column) => `r.key_${column}`, match)}) AS k ` +
        'WHERE t.ctid = k.ctid',
      '$2',
    );
  });
  const before = changes.map((change) => change.before as unknown as AnyRow);
  const after = changes.map((change) => change.after as unknown as AnyRow);
  const inputs = [
    ...keys.map((field) => column(spec.columns[field] as ColumnType, before, field)),
    ...guards.map((field) => column(spec.columns[field] as ColumnType, before, field)),
    ...spec.mutable.map((field) => column(spec.columns[field] as ColumnType, after, field)),
  ];
  return { name: `update_${table}`, text, values: [domainId, String(changes.length), ...inputs] };
}

/**
 * Where a row lies, by its key, the last column as a range of one value and in order: joined by equality, a statement that
 * was planned while the table was empty reads every row of the domain, for as long as its plan is kept.
 *
 * @param keyOf where the key's value for a column comes from
 * @param guards what must still hold of it besides, each with its AND
 */
function placeOf(
  table: string,
  columns: readonly string[],
  keyOf: (column: string) => string,
  guards = '',
): string {
  const last = columns.at(-1) as string;
  const match = [
    ...columns.slice(0, -1).map((column) => `${column} = ${keyOf(column)}`),
    `${last} >= ${keyOf(last)} AND ${last} <= ${keyOf(last)}`,
  ].join(' AND ');
  return `SELECT ctid FROM ${table} WHERE domain_id = $1 AND ${match}${guards} ORDER BY ${last} LIMIT 1`;
}

function deleteStatement(domainId: string, table: TableName, rows: readonly AnyRow[]): Statement {
  const spec = TABLES[table] as unknown as AnySpec;
  const keys = KEY_FIELDS[table] as readonly string[];
  if (rows.length === 1) return deleteOne(domainId, table, rows[0] as AnyRow);
  const text = cachedText(`delete ${table}`, () => {
    const arrays = keys.map((field, i) => `$${i + 3}::${arrayType(spec.columns[field] as ColumnType)}[]`);
    const columns = keys.map(columnName);
    return counted(
      `DELETE FROM ${spec.name} AS t USING unnest(${arrays.join(', ')}) AS r(${columns.join(', ')}) ` +
        `CROSS JOIN LATERAL (${placeOf(spec.name, columns, (column) => `r.${column}`)}) AS k WHERE t.ctid = k.ctid`,
      '$2',
    );
  });
  const inputs = keys.map((field) => column(spec.columns[field] as ColumnType, rows, field));
  return { name: `delete_${table}`, text, values: [domainId, String(rows.length), ...inputs] };
}

/** The lane's own row: what a lost answer to COMMIT is settled by. */
export function laneStatement(domainId: string, laneId: string, batch: bigint, now: Micros): Statement {
  return {
    name: 'put_lane',
    text: `INSERT INTO lanes (domain_id, lane_id, last_batch, updated_at) VALUES ($1, $2, $3, $4)
      ON CONFLICT (domain_id, lane_id) DO UPDATE SET last_batch = excluded.last_batch, updated_at = excluded.updated_at`,
    values: [domainId, laneId, encodeValue('int8', batch), encodeValue('int8', now)],
  };
}

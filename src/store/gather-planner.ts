import { INDEXES, type IndexName, type IndexTable } from '../ledger/indexes.js';
import type { Reads } from '../ledger/reads.js';
import { KEY_FIELDS, keyText, type KeyPart, type TableName, type Tables } from '../ledger/tables.js';
import type { WorkingSet } from '../ledger/working-set.js';
import type { Answer, Statement, Value } from './connection.js';
import { encodeArray, fieldsOf, parserOfType } from './row-codec.js';
import { loadStatements } from './sql-files.js';
import type { ColumnType } from './table-spec.js';
import { columnName, TABLES } from './tables.js';

const JOINED = new Map([
  ...loadStatements('./sql/gather.sql'),
  ...loadStatements('./sql/gather-actions.sql'),
]);

/** One statement of the gather flight and what becomes of its rows. */
interface GatherStep {
  readonly statement: Statement;
  readonly load: (set: WorkingSet, rows: readonly Record<string, unknown>[]) => void;
}

/** The statements that read what a batch needs, and how their answers become a working set. */
export interface GatherPlan {
  readonly statements: readonly Statement[];
  /** @param answers one per statement, in order */
  fill(set: WorkingSet, answers: readonly Answer[]): void;
}

/** Collects the statements of a batch and what becomes of their rows. */
export class Planner implements GatherPlan {
  private readonly steps: GatherStep[] = [];
  private readonly marks: ((set: WorkingSet) => void)[] = [];

  constructor(
    private readonly domainId: string,
    private readonly all: readonly Reads[],
  ) {}

  get statements(): readonly Statement[] {
    return this.steps.map((step) => step.statement);
  }

  fill(set: WorkingSet, answers: readonly Answer[]): void {
    for (const [i, step] of this.steps.entries()) step.load(set, answers[i]?.rows ?? []);
    for (const mark of this.marks) mark(set);
  }

  /** The distinct keys that the batch names for a kind of read. */
  keys<Name extends keyof Reads>(name: Name): readonly NonNullable<Reads[Name]>[number][] {
    const distinct = new Map<string, NonNullable<Reads[Name]>[number]>();
    for (const reads of this.all) {
      for (const key of (reads[name] ?? []) as readonly NonNullable<Reads[Name]>[number][]) {
        distinct.set(keyOf(key), key);
      }
    }
    return [...distinct.values()];
  }

  /** How often the batch names a kind of read, whatever the keys. */
  count(name: keyof Reads): number {
    return this.all.reduce((sum, reads) => sum + (reads[name]?.length ?? 0), 0);
  }

  /** Rows of a table by its own key. */
  byKey(table: TableName, keys: readonly (readonly KeyPart[])[]): void {
    if (keys.length === 0) return;
    const spec = TABLES[table] as { columns: Record<string, ColumnType> };
    const types = (KEY_FIELDS[table] as readonly string[]).map((field) => spec.columns[field] as ColumnType);
    this.step(
      { name: `gather_${table}`, text: byKeyText(table), fields: fieldsOf(table) },
      types.map((type, i) =>
        encodeArray(
          type,
          keys.map((key) => key[i]),
        ),
      ),
      (set, rows) => loadRows(set, table, rows),
    );
    this.mark((set) => {
      for (const key of keys) set.markKey(table, key);
    });
  }

  /** Rows of a table by a joined statement. */
  joined(name: string, table: TableName, values: readonly Value[]): void {
    const statement = { ...joinedStatement(name), fields: fieldsOf(table) };
    this.step(statement, values, (set, rows) => loadRows(set, table, rows));
  }

  /** Rows of several tables by one statement of `{alias AS table}` in the order of `found`; what it did not find is null. */
  joinedTables(name: string, found: readonly Found[], values: readonly Value[]): void {
    this.step({ ...joinedStatement(name), raw: true }, values, (set, rows) => {
      const texts = rows as unknown as readonly (readonly (string | null)[])[];
      for (const part of partsOf(name, found)) loadParts(set, part, texts);
    });
  }

  /** Rows that stand under an index, by a joined statement. */
  indexed<I extends IndexName>(name: string, index: I, values: readonly Value[]): void {
    const statement = { ...joinedStatement(name), fields: fieldsOf(INDEXES[index].table) };
    this.step(statement, values, (set, rows) => {
      for (const row of rows) loadUnder(set, index, row as unknown as Tables[IndexTable<I>]);
    });
  }

  step(statement: Statement, values: readonly Value[], load: GatherStep['load']): void {
    this.steps.push({ statement: { ...statement, values: [this.domainId, ...values] }, load });
  }

  /** Says afterwards what was asked for, so that "absent" is known. */
  mark(mark: (set: WorkingSet) => void): void {
    this.marks.push(mark);
  }
}

/** Rows of a table in a statement that reads several, or rows that stand under an index. */
type Found = TableName | { readonly under: IndexName };

/** One table's columns in a statement that reads several. */
interface Part {
  readonly table: TableName;
  readonly under: IndexName | undefined;
  /** Where its first column stands. */
  readonly start: number;
  readonly columns: readonly {
    readonly field: string;
    readonly parse: ((text: string) => unknown) | undefined;
  }[];
  /** Which of them are its key. */
  readonly keys: readonly number[];
}

const partsByStatement = new Map<string, readonly Part[]>();

/** What `{alias AS table}` of the tables, in this order, comes to in a statement. */
function partsOf(statement: string, found: readonly Found[]): readonly Part[] {
  let parts = partsByStatement.get(statement);
  if (!parts) partsByStatement.set(statement, (parts = describeParts(found)));
  return parts;
}

function describeParts(found: readonly Found[]): Part[] {
  let next = 0;
  return found.map((each) => {
    const under = typeof each === 'string' ? undefined : each.under;
    const table = typeof each === 'string' ? each : INDEXES[each.under].table;
    const types = TABLES[table].columns as Readonly<Record<string, ColumnType>>;
    const fields = Object.keys(types);
    const start = next;
    next += fields.length;
    return {
      table,
      under,
      start,
      columns: fields.map((field) => ({ field, parse: parserOfType(types[field] as ColumnType) })),
      keys: (KEY_FIELDS[table] as readonly string[]).map((field) => fields.indexOf(field)),
    };
  });
}

/** Rows of which each holds one of several tables. Many hold the same ones, which are decoded once. */
function loadParts(set: WorkingSet, part: Part, rows: readonly (readonly (string | null)[])[]): void {
  const { table, under, start, columns, keys } = part;
  const known = new Set<string>();
  for (const raw of rows) {
    const [first] = keys as readonly [number];
    if (raw[start + first] === null) continue;
    const key =
      keys.length === 1 ? (raw[start + first] as string) : keys.map((at) => raw[start + at]).join('\0');
    if (known.has(key)) continue;
    known.add(key);
    const row: Record<string, unknown> = {};
    for (let i = 0; i < columns.length; i += 1) {
      const { field, parse } = columns[i] as Part['columns'][number];
      const text = raw[start + i] as string | null;
      row[field] = text === null || parse === undefined ? text : parse(text);
    }
    const loaded = row as unknown as Tables[typeof table];
    if (under === undefined) set.loadRow(table, loaded);
    else loadUnder(set, under, loaded);
  }
}

/** A row that an index may be about. */
function loadUnder(set: WorkingSet, name: IndexName, row: Tables[TableName]): void {
  const key = (INDEXES[name].keyOf as (row: Tables[TableName]) => string | undefined)(row);
  if (key !== undefined) set.loadIndexed(name, [key], row as Tables[IndexTable<typeof name>]);
}

/** Rows of a statement whose `fields` are the table's. */
function loadRows(set: WorkingSet, table: TableName, rows: readonly Record<string, unknown>[]): void {
  for (const row of rows) set.loadRow(table, row as unknown as Tables[typeof table]);
}

export function joinedStatement(name: string): Statement {
  const text = JOINED.get(name);
  if (text === undefined) throw new Error(`no gather statement ${name}`);
  return { name: `gather_${name}`, text };
}

const byKeyTexts = new Map<TableName, string>();

/** The statement that reads rows of a table by their keys. */
export function byKeyText(table: TableName): string {
  let text = byKeyTexts.get(table);
  if (text === undefined) {
    const spec = TABLES[table] as { columns: Record<string, ColumnType> };
    const fields = KEY_FIELDS[table] as readonly string[];
    const arrays = fields.map((field, i) => `$${i + 2}::${pgType(spec.columns[field] as ColumnType)}[]`);
    const columns = fields.map(columnName);
    // The last column as a range of one value, in order: a plan that is made while the table is empty would else take any
    // index that begins with the domain, since all of them cost the same then.
    const last = columns.at(-1) as string;
    const match = [
      ...columns.slice(0, -1).map((column) => `${column} = k.${column}`),
      `${last} >= k.${last} AND ${last} <= k.${last} ORDER BY ${last}`,
    ].join(' AND ');
    text =
      `SELECT t.* FROM unnest(${arrays.join(', ')}) AS k(${columns.join(', ')}) ` +
      `CROSS JOIN LATERAL (SELECT * FROM ${table} WHERE domain_id = $1 AND ${match} LIMIT 1) AS t`;
    byKeyTexts.set(table, text);
  }
  return text;
}

/** The name of a scalar column type in a cast. */
export function pgType(type: ColumnType): string {
  return type === 'int8' ? 'bigint' : type === 'int4' ? 'integer' : type === 'bool' ? 'boolean' : type;
}

function keyOf(key: unknown): string {
  if (typeof key === 'string') return key;
  if (typeof key === 'bigint') return keyText([key]);
  if (key instanceof Uint8Array) return keyText([key]);
  return keyText(Object.values(key as Record<string, KeyPart | readonly string[] | null>).map(partText));
}

/** Absence, emptiness and lists differ; neither separator occurs in a key's text. */
function partText(part: KeyPart | readonly string[] | null): KeyPart {
  if (part === null) return '\x01';
  return Array.isArray(part) ? part.map((item) => `${item}\x02`).join('') : (part as KeyPart);
}

export function single(keys: readonly KeyPart[]): (readonly KeyPart[])[] {
  return keys.map((key) => [key]);
}

export function texts(keys: readonly string[]): Value {
  return encodeArray('text', keys);
}

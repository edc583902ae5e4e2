import { INDEXES, type IndexName, type IndexTable } from '../ledger/indexes.js';
import type { Reads } from '../ledger/reads.js';
import { KEY_FIELDS, keyText, type KeyPart, type TableName, type Tables } from '../ledger/tables.js';
import type { WorkingSet } from '../ledger/working-set.js';
import type { Answer, Statement, Value } from './connection.js';
import { decodeFound, encodeArray } from './row-codec.js';
import { foundRow, loadStatements } from './sql-files.js';
import type { ColumnType } from './table-spec.js';
import { columnName, TABLES } from './tables.js';

const JOINED = new Map([
  ...loadStatements('./sql/gather.sql'),
  ...loadStatements('./sql/gather-actions.sql'),
]);

/** One statement of the gather flight and what becomes of its rows. */
interface GatherStep {
  readonly statement: Statement;
  readonly load: (set: WorkingSet, rows: Answer['rows']) => void;
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
    const values = types.map((type, i) =>
      encodeArray(
        type,
        keys.map((key) => key[i]),
      ),
    );
    this.found({ name: `gather_${table}`, text: byKeyText(table) }, [table], values);
    this.mark((set) => {
      for (const key of keys) set.markKey(table, key);
    });
  }

  /** Rows of a table by a joined statement. */
  joined(name: string, table: TableName, values: readonly Value[]): void {
    this.found(joinedStatement(name), [table], values);
  }

  /** Rows of several tables by one joined statement, in the order of `found`; what it did not find is null. */
  joinedTables(name: string, found: readonly Found[], values: readonly Value[]): void {
    this.found(joinedStatement(name), found, values);
  }

  /** Rows that stand under an index, by a joined statement. */
  indexed<I extends IndexName>(name: string, index: I, values: readonly Value[]): void {
    this.found(joinedStatement(name), [{ under: index }], values);
  }

  private found(statement: Statement, found: readonly Found[], values: readonly Value[]): void {
    this.step({ ...statement, raw: true }, values, (set, rows) => {
      const texts = rows as unknown as readonly (readonly (string | null)[])[];
      for (const [at, each] of found.entries()) loadFound(set, each, at, texts);
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

/** Rows of a table, or rows that stand under an index. */
type Found = TableName | { readonly under: IndexName };

/**
 * The rows of one column. Many may hold the same one, which is decoded once.
 *
 * @param at the column
 */
function loadFound(
  set: WorkingSet,
  found: Found,
  at: number,
  rows: readonly (readonly (string | null)[])[],
): void {
  const under = typeof found === 'string' ? undefined : found.under;
  const table = typeof found === 'string' ? found : INDEXES[found.under].table;
  const known = new Set<string>();
  for (const columns of rows) {
    const text = columns[at] as string | null;
    if (text === null || known.has(text)) continue;
    known.add(text);
    const row = decodeFound(table, text);
    if (under === undefined) set.loadRow(table, row);
    else loadUnder(set, under, row);
  }
}

/** A row that an index may be about. */
function loadUnder(set: WorkingSet, name: IndexName, row: Tables[TableName]): void {
  const key = (INDEXES[name].keyOf as (row: Tables[TableName]) => string | undefined)(row);
  if (key !== undefined) set.loadIndexed(name, [key], row as Tables[IndexTable<typeof name>]);
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
      `SELECT t.found FROM unnest(${arrays.join(', ')}) AS k(${columns.join(', ')}) ` +
      `CROSS JOIN LATERAL (SELECT ${foundRow(table)} AS found FROM ${table} WHERE domain_id = $1 AND ${match} LIMIT 1) AS t`;
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

import type { IndexName, IndexTable } from '../../src/ledger/indexes.js';
import type { KeyPart, TableName, Tables } from '../../src/ledger/tables.js';
import type { WorkingSet } from '../../src/ledger/working-set.js';
import type { MemoryStore } from './memory-store.js';

/** How rows come from the store in memory into a working set. */

/** Loads a row by its key, or notes its absence. */
export function load<T extends TableName>(
  store: MemoryStore,
  set: WorkingSet,
  table: T,
  ...parts: readonly KeyPart[]
): Tables[T] | undefined {
  const row = store.get(table, ...parts);
  if (row) set.loadRow(table, row);
  set.markKey(table, parts);
  return row;
}

/** Loads the rows under an index key; `choose` keeps those that a limit leaves. */
export function loadIndex<I extends IndexName>(
  store: MemoryStore,
  set: WorkingSet,
  name: I,
  parts: readonly KeyPart[],
  choose: (rows: Tables[IndexTable<I>][]) => Tables[IndexTable<I>][] = (rows) => rows,
): Tables[IndexTable<I>][] {
  const rows = choose(store.find(name, ...parts));
  set.markIndex(name, parts);
  for (const row of rows) set.loadIndexed(name, parts, row);
  return rows;
}

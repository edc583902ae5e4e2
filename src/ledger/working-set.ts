import type { DomainCounters, Shares } from './admission/records.js';
import type { AuditCodec, AuditDraft, AuditRow, DomainHead } from './audit/records.js';
import { chainHash, leafHash } from './audit/chain.js';
import type { DomainRow, OperatorRow } from './authority/records.js';
import { INDEXES, INDEXES_OF, type IndexName, type IndexTable } from './indexes.js';
import { keyText, type KeyPart, rowKey, type TableName, type Tables } from './tables.js';
import type { Digest, Micros } from './types.js';

/** A decision looked at something that its `reads` did not name: a bug, never "absent". */
export class NotGatheredError extends Error {
  constructor(what: string) {
    super(`not gathered: ${what}`);
    this.name = 'NotGatheredError';
  }
}

/** What the store says of itself, read with the clock. */
export interface StoreFacts {
  /** Raised by `surety restore`; part of every fence and proof. */
  readonly incarnation: bigint;
  /** The service's SPIFFE ID: what signed statements name as their audience. */
  readonly audience: string;
  /** The service's own domain. */
  readonly serviceDomainId: string;
}

interface Cell<Row> {
  readonly original: Row | undefined;
  current: Row | undefined;
}

/** A row that a batch changed. `before` undefined: inserted; `after` undefined: deleted. */
export interface RowChange<T extends TableName = TableName> {
  readonly table: T;
  readonly before: Tables[T] | undefined;
  readonly after: Tables[T] | undefined;
}

/** Everything that a batch changed, each row named once. */
export interface ChangeLog {
  readonly rows: readonly RowChange[];
  readonly head: DomainHead | undefined;
  readonly domain: DomainRow | undefined;
  /** Domains that were made (only in the service's own domain). */
  readonly createdDomains: readonly { readonly domainId: string; readonly row: DomainRow }[];
  /** The service's limit, in requests per minute (only in the service's own domain). */
  readonly serviceLimit: number | undefined;
}

/**
 * The rows that one batch read, and what its decisions made of them (architecture.md, Gather and Decide). "Absent" and
 * "not gathered" differ: reading the latter throws.
 */
export class WorkingSet {
  readonly domainId: string;
  readonly facts: StoreFacts;
  readonly codec: AuditCodec;
  /** The store's clock, never going back. */
  readonly now: Micros;
  readonly originalHead: DomainHead;
  readonly originalDomain: DomainRow;
  head: DomainHead;
  domain: DomainRow;
  readonly createdDomains = new Map<string, DomainRow>();
  /** The service's limit, where it was changed. */
  serviceLimit: number | undefined;
  private gatheredShares: Shares | undefined;
  private readonly cells = new Map<TableName, Map<string, Cell<Tables[TableName]>>>();
  private readonly indexed = new Map<IndexName, Map<string, Set<string>>>();
  private readonly platformOperators = new Map<string, OperatorRow | undefined>();
  private readonly otherDomains = new Map<string, boolean>();

  constructor(input: {
    domainId: string;
    facts: StoreFacts;
    codec: AuditCodec;
    now: Micros;
    head: DomainHead;
    domain: DomainRow;
  }) {
    this.domainId = input.domainId;
    this.facts = input.facts;
    this.codec = input.codec;
    this.now = input.now;
    this.originalHead = this.head = input.head;
    this.originalDomain = this.domain = input.domain;
  }

  /** Gather: a row was read. A row that was read twice stays the first: both are of one transaction under the lock. */
  loadRow<T extends TableName>(table: T, row: Tables[T]): void {
    const cells = this.table(table);
    const key = rowKey(table, row);
    if (cells.get(key)?.original === undefined) cells.set(key, { original: row, current: row });
  }

  /** Gather: this key was asked for; where no row came, the row is absent. */
  markKey(table: TableName, parts: readonly KeyPart[]): void {
    const cells = this.table(table);
    const key = keyText(parts);
    if (!cells.has(key)) cells.set(key, { original: undefined, current: undefined });
  }

  /** Gather: this index key was asked for; rows found under it are added by `loadIndexed`. */
  markIndex(name: IndexName, parts: readonly KeyPart[]): void {
    this.indexKeys(name, keyText(parts), true);
  }

  /** Gather: a row was found under an index key. */
  loadIndexed<I extends IndexName>(name: I, parts: readonly KeyPart[], row: Tables[IndexTable<I>]): void {
    this.loadRow(INDEXES[name].table, row);
    this.indexKeys(name, keyText(parts), true).add(rowKey(INDEXES[name].table, row));
  }

  /** Gather: an operator of the service's own domain. */
  loadPlatformOperator(spiffeId: string, row: OperatorRow | undefined): void {
    this.platformOperators.set(spiffeId, row);
  }

  /** Gather: whether another domain exists. */
  loadOtherDomain(domainId: string, exists: boolean): void {
    this.otherDomains.set(domainId, exists);
  }

  /** Gather: the service's limit and the shares of the other domains. */
  loadShares(shares: Shares): void {
    this.gatheredShares = shares;
  }

  /** A row by its key, undefined where it is absent. Throws `NotGatheredError` where it was not read. */
  get<T extends TableName>(table: T, ...parts: readonly KeyPart[]): Tables[T] | undefined {
    return this.getByText(table, keyText(parts));
  }

  getByText<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    const cell = this.table(table).get(key);
    if (!cell) throw new NotGatheredError(`${table} ${key.replaceAll('\0', '/')}`);
    return cell.current as Tables[T] | undefined;
  }

  /** The keys of the rows that stand, or stood at the gathering, under an index key. */
  candidateKeys(name: IndexName, parts: readonly KeyPart[]): ReadonlySet<string> {
    return this.candidateKeysByText(name, keyText(parts));
  }

  candidateKeysByText(name: IndexName, key: string): ReadonlySet<string> {
    return this.indexKeys(name, key, false);
  }

  hasIndexKey(name: IndexName, parts: readonly KeyPart[]): boolean {
    return this.indexed.get(name)?.has(keyText(parts)) === true;
  }

  platformOperator(spiffeId: string): OperatorRow | undefined {
    if (!this.platformOperators.has(spiffeId)) throw new NotGatheredError(`platform operator ${spiffeId}`);
    return this.platformOperators.get(spiffeId);
  }

  domainExists(domainId: string): boolean {
    if (domainId === this.domainId || this.createdDomains.has(domainId)) return true;
    const exists = this.otherDomains.get(domainId);
    if (exists === undefined) throw new NotGatheredError(`domain ${domainId}`);
    return exists;
  }

  get shares(): Shares {
    if (!this.gatheredShares) throw new NotGatheredError('shares');
    return this.gatheredShares;
  }

  /** Takes over what a decision wrote, whole. */
  apply(draft: Draft): void {
    for (const { name, parts } of draft.openedIndexes) this.markIndex(name, parts);
    for (const { table, key, row } of draft.writes()) {
      const cells = this.table(table);
      const cell = cells.get(key);
      if (cell) cell.current = row;
      else cells.set(key, { original: undefined, current: row });
      if (row) this.reindex(table, key, row);
    }
    this.head = draft.head;
    this.domain = draft.domain;
    for (const [domainId, row] of draft.createdDomains) this.createdDomains.set(domainId, row);
    this.serviceLimit = draft.serviceLimit;
  }

  /** What the batch changed. */
  changes(): ChangeLog {
    const rows: RowChange[] = [];
    for (const [table, cells] of this.cells) {
      for (const cell of cells.values()) {
        if (cell.original !== cell.current) rows.push({ table, before: cell.original, after: cell.current });
      }
    }
    return {
      rows,
      head: this.head === this.originalHead ? undefined : this.head,
      domain: this.domain === this.originalDomain ? undefined : this.domain,
      createdDomains: [...this.createdDomains].map(([domainId, row]) => ({ domainId, row })),
      serviceLimit: this.serviceLimit,
    };
  }

  private table(name: TableName): Map<string, Cell<Tables[TableName]>> {
    let cells = this.cells.get(name);
    if (!cells) this.cells.set(name, (cells = new Map()));
    return cells;
  }

  private indexKeys(name: IndexName, key: string, create: boolean): Set<string> {
    let byKey = this.indexed.get(name);
    if (!byKey) this.indexed.set(name, (byKey = new Map()));
    let keys = byKey.get(key);
    if (!keys) {
      if (!create) throw new NotGatheredError(`${name} ${key.replaceAll('\0', '/')}`);
      byKey.set(key, (keys = new Set()));
    }
    return keys;
  }

  /** A row enters the gathered index keys that it now stands under; who left is told apart on reading. */
  private reindex(table: TableName, key: string, row: Tables[TableName]): void {
    for (const name of INDEXES_OF.get(table) ?? []) {
      const byKey = this.indexed.get(name);
      if (byKey === undefined || byKey.size === 0) continue;
      const indexKey = (INDEXES[name].keyOf as (row: Tables[TableName]) => string | undefined)(row);
      if (indexKey !== undefined) byKey.get(indexKey)?.add(key);
    }
  }
}

/** Where an entry of the log stands. */
export interface AuditPosition {
  readonly seq: bigint;
  readonly leaf: Digest;
}

const FENCE_INCARNATION_SHIFT = 40n;

/** The incarnation in which a fence was given out (effects.md, Reserve 8). */
export function fenceIncarnation(fence: bigint): bigint {
  return fence >> FENCE_INCARNATION_SHIFT;
}

/**
 * What one decision reads and writes. Its writes become visible to the commands behind it only when the decision has
 * returned and was accepted, or refused with a record.
 */
export class Draft {
  head: DomainHead;
  domain: DomainRow;
  serviceLimit: number | undefined;
  readonly createdDomains = new Map<string, DomainRow>();
  readonly openedIndexes: { readonly name: IndexName; readonly parts: readonly KeyPart[] }[] = [];
  private readonly written = new Map<TableName, Map<string, Tables[TableName] | undefined>>();

  constructor(private readonly base: WorkingSet) {
    this.head = base.head;
    this.domain = base.domain;
    this.serviceLimit = base.serviceLimit;
  }

  get domainId(): string {
    return this.base.domainId;
  }
  get facts(): StoreFacts {
    return this.base.facts;
  }
  get now(): Micros {
    return this.base.now;
  }
  get codec(): AuditCodec {
    return this.base.codec;
  }

  /** A row by its key, undefined where it is absent. Throws `NotGatheredError` where it was not read. */
  get<T extends TableName>(table: T, ...parts: readonly KeyPart[]): Tables[T] | undefined {
    return this.getByText(table, keyText(parts));
  }

  /** The rows under an index key, in no particular order. */
  find<I extends IndexName>(name: I, ...parts: readonly KeyPart[]): Tables[IndexTable<I>][] {
    const { table, keyOf } = INDEXES[name];
    const wanted = keyText(parts);
    const standing = this.base.candidateKeysByText(name, wanted);
    const rows: Tables[IndexTable<I>][] = [];
    const take = (key: string): void => {
      const row = this.getByText(table, key) as Tables[IndexTable<I>] | undefined;
      if (row && (keyOf as (row: Tables[IndexTable<I>]) => string | undefined)(row) === wanted)
        rows.push(row);
    };
    for (const key of standing) take(key);
    for (const key of this.written.get(table)?.keys() ?? []) if (!standing.has(key)) take(key);
    return rows;
  }

  /**
   * Whether an index key was asked for: a row that came into the set by another way has not all that its own read brings.
   */
  isGathered(name: IndexName, ...parts: readonly KeyPart[]): boolean {
    return this.base.hasIndexKey(name, parts);
  }

  platformOperator(spiffeId: string): OperatorRow | undefined {
    return this.base.platformOperator(spiffeId);
  }

  domainExists(domainId: string): boolean {
    return this.createdDomains.has(domainId) || this.base.domainExists(domainId);
  }

  /** Inserts or replaces a row. */
  put<T extends TableName>(table: T, row: Tables[T]): void {
    this.writtenOf(table).set(rowKey(table, row), row);
  }

  /** Deletes a row. */
  remove<T extends TableName>(table: T, row: Tables[T]): void {
    this.writtenOf(table).set(rowKey(table, row), undefined);
  }

  /**
   * Says that nothing stands under an index key but what this decision writes, because the key is new: commands behind it
   * in the batch may then look there, though nobody gathered it.
   */
  openIndex(name: IndexName, ...parts: readonly KeyPart[]): void {
    this.openedIndexes.push({ name, parts });
  }

  /** The service's limit and the shares of the other domains. */
  get shares(): Shares {
    return this.base.shares;
  }

  /** @param limit requests per minute of all domains together */
  setServiceLimit(limit: number): void {
    this.serviceLimit = limit;
  }

  /** What the domain has let through, as of now. */
  setCounters(counters: DomainCounters): void {
    this.head = { ...this.head, counters, lastTime: this.now };
  }

  setDomain(row: DomainRow): void {
    this.domain = row;
  }

  createDomain(domainId: string, row: DomainRow): void {
    this.createdDomains.set(domainId, row);
  }

  /** A fresh fence: incarnation · 2^40 + the domain's counter (effects.md, Reserve 8). */
  nextFence(): bigint {
    const counter = this.head.fenceCounter + 1n;
    this.head = { ...this.head, fenceCounter: counter };
    return (this.facts.incarnation << FENCE_INCARNATION_SHIFT) + counter;
  }

  /** Appends one entry to the domain's log. */
  append(entry: AuditDraft): AuditPosition {
    const { seq, chainHash: previous, incarnation } = this.head;
    const fields = {
      ...entry,
      domainId: this.domainId,
      seq: seq + 1n,
      incarnation: this.facts.incarnation,
      time: this.now,
      ...(incarnation === this.facts.incarnation ? {} : { previousHead: previous }),
    };
    const bytes = this.codec.encode(fields);
    const leaf = leafHash(bytes);
    const chained = chainHash(previous, leaf);
    const row: AuditRow = {
      seq: fields.seq,
      entry: bytes,
      leafHash: leaf,
      chainHash: chained,
      effectId: entry.effect?.effectId ?? null,
      effectStep: entry.effect?.step ?? null,
    };
    this.put('audit_entries', row);
    this.head = {
      ...this.head,
      seq: fields.seq,
      chainHash: chained,
      incarnation: this.facts.incarnation,
      lastTime: this.now,
    };
    return { seq: fields.seq, leaf };
  }

  /** What was written, for `WorkingSet.apply`. */
  *writes(): Iterable<{ table: TableName; key: string; row: Tables[TableName] | undefined }> {
    for (const [table, rows] of this.written) {
      for (const [key, row] of rows) yield { table, key, row };
    }
  }

  private getByText<T extends TableName>(table: T, key: string): Tables[T] | undefined {
    const rows = this.written.get(table);
    if (rows?.has(key)) return rows.get(key) as Tables[T] | undefined;
    return this.base.getByText(table, key);
  }

  private writtenOf(table: TableName): Map<string, Tables[TableName] | undefined> {
    let rows = this.written.get(table);
    if (!rows) this.written.set(table, (rows = new Map()));
    return rows;
  }
}

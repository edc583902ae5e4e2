import type pg from 'pg';
import { GROWING_TABLES } from './life-rows.js';

/** What the server has counted of the tables that grow. */
export interface Counted {
  /** Blocks of tables and indexes that were looked at, found in memory or not. */
  readonly blocks: number;
  readonly seqScans: number;
  /** Entries that scans of indexes have returned. */
  readonly indexEntries: number;
}

/** Read behind all that was counted: a backend tells it when it ends. */
export async function counted(sql: pg.Client): Promise<Counted> {
  await sql.query('SELECT pg_stat_clear_snapshot()');
  const { rows } = await sql.query<Record<string, string>>(
    `SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit) AS blocks,
       (SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname = ANY ($1)) AS seq_scans,
       (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = ANY ($1)) AS index_entries
     FROM pg_statio_user_tables WHERE relname = ANY ($1)`,
    [GROWING_TABLES],
  );
  const [row = {}] = rows;
  return {
    blocks: Number(row['blocks']),
    seqScans: Number(row['seq_scans']),
    indexEntries: Number(row['index_entries']),
  };
}

const LARGEST = 8;

/** Bytes per effect of each table that grows, its indexes apart, and of the largest of these. */
export async function sizesPerEffect(sql: pg.Client, name: string): Promise<Record<string, number>> {
  const { rows } = await sql.query<{ what: string; bytes: string; kind: string }>(
    `SELECT c.relname AS what, c.relkind AS kind,
       CASE c.relkind WHEN 'r' THEN pg_table_size(c.oid) ELSE pg_relation_size(c.oid) END AS bytes
     FROM pg_class AS c LEFT JOIN pg_index AS i ON i.indexrelid = c.oid
     WHERE coalesce(i.indrelid, c.oid) = ANY ($1::text[]::regclass[]) ORDER BY bytes DESC`,
    [GROWING_TABLES],
  );
  const { rows: counts } = await sql.query<{ effects: string }>('SELECT count(*) AS effects FROM effects');
  const effects = Number(counts[0]?.effects);
  const each = (bytes: number): number => Math.round(bytes / effects);
  const sum = (kind: string): number =>
    rows.filter((row) => row.kind === kind).reduce((total, row) => total + Number(row.bytes), 0);
  const figures: Record<string, number> = {
    [`${name}, all tables: bytes per effect`]: each(sum('r')),
    [`${name}, all indexes: bytes per effect`]: each(sum('i')),
  };
  for (const kind of ['r', 'i']) {
    for (const { what, bytes } of rows.filter((row) => row.kind === kind).slice(0, LARGEST)) {
      figures[`${name}, ${what}: bytes per effect`] = each(Number(bytes));
    }
  }
  return figures;
}

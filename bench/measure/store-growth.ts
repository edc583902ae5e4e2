import type pg from 'pg';

/** Of what the store holds for the service; the benchmark's own baseline lies in another schema. */
const READ_SIZES = `SELECT pg_current_wal_flush_lsn()::text AS lsn,
    sum(pg_table_size(oid))::text AS tables, sum(pg_indexes_size(oid))::text AS indexes
  FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`;
/** Records with what belongs to them, and full page images, which are only written after a checkpoint. */
const READ_WAL = `SELECT coalesce(sum(record_size), 0)::text AS records, coalesce(sum(fpi_size), 0)::text AS images
  FROM pg_get_wal_stats($1::pg_lsn, $2::pg_lsn)`;

interface Sizes {
  readonly lsn: string;
  readonly tables: string;
  readonly indexes: string;
}

interface Sum {
  calls: number;
  records: number;
  images: number;
  tables: number;
  indexes: number;
}

/** What one call leaves in the store and in its log, in bytes: what a disk and a standby's line are sized by. */
export class StoreGrowth {
  private readonly sums = new Map<string, Sum>();
  private canReadWal: Promise<unknown> | undefined;

  /** @param sql a superuser's connection */
  constructor(private readonly sql: pg.Client) {}

  /** Runs a round and adds up what it wrote; whatever else writes meanwhile is in it. @param call what was called */
  async during<Result extends { readonly calls: number }>(
    call: string,
    round: () => Promise<Result>,
  ): Promise<Result> {
    this.canReadWal ??= this.sql.query('CREATE EXTENSION IF NOT EXISTS pg_walinspect');
    await this.canReadWal;
    const before = await this.sizes();
    const result = await round();
    const after = await this.sizes();
    const { rows } = await this.sql.query<{ records: string; images: string }>(READ_WAL, [
      before.lsn,
      after.lsn,
    ]);
    const sum = this.sums.get(call) ?? { calls: 0, records: 0, images: 0, tables: 0, indexes: 0 };
    this.sums.set(call, sum);
    sum.calls += result.calls;
    sum.records += Number(rows[0]?.records);
    sum.images += Number(rows[0]?.images);
    sum.tables += Number(after.tables) - Number(before.tables);
    sum.indexes += Number(after.indexes) - Number(before.indexes);
    return result;
  }

  /** Bytes per call since the last time. */
  take(): Readonly<Record<string, number>> {
    const figures: Record<string, number> = {};
    for (const [call, { calls, records, images, tables, indexes }] of this.sums) {
      if (calls === 0) continue;
      const each = (bytes: number): number => Math.round(bytes / calls);
      figures[`${call}: bytes of WAL without full page images`] = each(records);
      figures[`${call}: bytes of full page images`] = each(images);
      figures[`${call}: bytes stored in tables`] = each(tables);
      figures[`${call}: bytes stored in indexes`] = each(indexes);
    }
    this.sums.clear();
    return figures;
  }

  private async sizes(): Promise<Sizes> {
    const { rows } = await this.sql.query<Sizes>(READ_SIZES);
    return rows[0] as Sizes;
  }
}

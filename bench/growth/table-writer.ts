import pg from 'pg';
import type { ByteTemplate } from './byte-template.js';
import { CopyIn } from './copy-in.js';
import { type StoredIndex, storedIndexes } from './stored-indexes.js';

const CHUNK_BYTES = 1_048_576;
/** Longer than any row. */
const ROOM_BYTES = 16_384;
/** A load is not to be ended by what holds a caller's statement short. */
const SETTINGS = `SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;
  SET maintenance_work_mem = '1GB'; SET max_parallel_maintenance_workers = 1; SET synchronous_commit = on`;

/**
 * Fills one table in one transaction: emptied, filled without its indexes, what it held before put back, indexes made anew.
 * Emptied within the transaction, it is written without WAL where `wal_level` is minimal, and as frozen. Its triggers are
 * off: they refuse rows that were not made step by step.
 */
export class TableWriter {
  private chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  private used = 0;
  private readonly full: Buffer[] = [];
  rows = 0;

  private constructor(
    private readonly table: string,
    private readonly client: pg.Client,
    private readonly copy: CopyIn,
    private readonly indexes: readonly StoredIndex[],
  ) {}

  static async open(url: string, table: string): Promise<TableWriter> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(`${SETTINGS}; SET session_replication_role = replica`);
    await client.query('BEGIN');
    await client.query(`CREATE TEMP TABLE before ON COMMIT DROP AS SELECT * FROM ${table}`);
    const indexes = await storedIndexes(client, table);
    await client.query(`TRUNCATE ${table}`);
    for (const { drop } of indexes) await client.query(drop);
    const copy = await CopyIn.start(client, `COPY ${table} FROM STDIN (FORMAT binary, FREEZE)`);
    return new TableWriter(table, client, copy, indexes);
  }

  add(row: ByteTemplate): void {
    this.used = row.writeTo(this.chunk, this.used);
    this.rows += 1;
    if (this.used > CHUNK_BYTES - ROOM_BYTES) this.turn();
  }

  /** Sends what is full. Resolves when the server keeps up. */
  async flush(): Promise<void> {
    for (let next = this.full.shift(); next; next = this.full.shift()) await this.copy.write(next);
  }

  async endRows(): Promise<void> {
    this.turn();
    await this.flush();
    await this.copy.finish();
    await this.client.query(`INSERT INTO ${this.table} SELECT * FROM before`);
  }

  /** Makes the indexes and commits. */
  async finish(): Promise<void> {
    for (const { make } of this.indexes) await this.client.query(make);
    await this.client.query('COMMIT');
    await this.client.query(`VACUUM (ANALYZE) ${this.table}`);
    await this.client.end();
  }

  async abandon(): Promise<void> {
    await this.client.end().catch(() => undefined);
  }

  private turn(): void {
    if (this.used === 0) return;
    this.full.push(this.chunk.subarray(0, this.used));
    this.chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    this.used = 0;
  }
}

import type pg from 'pg';
import type { TestDatabase } from './postgres.js';

const SECOND_MS = 1000;

/**
 * A store's clock that stands still until it is moved, so that a test meets the edges of a time window to the microsecond.
 * The database finds this clock where it looks for its own: `public` stands before `pg_catalog` for whoever connects from
 * now on. The offset of a test database is still added to it.
 */
export class StillClock {
  private constructor(
    private readonly sql: pg.Client,
    private moved: bigint,
    /** Where it stands without the offset, in microseconds since the epoch: a whole second. */
    private readonly base: bigint,
  ) {}

  /** Stops the clock of a database. Before the service connects. */
  static async install(sql: pg.Client, database: TestDatabase): Promise<StillClock> {
    // The next whole second: the database's last time may not lie ahead.
    const second = BigInt(Math.ceil(Date.now() / SECOND_MS));
    await sql.query(`CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
      AS $$ SELECT pg_catalog.to_timestamp(${second}) $$`);
    await sql.query(`ALTER DATABASE ${database.name} SET search_path = public, pg_catalog`);
    await sql.query('SET search_path = public, pg_catalog');
    return new StillClock(sql, 0n, second * 1_000_000n);
  }

  /** The store's clock, in microseconds since the epoch. */
  get now(): bigint {
    return this.base + this.moved;
  }

  /** Moves it by microseconds, and nothing with it: no sweep runs. */
  async move(micros: bigint): Promise<void> {
    await this.sql.query('UPDATE service_state SET clock_offset = clock_offset + $1', [micros.toString()]);
    this.moved += micros;
  }

  /** Says that the offset was moved by another way. */
  wasMoved(micros: bigint): void {
    this.moved += micros;
  }
}

import type pg from 'pg';

const SECOND_MS = 1000;

/**
 * A store's clock that stands still until it is moved, so that a test meets the edges of a time window to the microsecond.
 * A superuser puts it in the place of Postgres's own, in the test's database alone. The offset of a test database is
 * still added to it.
 */
export class StillClock {
  private constructor(
    private readonly sql: pg.Client,
    private moved: bigint,
    /** Where it stands without the offset, in microseconds since the epoch: a whole second. */
    private readonly base: bigint,
  ) {}

  /** Stops the clock of a database. Before anybody reads it. */
  static async install(sql: pg.Client): Promise<StillClock> {
    // The next whole second: the database's last time may not lie ahead.
    const second = BigInt(Math.ceil(Date.now() / SECOND_MS));
    await sql.query('ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO machine_clock');
    await sql.query(`CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
      AS $$ SELECT pg_catalog.to_timestamp(${second}) $$`);
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

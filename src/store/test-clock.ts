import type { Micros } from '../ledger/types.js';
import type { Statement } from './connection.js';
import type { ConnectionPool } from './connection-pool.js';
import { detailOf, isTransient, StoreError } from './store-error.js';

const MOVE = 'UPDATE service_state SET clock_offset = clock_offset + $1::bigint WHERE test_database';
/** A statement of its own: one that moves the clock does not see it moved. */
const READ = 'SELECT surety_now() AS now FROM service_state WHERE test_database';

/**
 * The clock of a test database: an offset that every reading of the store's clock adds (architecture.md, Time and faults
 * in tests). The database itself refuses an offset where `surety migrate --test` did not mark it.
 */
export class PgTestClock {
  constructor(private readonly pool: ConnectionPool) {}

  /** The store's clock with the offset; undefined where the database is not one for tests. */
  now(): Promise<Micros | undefined> {
    return this.run([{ text: READ }]);
  }

  /**
   * Moves the clock forward, for every process on the database.
   *
   * @param by microseconds, positive
   * @returns where it is then; undefined where the database is not one for tests
   */
  advance(by: Micros): Promise<Micros | undefined> {
    if (by <= 0n) throw new RangeError('a clock never goes back');
    return this.run([{ text: MOVE, values: [by.toString()] }, { text: READ }]);
  }

  private async run(statements: readonly Statement[]): Promise<Micros | undefined> {
    const connection = await this.pool.acquire();
    let healthy = false;
    try {
      const answers = await connection.flight(statements);
      const failed = answers.find((answer) => answer.status === 'rejected');
      if (failed) {
        const { reason } = failed;
        throw new StoreError('not_done', isTransient(reason), detailOf(reason), { cause: reason });
      }
      healthy = true;
      const last = answers.at(-1);
      return last?.status === 'fulfilled' ? (last.value.rows[0]?.['now'] as Micros | undefined) : undefined;
    } finally {
      this.pool.release(connection, healthy);
    }
  }
}

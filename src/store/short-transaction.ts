import type { Answer, PipelineConnection, Statement } from './connection.js';
import type { ConnectionPool } from './connection-pool.js';
import { detailOf, isTransient, sqlState, StoreError } from './store-error.js';

/** Another replica may be sweeping the same rows; then they are its own to sweep. */
const LOCK_TIMEOUT = `SET LOCAL lock_timeout = '200ms'`;
/** Lock not available, deadlock: the other sweep has them. */
const TAKEN_STATES: ReadonlySet<string> = new Set(['55P03', '40P01']);

/**
 * One statement of a sweep in a short transaction of its own. Undefined where another sweep has its rows.
 *
 * @throws StoreError where the store is away
 */
export async function inTransaction(pool: ConnectionPool, work: Statement): Promise<Answer | undefined> {
  const connection = await pool.acquire();
  let healthy = false;
  try {
    const answer = await flight(connection, work);
    healthy = true;
    return answer;
  } finally {
    pool.release(connection, healthy);
  }
}

async function flight(connection: PipelineConnection, work: Statement): Promise<Answer | undefined> {
  const answers = await connection.flight([
    { text: 'BEGIN' },
    { text: LOCK_TIMEOUT },
    work,
    { text: 'COMMIT' },
  ]);
  const failed = answers.find((answer) => answer.status === 'rejected');
  if (failed) {
    if (TAKEN_STATES.has(sqlState(failed.reason) ?? '')) {
      // Behind a failure COMMIT is passed over, and the connection goes on to others.
      const [ended] = await connection.flight([{ text: 'ROLLBACK' }]);
      if (ended?.status === 'fulfilled') return undefined;
    }
    const { reason } = failed;
    throw new StoreError('not_done', isTransient(reason), detailOf(reason), { cause: reason });
  }
  const [, , done] = answers;
  return done?.status === 'fulfilled' ? done.value : undefined;
}

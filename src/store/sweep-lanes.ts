import type { ConnectionPool } from './connection-pool.js';
import { inTransaction } from './short-transaction.js';

/**
 * A lane asks its row only about the batch that it sent last, within seconds; every process leaves one row per domain
 * behind. A week is far beyond both.
 */
const SWEEP_LANES = `DELETE FROM lanes AS t USING (
  SELECT domain_id, lane_id FROM lanes WHERE updated_at < (SELECT surety_now()) - 604800000000 LIMIT 1000
) AS old WHERE t.domain_id = old.domain_id AND t.lane_id = old.lane_id`;

/**
 * Removes the rows of lanes whose processes are long gone.
 *
 * @returns how many
 * @throws StoreError where the store is away
 */
export async function sweepLanes(pool: ConnectionPool): Promise<number> {
  const answer = await inTransaction(pool, { name: 'sweep_lanes', text: SWEEP_LANES });
  return answer?.rowCount ?? 0;
}

import { NONCE_GRACE } from '../ledger/replay/consume-nonce.js';
import type { Statement } from './connection.js';
import type { ConnectionPool } from './connection-pool.js';
import { inTransaction } from './short-transaction.js';
import { loadStatements } from './sql-files.js';

/** Rows of one transaction: some ten milliseconds of work, so that no snapshot grows old. */
export const SWEEP_BATCH = 1_000;

const SQL = loadStatements('./sql/sweep-nonces.sql');

/** What a sweep removed. */
export interface SweptNonces {
  readonly replay: number;
  readonly transition: number;
}

/** What a sweep may be told. */
export interface SweepOptions {
  /** Ends it between two batches. */
  readonly signal?: AbortSignal;
  /** Rows of one transaction, for tests. */
  readonly batch?: number;
}

/**
 * Removes spent nonces that no carrier can verify with any more (provenance-audit-replay.md, Replay nonces; effects.md,
 * Transitions 12): in bounded batches, each a short transaction of its own, by the store's clock with the offset of a
 * test database. The tables stay proportional to the live window.
 *
 * The rows are deleted without being locked first: that would need the right to update a spent nonce, which nobody has.
 *
 * @throws StoreError where the store is away; what was removed stays removed
 */
export async function sweepNonces(pool: ConnectionPool, options: SweepOptions = {}): Promise<SweptNonces> {
  const swept = { replay: 0, transition: 0 };
  const grace = NONCE_GRACE.toString();
  const limit = String(options.batch ?? SWEEP_BATCH);
  const domains = await inTransaction(pool, statement('sweep_domains', [grace]));
  for (const { domain_id: domainId } of (domains?.rows ?? []) as { domain_id: string }[]) {
    swept.replay += await sweepTable(
      pool,
      statement('sweep_replay_nonces', [domainId, grace, limit]),
      options,
    );
    swept.transition += await sweepTable(
      pool,
      statement('sweep_transition_nonces', [domainId, limit]),
      options,
    );
  }
  return swept;
}

async function sweepTable(pool: ConnectionPool, sweep: Statement, options: SweepOptions): Promise<number> {
  const batch = options.batch ?? SWEEP_BATCH;
  for (let removed = 0; ; ) {
    if (options.signal?.aborted === true) return removed;
    const answer = await inTransaction(pool, sweep);
    removed += answer?.rowCount ?? 0;
    if (!answer || answer.rowCount < batch) return removed;
  }
}

function statement(name: string, values: readonly string[]): Statement {
  const text = SQL.get(name);
  if (text === undefined) throw new Error(`no statement ${name}`);
  return { name, text, values };
}

import { NONCE_GRACE } from '../ledger/replay/consume-nonce.js';
import type { Statement, Value } from './connection.js';
import type { ConnectionPool } from './connection-pool.js';
import { encodeArray } from './row-codec.js';
import { inTransaction } from './short-transaction.js';
import { loadStatements } from './sql-files.js';

/** Rows of one transaction: some ten milliseconds of work, so that no snapshot grows old. */
export const SWEEP_BATCH = 1_000;

/** Batches per table and domain in one sweep: a second at most, in which the sweeps of other things wait; the next goes on. */
export const BATCHES_PER_SWEEP = 50;

const SQL = loadStatements('./sql/sweep-nonces.sql');

/** What a sweep removed. */
export interface SweptNonces {
  readonly replay: number;
  readonly transition: number;
}

/**
 * Sweeps between two that begin at the front again. Nothing is ever put in behind a place: a nonce is spent at least a minute
 * before it may be removed.
 */
const SWEEPS_PER_WALK = 600;

/** How far the sweeps have come: by domain, the time at which the last removed nonce expired. */
export class NoncePlaces {
  private sweeps = 0;
  readonly replay = new Map<string, bigint>();
  readonly transition = new Map<string, bigint>();

  /** Another sweep begins. */
  next(): void {
    this.sweeps += 1;
    if (this.sweeps % SWEEPS_PER_WALK !== 0) return;
    this.replay.clear();
    this.transition.clear();
  }
}

/** What a sweep may be told. */
export interface SweepOptions {
  /** Where the sweep before it came to; absent: from the front. */
  readonly places?: NoncePlaces;
  /** Ends it between two batches. */
  readonly signal?: AbortSignal;
  /** Rows of one transaction, for tests. */
  readonly batch?: number;
}

/**
 * Removes spent nonces that no carrier can verify with any more (provenance-audit-replay.md, Replay nonces; effects.md,
 * Transitions 12): in bounded batches, each a short transaction of its own, and so many at most in one sweep, by the store's
 * clock with the offset of a test database. The tables stay proportional to the live window.
 *
 * The rows are deleted without being locked first: that would need the right to update a spent nonce, which nobody has.
 *
 * @throws StoreError where the store is away; what was removed stays removed
 */
export async function sweepNonces(pool: ConnectionPool, options: SweepOptions = {}): Promise<SweptNonces> {
  const swept = { replay: 0, transition: 0 };
  const grace = NONCE_GRACE.toString();
  const { replay, transition } = options.places ?? new NoncePlaces();
  options.places?.next();
  const known = [...new Set([...replay.keys(), ...transition.keys()])];
  const placesIn = (places: ReadonlyMap<string, bigint>): Value =>
    encodeArray(
      'int8',
      known.map((domainId) => places.get(domainId) ?? 0n),
    );
  const places = [encodeArray('text', known), placesIn(replay), placesIn(transition)];
  const domains = await inTransaction(pool, statement('sweep_domains', [grace, ...places]));
  for (const { domain_id: domainId } of (domains?.rows ?? []) as { domain_id: string }[]) {
    swept.replay += await sweepTable(pool, 'sweep_replay_nonces', domainId, replay, [grace], options);
    swept.transition += await sweepTable(pool, 'sweep_transition_nonces', domainId, transition, [], options);
  }
  return swept;
}

async function sweepTable(
  pool: ConnectionPool,
  name: string,
  domainId: string,
  places: Map<string, bigint>,
  further: readonly string[],
  options: SweepOptions,
): Promise<number> {
  const batch = options.batch ?? SWEEP_BATCH;
  let removed = 0;
  for (let batches = 0; batches < BATCHES_PER_SWEEP; batches += 1) {
    if (options.signal?.aborted === true) return removed;
    const from = (places.get(domainId) ?? 0n).toString();
    const answer = await inTransaction(pool, statement(name, [domainId, String(batch), from, ...further]));
    const [row] = (answer?.rows ?? []) as { removed: bigint; last_expires_at: bigint | null }[];
    if (!row) return removed;
    removed += Number(row.removed);
    if (row.last_expires_at !== null) places.set(domainId, row.last_expires_at);
    if (Number(row.removed) < batch) return removed;
  }
  return removed;
}

function statement(name: string, values: readonly Value[]): Statement {
  const text = SQL.get(name);
  if (text === undefined) throw new Error(`no statement ${name}`);
  return { name, text, values };
}

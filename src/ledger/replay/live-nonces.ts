import { type Micros, MINUTE } from '../types.js';
import type { ReplayCallerRow } from './records.js';

/**
 * How many nonces of one caller may be live at once: with carriers of five minutes about 300 verifications a second,
 * and some 20 MB of rows.
 */
export const MAX_LIVE_NONCES = 100_000;

/** Nonces are counted by when they leave, in steps of this length: a count errs by at most one step, upwards. */
export const BUCKET: Micros = 10n * MINUTE;

type Counts = Pick<ReplayCallerRow, 'firstBucket' | 'counts'>;

/** What a caller may still consume. */
export type LiveNonces =
  | { readonly row: ReplayCallerRow }
  /** Microseconds until the first of the live nonces leave. */
  | { readonly retryAfter: Micros };

/** How many nonces of a caller are live, as they are counted. */
export function liveNonces(stored: Counts | undefined, now: Micros): number {
  return liveCounts(stored, now).live;
}

/**
 * Counts one more nonce of a caller, without counting rows: what has left falls off the front of the counts
 * (provenance-audit-replay.md: "A ceiling of live nonces per caller").
 *
 * @param stored the caller's counts, undefined at its first nonce
 * @param leavesAt when the nonce counts as live no longer; after `now`
 */
export function countNonce(
  spiffeId: string,
  stored: ReplayCallerRow | undefined,
  leavesAt: Micros,
  now: Micros,
): LiveNonces {
  const { first, counts, live } = liveCounts(stored, now);
  if (live >= MAX_LIVE_NONCES) {
    const next = first + BigInt(counts.findIndex((count) => count > 0)) + 1n;
    return { retryAfter: next * BUCKET - now };
  }
  const index = Number(leavesAt / BUCKET - first);
  while (counts.length <= index) counts.push(0);
  counts[index] = (counts[index] ?? 0) + 1;
  return { row: { spiffeId, firstBucket: first, counts } };
}

/** What has not left by now, from its first bucket on. */
function liveCounts(stored: Counts | undefined, now: Micros) {
  const firstBucket = now / BUCKET;
  const gone = stored ? Number(firstBucket - stored.firstBucket) : 0;
  // The store's clock never goes back; where it seems to, nothing is gone yet.
  const counts = stored ? stored.counts.slice(Math.max(gone, 0)) : [];
  const first = stored && gone < 0 ? stored.firstBucket : firstBucket;
  return { first, counts, live: counts.reduce((sum, count) => sum + count, 0) };
}

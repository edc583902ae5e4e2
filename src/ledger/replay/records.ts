import type { Digest, Micros } from '../types.js';

/** A nonce that a caller of ReplayService consumed. */
export interface ReplayNonceRow {
  /** Digest of the caller's SPIFFE ID, its scope name and the nonce. */
  readonly nonceKey: Digest;
  readonly consumptionId: string;
  readonly consumedAt: Micros;
  /** The last instant at which the carrier could verify. */
  readonly expiresAt: Micros;
}

/** How many nonces of a caller are live, by the time at which they leave: the ceiling without counting rows. */
export interface ReplayCallerRow {
  readonly spiffeId: string;
  /** The number of the first bucket of `counts`, in buckets since the epoch. */
  readonly firstBucket: bigint;
  /** Per bucket of time, how many nonces leave in it. */
  readonly counts: readonly number[];
}

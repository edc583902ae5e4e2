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

import { canonicalDigest } from '../encoding.js';
import type { Digest } from '../types.js';

const NONCE_LABEL = 'surety-replay-nonce-v1';

/**
 * Under which key a nonce is spent: the caller's SPIFFE ID is part of the scope, so that nobody can burn another's
 * nonces (provenance-audit-replay.md, Replay nonces). Only this digest is kept. Vectors: `testvectors/digests.json`.
 */
export function nonceKey(spiffeId: string, scope: string, nonce: string): Digest {
  return canonicalDigest(NONCE_LABEL, [spiffeId, scope, nonce]);
}

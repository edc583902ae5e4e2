import { sha256 } from '../../src/ledger/encoding.js';
import type { Caller } from '../../src/ledger/types.js';

const DAY_US = 86_400_000_000n;

/** A caller as its connection would have named it. */
export function callerOf(spiffeId: string): Caller {
  return {
    spiffeId,
    trustDomain: new URL(spiffeId.replace('spiffe:', 'https:')).hostname,
    leafDigest: sha256(`leaf of ${spiffeId}`),
    keyThumbprint: `key of ${spiffeId}`,
    notAfter: BigInt(Date.now()) * 1000n + DAY_US,
  };
}

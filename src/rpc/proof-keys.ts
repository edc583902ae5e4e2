import { JwkInvalid, parsePublicJwk } from '../identity/jwk.js';
import { ProofKeyCache } from '../identity/proof-key-cache.js';
import { refusal } from '../ledger/refusal.js';
import { Refused } from '../ledger/run-decision.js';
import type { Reader } from '../store/reader.js';

/**
 * The workloads' public keys, read from the table `proof_keys` on a miss. One per process.
 *
 * `find` throws {Refused} DATA_CORRUPT where a stored key is not the one that its thumbprint names.
 */
export function proofKeysOf(reader: Pick<Reader, 'query'>): ProofKeyCache {
  return new ProofKeyCache(async (domainId, thumbprint) => {
    const [row] = await reader.query<{ publicJwk: string }>('proof_key', [domainId, thumbprint]);
    if (row && thumbprintOf(row.publicJwk) !== thumbprint) throw corruptKey(thumbprint);
    return row?.publicJwk;
  });
}

function thumbprintOf(jwk: string): string | undefined {
  try {
    return parsePublicJwk(jwk).thumbprint;
  } catch (error) {
    if (error instanceof JwkInvalid) return undefined;
    throw error;
  }
}

function corruptKey(thumbprint: string): Refused {
  return new Refused(
    refusal('DATA_CORRUPT', 'A stored key is not the one that its thumbprint names.', {
      metadata: { record: `proof_key/${thumbprint}` },
    }),
  );
}

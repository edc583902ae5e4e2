import type { KeyObject } from 'node:crypto';
import { parsePublicJwk } from '../../identity/jwk.js';
import type { ResolveKey } from '../../identity/verify-signed-message.js';
import type { Reader } from '../../store/reader.js';

/**
 * Finds an owner's registered key in the domain by its thumbprint. It decides nothing: whose key it is, and whether it still
 * is, is compared in the transaction.
 */
export function ownerKeys(reader: Pick<Reader, 'query'>, domainId: string): ResolveKey {
  return async (thumbprint): Promise<KeyObject | undefined> => {
    const [row] = await reader.query<{ signingKeyJwk: string }>('owner_signing_key', [domainId, thumbprint]);
    return row && parsePublicJwk(row.signingKeyJwk).key;
  };
}

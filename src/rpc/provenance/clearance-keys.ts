import { JwkInvalid, type PublicKey, parsePublicJwk } from '../../identity/jwk.js';
import { corruptRecord } from '../../ledger/provenance/provenance-digest.js';
import { Refused } from '../../ledger/run-decision.js';
import type { Reader } from '../../store/reader.js';
import type { ObjectName } from './read-object.js';

/** Finds the key that a receipt names by its thumbprint; undefined where there is none such. */
export type FindKey = (thumbprint: string) => Promise<PublicKey | undefined>;

/**
 * The keys for receipts of a version: those that approvers are registered with now, and those under which the receipts
 * that the version was recorded with verified. Through the latter its exact repeat is known whatever became of the keys.
 * They decide nothing: where the version is not recorded yet, whose key it is is compared in the transaction.
 *
 * What it returns throws {@link Refused} DATA_CORRUPT where the key that was kept is not the one that its thumbprint names.
 */
export function clearanceKeys(
  reader: Pick<Reader, 'query'>,
  domainId: string,
  { objectType, objectId, version }: ObjectName & { readonly version: bigint },
): FindKey {
  const find = async (name: string, parameters: readonly (string | bigint)[]): Promise<string | undefined> =>
    (await reader.query<{ signingKeyJwk: string }>(name, parameters))[0]?.signingKeyJwk;
  return async (thumbprint) => {
    const registered = await find('approver_signing_key', [domainId, thumbprint]);
    if (registered !== undefined) return parsePublicJwk(registered);
    const kept = await find('receipt_signing_key', [domainId, objectType, objectId, version, thumbprint]);
    if (kept === undefined) return undefined;
    const key = keptKey(kept, thumbprint);
    if (!key) throw new Refused(corruptRecord({ objectType, objectId, version }));
    return key;
  };
}

/** The key that was kept beside a receipt; undefined where it is not the one that the thumbprint names. */
export function keptKey(jwk: string, thumbprint: string): PublicKey | undefined {
  try {
    const key = parsePublicJwk(jwk);
    return key.thumbprint === thumbprint ? key : undefined;
  } catch (error) {
    if (error instanceof JwkInvalid) return undefined;
    throw error;
  }
}

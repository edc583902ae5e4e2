import { type InspectedLeaf, inspectLeafFields } from './certificate.js';
import type { VerifiedChain } from './certificate-chain.js';
import { type CertificateFields, readCertificate } from './certificate-fields.js';
import { CertificateRejected, type CertificateRejection } from './certificate-rejected.js';
import { readIntermediates, type TrustBundles } from './trust-bundles.js';

/** What is to happen to a connection whose TLS handshake has ended. */
export type PeerCheck =
  /** Trusted, and every leaf rule holds. */
  | { readonly outcome: 'accepted'; readonly leaf: InspectedLeaf; readonly chain: VerifiedChain }
  /** Trusted, but the leaf breaks a rule: UNAUTHENTICATED on each call, which clients do not retry. */
  | { readonly outcome: 'rejected'; readonly reason: CertificateRejection }
  /** Nobody vouches for it: the connection ends here. */
  | { readonly outcome: 'untrusted'; readonly reason: CertificateRejection };

/**
 * Decides about a peer's certificates (identity.md, The connection).
 *
 * @param leafDer the peer's certificate; `intermediatesDer` what it sent along.
 * @param nowMicros microseconds since the epoch.
 */
export function checkPeer(
  leafDer: Buffer,
  intermediatesDer: readonly Buffer[],
  bundles: TrustBundles,
  nowMicros: bigint,
): PeerCheck {
  try {
    return checkRead(readCertificate(leafDer), readIntermediates(intermediatesDer), bundles, nowMicros);
  } catch (error) {
    // What we cannot read, we cannot build a chain from.
    if (error instanceof CertificateRejected) return { outcome: 'untrusted', reason: error.reason };
    throw error;
  }
}

function checkRead(
  leaf: CertificateFields,
  intermediates: readonly CertificateFields[],
  bundles: TrustBundles,
  nowMicros: bigint,
): PeerCheck {
  const inspected = attempt(() => inspectLeafFields(leaf));
  if (inspected.reason === 'URI_SAN_NOT_SINGLE' || inspected.reason === 'SPIFFE_ID_INVALID') {
    // It names no trust domain, so no domain's bundle is its own.
    const vouched = bundles.isVouchedForByAny(leaf, intermediates, nowMicros);
    return { outcome: vouched ? 'rejected' : 'untrusted', reason: inspected.reason };
  }
  const chain = attempt(() => bundles.verifyFields(leaf, intermediates, nowMicros));
  if (chain.reason !== undefined) return { outcome: 'untrusted', reason: chain.reason };
  if (inspected.reason !== undefined) return { outcome: 'rejected', reason: inspected.reason };
  return { outcome: 'accepted', leaf: inspected.value, chain: chain.value };
}

type Attempt<T> =
  | { readonly value: T; readonly reason?: undefined }
  | { readonly reason: CertificateRejection };

function attempt<T>(check: () => T): Attempt<T> {
  try {
    return { value: check() };
  } catch (error) {
    if (error instanceof CertificateRejected) return { reason: error.reason };
    throw error;
  }
}

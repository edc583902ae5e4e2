import { type CertificateFields, publicKeySha256, readCertificate } from './certificate-fields.js';
import { CertificateRejected } from './certificate-rejected.js';
import { keyThumbprint } from './jwk.js';
import { parseSpiffeId, type SpiffeId, SpiffeIdInvalid } from './spiffe-id.js';

/** A leaf that obeys every rule of identity.md, The connection. Its chain is another question. */
export interface InspectedLeaf {
  readonly spiffeId: string;
  readonly trustDomain: string;
  /** SHA-256 of the certificate's DER: what a registration bound to CERTIFICATE compares. */
  readonly sha256: Buffer;
  /** SHA-256 of the public key, the same however the certificate encodes it. */
  readonly publicKeySha256: Buffer;
  /** RFC 7638 thumbprint of the public key: what signing keys are known by, so that the two can be told apart. */
  readonly publicKeyThumbprint: string;
  /** Hexadecimal. */
  readonly serial: string;
  /** Microseconds since the epoch. */
  readonly notBeforeMicros: bigint;
  readonly notAfterMicros: bigint;
}

const SERVER_AUTHENTICATION = '1.3.6.1.5.5.7.3.1';
const CLIENT_AUTHENTICATION = '1.3.6.1.5.5.7.3.2';

/**
 * Applies the leaf rules to a certificate's DER. Says nothing about trust or time.
 *
 * @throws {CertificateRejected} with the first rule that it breaks.
 */
export function inspectLeaf(der: Buffer): InspectedLeaf {
  return inspectLeafFields(readCertificate(der));
}

/** {@link inspectLeaf} for a certificate that has been read already. */
export function inspectLeafFields(leaf: CertificateFields): InspectedLeaf {
  const { id, trustDomain } = spiffeIdOf(leaf);
  if (leaf.isCa) throw new CertificateRejected('LEAF_IS_CA');
  const usage = leaf.keyUsage;
  if (usage === undefined || !usage.digitalSignature || usage.keyCertSign || usage.cRLSign) {
    throw new CertificateRejected('KEY_USAGE_INVALID');
  }
  if (!usage.critical) throw new CertificateRejected('KEY_USAGE_NOT_CRITICAL');
  const extended = leaf.extendedKeyUsage;
  if (extended !== undefined) {
    // Every workload answers as well as it calls, and SVIDs are made for both (SPIFFE X.509-SVID, 4.4).
    const both = extended.includes(CLIENT_AUTHENTICATION) && extended.includes(SERVER_AUTHENTICATION);
    if (!both) throw new CertificateRejected('EXTENDED_KEY_USAGE_INVALID');
  }
  return {
    spiffeId: id,
    trustDomain,
    sha256: leaf.sha256,
    publicKeySha256: publicKeySha256(leaf.publicKey),
    publicKeyThumbprint: keyThumbprint(leaf.publicKey),
    serial: leaf.serial,
    notBeforeMicros: leaf.notBeforeMicros,
    notAfterMicros: leaf.notAfterMicros,
  };
}

/**
 * The one SPIFFE ID of a certificate.
 *
 * @throws {CertificateRejected} URI_SAN_NOT_SINGLE or SPIFFE_ID_INVALID.
 */
export function spiffeIdOf(certificate: CertificateFields): SpiffeId {
  const [uri, ...others] = certificate.uriSans;
  if (uri === undefined || others.length > 0) throw new CertificateRejected('URI_SAN_NOT_SINGLE');
  try {
    return parseSpiffeId(uri);
  } catch (error) {
    if (error instanceof SpiffeIdInvalid) throw new CertificateRejected('SPIFFE_ID_INVALID');
    throw error;
  }
}

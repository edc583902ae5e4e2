/**
 * Why a certificate is not accepted. Stable: they appear in logs, metrics and the metadata of
 * CERTIFICATE_REJECTED, so that an operator can tell a bad template from a bad authority.
 */
export type CertificateRejection =
  // The bytes.
  | 'MALFORMED'
  | 'DUPLICATE_EXTENSION'
  | 'UNKNOWN_CRITICAL_EXTENSION'
  // The leaf's own rules.
  | 'URI_SAN_NOT_SINGLE'
  | 'SPIFFE_ID_INVALID'
  | 'LEAF_IS_CA'
  | 'KEY_USAGE_NOT_CRITICAL'
  | 'KEY_USAGE_INVALID'
  | 'EXTENDED_KEY_USAGE_INVALID'
  | 'KEY_UNSUPPORTED'
  // The chain.
  | 'TRUST_DOMAIN_UNKNOWN'
  | 'CHAIN_UNTRUSTED'
  | 'ISSUER_NOT_CA'
  | 'ISSUER_KEY_USAGE_INVALID'
  | 'ISSUER_FOREIGN'
  | 'PATH_LENGTH_EXCEEDED'
  | 'NOT_YET_VALID'
  | 'EXPIRED'
  | 'REVOKED'
  | 'REVOCATION_LIST_STALE'
  | 'REVOCATION_LIST_INVALID'
  // The connection: ended while it lived, or its peer could not be determined.
  | 'CALLER_ENDED'
  | 'PEER_UNKNOWN';

/** Thrown wherever a certificate or chain breaks a rule. Never carries text of OpenSSL or of the peer. */
export class CertificateRejected extends Error {
  override readonly name = 'CertificateRejected';
  constructor(readonly reason: CertificateRejection) {
    super(`certificate rejected: ${reason}`);
  }
}

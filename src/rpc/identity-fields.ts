import { JwkInvalid, parsePublicJwk } from '../identity/jwk.js';
import { parseSpiffeId, SpiffeIdInvalid } from '../identity/spiffe-id.js';
import type { CertificateBinding, Digest } from '../ledger/types.js';
import type { Violations } from './validate.js';
import { BINDINGS } from './wire-enums.js';

/** A public key in its canonical form. */
export interface KeyFields {
  readonly jwk: string;
  /** RFC 7638. */
  readonly thumbprint: string;
}

/**
 * Reads a SPIFFE ID.
 *
 * @param domainId the trust domain that it must be of; undefined: any
 */
export function readSpiffeId(
  violations: Violations,
  field: string,
  value: string,
  domainId?: string,
): string {
  const trustDomain = trustDomainOf(value);
  if (trustDomain === undefined) violations.refuse(field, 'must be a SPIFFE ID with a path');
  else if (domainId !== undefined && trustDomain !== domainId) {
    violations.refuse(field, 'must be of the trust domain that the domain is');
  }
  return value;
}

/** Reads a public P-256 JWK. */
export function readPublicKey(violations: Violations, field: string, value: string): KeyFields {
  try {
    const { jwk, thumbprint } = parsePublicJwk(value);
    return { jwk, thumbprint };
  } catch (error) {
    if (!(error instanceof JwkInvalid)) throw error;
    violations.refuse(field, error.rule);
    return { jwk: '', thumbprint: '' };
  }
}

/** Reads how a certificate is matched: the digest is there with CERTIFICATE, and only then. */
export function readBinding(
  violations: Violations,
  fields: { readonly binding: string; readonly digest: string },
  value: { readonly binding: number; readonly digest: Uint8Array },
): { readonly binding: CertificateBinding; readonly digest: Digest | null } {
  const binding = violations.choice(fields.binding, value.binding, BINDINGS);
  if (binding === 'certificate') return { binding, digest: violations.digest(fields.digest, value.digest) };
  if (value.digest.length > 0) violations.refuse(fields.digest, 'must be empty but with CERTIFICATE');
  return { binding, digest: null };
}

function trustDomainOf(value: string): string | undefined {
  try {
    return parseSpiffeId(value).trustDomain;
  } catch (error) {
    if (error instanceof SpiffeIdInvalid) return undefined;
    throw error;
  }
}

/** A SPIFFE ID that passed the strict grammar, and its two parts. */
export interface SpiffeId {
  /** The whole URI, byte for byte as it was given. */
  readonly id: string;
  /** The trust domain: the only thing that says whose certificate authority may vouch for it. */
  readonly trustDomain: string;
  /** The path with its leading slash. It proves nothing (identity.md, Callers). */
  readonly path: string;
}

/** Why a string is not a SPIFFE ID that we accept; stable, for logs and tests. */
export type SpiffeIdProblem =
  | 'TOO_LONG'
  | 'NOT_SPIFFE'
  | 'TRUST_DOMAIN_INVALID'
  | 'PATH_MISSING'
  | 'PATH_INVALID';

/** Thrown by {@link parseSpiffeId}. The message never repeats the whole input: it came from a stranger. */
export class SpiffeIdInvalid extends Error {
  override readonly name = 'SpiffeIdInvalid';
  constructor(readonly problem: SpiffeIdProblem) {
    super(`not an acceptable SPIFFE ID: ${problem}`);
  }
}

/** The SPIFFE specification's own limit; every accepted character is one byte. */
export const MAX_SPIFFE_ID_BYTES = 2048;

/** The SPIFFE specification's limit for the authority part. */
export const MAX_TRUST_DOMAIN_BYTES = 255;

const SCHEME = 'spiffe://';

/**
 * Empty labels are refused although the specification's character set would allow them: the name is also a
 * file name of the bundle folder and the name of a domain, where `..` has no business.
 */
const TRUST_DOMAIN = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;

const PATH_SEGMENT = /^[A-Za-z0-9._-]+$/;

/** Whether `name` may be a trust domain: lower case, no empty label, at most 255 bytes. */
export function isTrustDomain(name: string): boolean {
  return name.length <= MAX_TRUST_DOMAIN_BYTES && TRUST_DOMAIN.test(name);
}

/**
 * Reads a workload's SPIFFE ID from the raw string of a URI SAN (identity.md, The connection).
 *
 * No URL parser is asked, because each of them forgives something: percent signs, queries, fragments, ports,
 * user names, upper case in the trust domain, empty and dot segments and the root path are all refused.
 *
 * @throws {SpiffeIdInvalid} with the first problem found.
 */
export function parseSpiffeId(raw: string): SpiffeId {
  if (raw.length > MAX_SPIFFE_ID_BYTES) throw new SpiffeIdInvalid('TOO_LONG');
  if (!raw.startsWith(SCHEME)) throw new SpiffeIdInvalid('NOT_SPIFFE');
  const slash = raw.indexOf('/', SCHEME.length);
  const trustDomain = slash < 0 ? raw.slice(SCHEME.length) : raw.slice(SCHEME.length, slash);
  if (!isTrustDomain(trustDomain)) throw new SpiffeIdInvalid('TRUST_DOMAIN_INVALID');
  if (slash < 0) throw new SpiffeIdInvalid('PATH_MISSING');
  const path = raw.slice(slash);
  for (const segment of path.slice(1).split('/')) {
    if (!PATH_SEGMENT.test(segment) || segment === '.' || segment === '..') {
      throw new SpiffeIdInvalid('PATH_INVALID');
    }
  }
  return { id: raw, trustDomain, path };
}

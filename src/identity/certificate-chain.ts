import type { CertificateFields } from './certificate-fields.js';
import { CertificateRejected, type CertificateRejection } from './certificate-rejected.js';
import { type Crl, isCrlSignedBy } from './crl.js';

/** What one trust domain's bundle says: who may vouch for its names, and what has been taken back. */
export interface TrustBundle {
  readonly trustDomain: string;
  readonly authorities: readonly CertificateFields[];
  /** Lists whose issuer is one of the authorities have been verified when the bundle was read. */
  readonly crls: readonly Crl[];
}

/** A chain from a leaf to an authority of the bundle, every link checked. */
export interface VerifiedChain {
  readonly trustDomain: string;
  readonly length: number;
  /** Microseconds since the epoch: the earliest end of validity in the chain; still valid at that instant. */
  readonly notAfterMicros: bigint;
}

/** Certificates in a chain at most, leaf and authority included (identity.md, The connection). */
export const MAX_CHAIN_LENGTH = 4;

/**
 * How many certificates that a peer sent along are looked at. A search over more of them, all with one name,
 * would cost a hostile peer nothing and us a signature check each.
 */
export const MAX_INTERMEDIATES = 4;

/**
 * Builds the chain again with only the bundle of the leaf's own trust domain, because Node accepts any
 * authority of its list for any name (identity.md, Bundle per trust domain).
 *
 * @param nowMicros microseconds since the epoch.
 * @throws {CertificateRejected} with the first rule that stopped a candidate, or CHAIN_UNTRUSTED where nobody
 * of the bundle had signed anything.
 */
export function verifyChain(
  leaf: CertificateFields,
  intermediates: readonly CertificateFields[],
  bundle: TrustBundle,
  nowMicros: bigint,
): VerifiedChain {
  const search: Search = {
    bundle,
    nowMicros,
    intermediates: intermediates.slice(0, MAX_INTERMEDIATES),
    firstProblem: validityProblem(leaf, nowMicros),
  };
  const chain = search.firstProblem === undefined ? extend([leaf], search) : undefined;
  if (chain === undefined) throw new CertificateRejected(search.firstProblem ?? 'CHAIN_UNTRUSTED');
  return {
    trustDomain: bundle.trustDomain,
    length: chain.length,
    notAfterMicros: chain.reduce(
      (min, { notAfterMicros }) => (notAfterMicros < min ? notAfterMicros : min),
      leaf.notAfterMicros,
    ),
  };
}

interface Search {
  readonly bundle: TrustBundle;
  readonly nowMicros: bigint;
  readonly intermediates: readonly CertificateFields[];
  /** Kept for the log: a chain that was found and then broke a rule says more than "none". */
  firstProblem: CertificateRejection | undefined;
}

/** Depth first; `path` runs from the leaf up. */
function extend(
  path: readonly CertificateFields[],
  search: Search,
): readonly CertificateFields[] | undefined {
  for (const authority of search.bundle.authorities) {
    if (mayLink(path, authority, search)) return [...path, authority];
  }
  // One more than `path` would leave no place for the authority.
  if (path.length + 2 > MAX_CHAIN_LENGTH) return undefined;
  for (const intermediate of search.intermediates) {
    if (path.includes(intermediate) || !mayLink(path, intermediate, search)) continue;
    const chain = extend([...path, intermediate], search);
    if (chain !== undefined) return chain;
  }
  return undefined;
}

function mayLink(path: readonly CertificateFields[], issuer: CertificateFields, search: Search): boolean {
  const child = path.at(-1);
  if (child === undefined || !hasIssued(issuer, child)) return false;
  const problem =
    authorityProblem(issuer, search.bundle.trustDomain) ??
    validityProblem(issuer, search.nowMicros) ??
    // Everything of the path but the leaf stands between this issuer and the leaf (RFC 5280, 4.2.1.9).
    ((issuer.pathLength ?? MAX_CHAIN_LENGTH) < path.length - 1 ? 'PATH_LENGTH_EXCEEDED' : undefined) ??
    revocationProblem(child, issuer, search);
  search.firstProblem ??= problem;
  return problem === undefined;
}

function hasIssued(issuer: CertificateFields, child: CertificateFields): boolean {
  if (!child.issuer.equals(issuer.subject)) return false;
  // checkIssued compares names, key identifiers and whether the issuer may sign certificates, no signature.
  // An issuer without keyCertSign fails there too; asking ourselves gives the better reason.
  const maySign = issuer.keyUsage === undefined || issuer.keyUsage.keyCertSign;
  if (maySign && !child.x509.checkIssued(issuer.x509)) return false;
  return child.x509.verify(issuer.publicKey);
}

/**
 * Why `certificate` may not vouch for names of `trustDomain`, or undefined. Also asked of each certificate of
 * a bundle when it is read.
 */
export function authorityProblem(
  certificate: CertificateFields,
  trustDomain: string,
): CertificateRejection | undefined {
  if (!certificate.isCa) return 'ISSUER_NOT_CA';
  if (certificate.keyUsage === undefined || !certificate.keyUsage.keyCertSign)
    return 'ISSUER_KEY_USAGE_INVALID';
  // An authority that names itself (SPIRE's do) must name this trust domain and nothing else.
  const own = `spiffe://${trustDomain}`;
  const foreign = certificate.uriSans.some((uri) => uri !== own && !uri.startsWith(`${own}/`));
  return foreign ? 'ISSUER_FOREIGN' : undefined;
}

function validityProblem(
  certificate: CertificateFields,
  nowMicros: bigint,
): CertificateRejection | undefined {
  if (nowMicros < certificate.notBeforeMicros) return 'NOT_YET_VALID';
  return nowMicros > certificate.notAfterMicros ? 'EXPIRED' : undefined;
}

function revocationProblem(
  child: CertificateFields,
  issuer: CertificateFields,
  { bundle, nowMicros }: Search,
): CertificateRejection | undefined {
  const named = bundle.crls.filter((crl) => crl.issuer.equals(issuer.subject));
  // Node would refuse everybody whose authority publishes no list; we ask only where there is one.
  if (named.length === 0) return undefined;
  // A name that was given to a second key (a renewed authority) has lists of both keys.
  const genuine = named.filter((crl) => isCrlSignedBy(crl, issuer));
  if (genuine.length === 0) {
    return bundle.authorities.includes(issuer) ? undefined : 'REVOCATION_LIST_INVALID';
  }
  if (genuine.some((crl) => crl.revokedSerials.has(child.serial))) return 'REVOKED';
  // A list that nobody renewed cannot say that this one is still good.
  return genuine.every((crl) => nowMicros > crl.nextUpdateMicros) ? 'REVOCATION_LIST_STALE' : undefined;
}

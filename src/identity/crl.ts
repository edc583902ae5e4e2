import { type KeyObject, verify } from 'node:crypto';
import type { CertificateFields } from './certificate-fields.js';
import {
  derOf,
  DerInvalid,
  type DerNode,
  elementsOf,
  extensionsOf,
  isContext,
  isUniversal,
  oidOf,
  primitiveOf,
  readDer,
  sequenceOf,
  Tag,
  timeOf,
  wholeBitString,
} from './der.js';

/** A certificate revocation list, read; {@link isCrlSignedBy} says whether it is genuine. */
export interface Crl {
  /** DER of the issuer's name. */
  readonly issuer: Buffer;
  /** Microseconds since the epoch. After it nobody knows what has been revoked since. */
  readonly nextUpdateMicros: bigint;
  /** Serial numbers as {@link CertificateFields.serial} writes them. */
  readonly revokedSerials: ReadonlySet<string>;
  /** The signed bytes, the signature and its algorithm. */
  readonly signed: Buffer;
  readonly signature: Buffer;
  readonly algorithm: string;
}

/** The file is not a revocation list that we can honour in full. */
export class CrlInvalid extends Error {
  override readonly name = 'CrlInvalid';
}

/**
 * Dotted OID of the signature → digest for node:crypto (none for Ed25519) and the key it needs. RSA-PSS is
 * left out: its parameters would have to be read, and neither SPIRE nor cert-manager writes it by default.
 */
const SIGNATURES: ReadonlyMap<string, { digest: string | null; keyType: string }> = new Map([
  ['1.2.840.113549.1.1.11', { digest: 'sha256', keyType: 'rsa' }],
  ['1.2.840.113549.1.1.12', { digest: 'sha384', keyType: 'rsa' }],
  ['1.2.840.113549.1.1.13', { digest: 'sha512', keyType: 'rsa' }],
  ['1.2.840.10045.4.3.2', { digest: 'sha256', keyType: 'ec' }],
  ['1.2.840.10045.4.3.3', { digest: 'sha384', keyType: 'ec' }],
  ['1.2.840.10045.4.3.4', { digest: 'sha512', keyType: 'ec' }],
  ['1.3.101.112', { digest: null, keyType: 'ed25519' }],
]);

/**
 * Reads a revocation list (RFC 5280, 5).
 *
 * Critical extensions of the list or of an entry are refused, all of them: they say that the list is partial
 * (a delta, a distribution point's share) or that entries are another authority's, and a list whose reach is
 * misread lets the revoked in.
 *
 * @throws {CrlInvalid}
 */
export function readCrl(der: Buffer): Crl {
  try {
    const [tbs, algorithm, signature] = sequenceOf(readDer(der));
    const signed = derOf(tbs ?? missing());
    const outer = oidOf(sequenceOf(algorithm)[0]);
    if (!SIGNATURES.has(outer)) throw new CrlInvalid('signed with an algorithm that is not supported');
    return {
      ...readSignedPart(sequenceOf(tbs), outer),
      signed,
      signature: wholeBitString(signature),
      algorithm: outer,
    };
  } catch (error) {
    if (error instanceof DerInvalid) throw new CrlInvalid('not a revocation list');
    throw error;
  }
}

function missing(): never {
  throw new DerInvalid('element missing');
}

function readSignedPart(
  parts: DerNode[],
  outerAlgorithm: string,
): Pick<Crl, 'issuer' | 'nextUpdateMicros' | 'revokedSerials'> {
  // The version is there exactly when the list may have extensions.
  const rest = isUniversal(parts[0], Tag.integer) ? parts.slice(1) : parts;
  const [algorithm, issuer, , nextUpdate, ...tail] = rest;
  if (oidOf(sequenceOf(algorithm)[0]) !== outerAlgorithm)
    throw new CrlInvalid('names two signature algorithms');
  if (!isUniversal(nextUpdate, Tag.utcTime) && !isUniversal(nextUpdate, Tag.generalizedTime)) {
    throw new CrlInvalid('says no next update');
  }
  const entries = isUniversal(tail[0], Tag.sequence) ? sequenceOf(tail[0]) : [];
  const extensions = tail.find((node) => isContext(node, 0));
  if (extensions !== undefined) refuseCritical(elementsOf(extensions)[0]);
  return {
    issuer: derOf(issuer ?? missing()),
    nextUpdateMicros: timeOf(nextUpdate),
    revokedSerials: new Set(entries.map(readEntry)),
  };
}

function readEntry(entry: DerNode): string {
  const parts = sequenceOf(entry);
  if (parts.length > 2) refuseCritical(parts[2]);
  return primitiveOf(parts[0], Tag.integer).toString('hex');
}

function refuseCritical(extensions: DerNode | undefined): void {
  for (const { critical } of extensionsOf(extensions).values()) {
    if (critical) throw new CrlInvalid('has a critical extension, which is not supported');
  }
}

/** Answers by list and issuer: a list of a megabyte is not hashed again for every connection. */
const answers = new WeakMap<Crl, WeakMap<CertificateFields, boolean>>();

/** Whether `issuer` may sign revocation lists, has the list's issuer name, and signed it. */
export function isCrlSignedBy(crl: Crl, issuer: CertificateFields): boolean {
  if (!crl.issuer.equals(issuer.subject)) return false;
  if (issuer.keyUsage === undefined || !issuer.keyUsage.cRLSign) return false;
  const known = answers.get(crl) ?? new WeakMap<CertificateFields, boolean>();
  answers.set(crl, known);
  const answer = known.get(issuer) ?? verifies(crl, issuer.publicKey);
  known.set(issuer, answer);
  return answer;
}

function verifies(crl: Crl, key: KeyObject): boolean {
  const signature = SIGNATURES.get(crl.algorithm);
  if (signature === undefined || signature.keyType !== key.asymmetricKeyType) return false;
  try {
    return verify(signature.digest, crl.signed, key, crl.signature);
  } catch {
    // A signature of the wrong shape for the key; OpenSSL's words about it help nobody.
    return false;
  }
}

import { createHash, createPublicKey, type KeyObject, X509Certificate } from 'node:crypto';
import { CertificateRejected } from './certificate-rejected.js';
import {
  booleanOf,
  bytesOf,
  DerInvalid,
  derOf,
  DuplicateExtension,
  type DerNode,
  elementsOf,
  type Extension,
  extensionsOf,
  isContext,
  isUniversal,
  oidOf,
  primitiveOf,
  readDer,
  sequenceOf,
  smallIntegerOf,
  Tag,
  timeOf,
} from './der.js';

/** OIDs of the extensions that we understand and therefore enforce. */
export const ExtensionOid = {
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  extendedKeyUsage: '2.5.29.37',
} as const;

const UNDERSTOOD: ReadonlySet<string> = new Set(Object.values(ExtensionOid));

/** The bits of KeyUsage (RFC 5280, 4.2.1.3) that a rule of ours names. */
export interface KeyUsage {
  readonly critical: boolean;
  readonly digitalSignature: boolean;
  readonly keyCertSign: boolean;
  readonly cRLSign: boolean;
}

/** What a certificate says, read once. No rule has been applied but that unknown critical extensions end it. */
export interface CertificateFields {
  readonly der: Buffer;
  readonly sha256: Buffer;
  /** For checks that OpenSSL does better: who issued it, and whether the signature holds. */
  readonly x509: X509Certificate;
  readonly publicKey: KeyObject;
  /** Content bytes of the serial number's INTEGER, in hexadecimal. */
  readonly serial: string;
  /** DER of the names, which revocation lists are found by. */
  readonly issuer: Buffer;
  readonly subject: Buffer;
  /** Microseconds since the epoch; the last one is still within the validity. */
  readonly notBeforeMicros: bigint;
  readonly notAfterMicros: bigint;
  readonly isCa: boolean;
  readonly pathLength: number | undefined;
  readonly keyUsage: KeyUsage | undefined;
  /** Dotted OIDs, or undefined where the extension is absent. */
  readonly extendedKeyUsage: readonly string[] | undefined;
  /** Raw URI SANs in order. Node's `subjectAltName` string is never parsed: its quoting can be played with. */
  readonly uriSans: readonly string[];
}

/** A certificate larger than this is nobody's SVID; OpenSSL's own limit for the whole chain is 100 KB. */
export const MAX_CERTIFICATE_BYTES = 32 * 1024;

const URI_GENERAL_NAME = 6;

/**
 * Reads a certificate, RSA or elliptic curve alike.
 *
 * @param der one X.509 version 3 certificate.
 * @throws {CertificateRejected} MALFORMED, DUPLICATE_EXTENSION, UNKNOWN_CRITICAL_EXTENSION or KEY_UNSUPPORTED.
 */
export function readCertificate(der: Buffer): CertificateFields {
  if (der.length > MAX_CERTIFICATE_BYTES) throw new CertificateRejected('MALFORMED');
  try {
    return fieldsOf(der, sequenceOf(readDer(der)));
  } catch (error) {
    if (error instanceof CertificateRejected) throw error;
    if (error instanceof DuplicateExtension) throw new CertificateRejected('DUPLICATE_EXTENSION');
    if (error instanceof DerInvalid) throw new CertificateRejected('MALFORMED');
    throw error;
  }
}

function fieldsOf(der: Buffer, certificate: DerNode[]): CertificateFields {
  const tbs = sequenceOf(certificate[0]);
  const hasVersion = isContext(tbs[0], 0);
  const version = hasVersion ? smallIntegerOf(elementsOf(tbs[0])[0]) : 0;
  // 2 means version 3, the only one that has extensions.
  if (version !== 2) throw new DerInvalid('not version 3');
  const [serial, , issuer, validity, subject] = tbs.slice(1);
  const [notBefore, notAfter] = sequenceOf(validity);
  const wrapper = tbs.slice(7).find((node) => isContext(node, 3));
  const extensions =
    wrapper === undefined ? new Map<string, Extension>() : extensionsOf(elementsOf(wrapper)[0]);
  for (const [oid, { critical }] of extensions) {
    if (critical && !UNDERSTOOD.has(oid)) throw new CertificateRejected('UNKNOWN_CRITICAL_EXTENSION');
  }
  const x509 = openX509(der);
  return {
    der,
    sha256: createHash('sha256').update(der).digest(),
    x509,
    publicKey: publicKeyOf(x509),
    serial: primitiveOf(serial, Tag.integer).toString('hex'),
    issuer: nameOf(issuer),
    subject: nameOf(subject),
    notBeforeMicros: timeOf(notBefore),
    notAfterMicros: timeOf(notAfter),
    ...basicConstraintsOf(extensions.get(ExtensionOid.basicConstraints)),
    keyUsage: keyUsageOf(extensions.get(ExtensionOid.keyUsage)),
    extendedKeyUsage: extendedKeyUsageOf(extensions.get(ExtensionOid.extendedKeyUsage)),
    uriSans: uriSansOf(extensions.get(ExtensionOid.subjectAltName)),
  };
}

function openX509(der: Buffer): X509Certificate {
  try {
    return new X509Certificate(der);
  } catch {
    throw new CertificateRejected('MALFORMED');
  }
}

function publicKeyOf(x509: X509Certificate): KeyObject {
  try {
    return x509.publicKey;
  } catch {
    throw new CertificateRejected('KEY_UNSUPPORTED');
  }
}

function nameOf(node: DerNode | undefined): Buffer {
  if (!isUniversal(node, Tag.sequence)) throw new DerInvalid('Name expected');
  return derOf(node);
}

function basicConstraintsOf(extension: Extension | undefined): {
  isCa: boolean;
  pathLength: number | undefined;
} {
  if (extension === undefined) return { isCa: false, pathLength: undefined };
  const parts = sequenceOf(readDer(extension.value));
  const hasCa = isUniversal(parts[0], Tag.boolean);
  const isCa = hasCa && booleanOf(parts[0]);
  const rest = parts.slice(hasCa ? 1 : 0);
  if (rest.length > 1) throw new DerInvalid('basic constraints with more than two parts');
  return { isCa, pathLength: rest.length === 1 ? smallIntegerOf(rest[0]) : undefined };
}

function keyUsageOf(extension: Extension | undefined): KeyUsage | undefined {
  if (extension === undefined) return undefined;
  const [unused, bits = 0] = primitiveOf(readDer(extension.value), Tag.bitString);
  if (unused === undefined || unused > 7) throw new DerInvalid('not a KeyUsage');
  return {
    critical: extension.critical,
    digitalSignature: (bits & 0x80) !== 0,
    keyCertSign: (bits & 0x04) !== 0,
    cRLSign: (bits & 0x02) !== 0,
  };
}

function extendedKeyUsageOf(extension: Extension | undefined): readonly string[] | undefined {
  return extension === undefined ? undefined : sequenceOf(readDer(extension.value)).map(oidOf);
}

function uriSansOf(extension: Extension | undefined): readonly string[] {
  if (extension === undefined) return [];
  return sequenceOf(readDer(extension.value))
    .filter((name) => isContext(name, URI_GENERAL_NAME))
    .map((name) => bytesOf(name).toString('latin1'));
}

/**
 * SHA-256 of the key's SubjectPublicKeyInfo in its one canonical encoding.
 *
 * The key goes through a JWK first, since the same point can stand in a certificate compressed or not: a key
 * must not look like two keys to whoever compares digests (effects.md wants reconcilers to be independent).
 *
 * @throws {CertificateRejected} KEY_UNSUPPORTED for what is neither RSA of 2048 bits or more, nor a NIST curve
 * of TLS 1.3, nor Ed25519.
 */
export function publicKeySha256(key: KeyObject): Buffer {
  if (!isSupportedKey(key)) throw new CertificateRejected('KEY_UNSUPPORTED');
  const canonical = createPublicKey({ key: key.export({ format: 'jwk' }), format: 'jwk' });
  return createHash('sha256')
    .update(canonical.export({ type: 'spki', format: 'der' }))
    .digest();
}

const SUPPORTED_CURVES: ReadonlySet<string> = new Set(['prime256v1', 'secp384r1', 'secp521r1']);
const MIN_RSA_BITS = 2048;

function isSupportedKey(key: KeyObject): boolean {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'rsa') return (details?.modulusLength ?? 0) >= MIN_RSA_BITS;
  if (type === 'ec') return SUPPORTED_CURVES.has(details?.namedCurve ?? '');
  return type === 'ed25519';
}

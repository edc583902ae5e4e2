import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writePem } from '../../src/identity/pem.js';
import * as der from './der-writer.js';

/** Mints certificates, right ones and every kind of wrong one. */

export type KeyKind = 'ec' | 'rsa' | 'rsa-1024' | 'ed25519' | 'secp256k1';

export interface KeyPair {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

const rsaKeys = new Map<number, KeyPair>();

export function makeKey(kind: KeyKind = 'ec'): KeyPair {
  switch (kind) {
    case 'ec':
      return generateKeyPairSync('ec', { namedCurve: 'P-256' });
    case 'secp256k1':
      return generateKeyPairSync('ec', { namedCurve: 'secp256k1' });
    case 'ed25519':
      return generateKeyPairSync('ed25519');
    case 'rsa':
    case 'rsa-1024': {
      // Slow to make, and no test here needs two different ones.
      const modulusLength = kind === 'rsa' ? 2048 : 1024;
      const pair = rsaKeys.get(modulusLength) ?? generateKeyPairSync('rsa', { modulusLength });
      rsaKeys.set(modulusLength, pair);
      return pair;
    }
  }
}

export const OID = {
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  nameConstraints: '2.5.29.30',
  extendedKeyUsage: '2.5.29.37',
  subjectKeyIdentifier: '2.5.29.14',
  authorityKeyIdentifier: '2.5.29.35',
  serverAuth: '1.3.6.1.5.5.7.3.1',
  clientAuth: '1.3.6.1.5.5.7.3.2',
} as const;

const KEY_USAGE_BITS = {
  digitalSignature: 0x80,
  nonRepudiation: 0x40,
  keyEncipherment: 0x20,
  keyCertSign: 0x04,
  cRLSign: 0x02,
} as const;

export type KeyUsageBit = keyof typeof KEY_USAGE_BITS;

export interface ExtensionSpec {
  readonly oid: string;
  readonly critical: boolean;
  readonly value: Uint8Array;
}

export interface CertificateSpec {
  /** URI SANs, byte for byte. */
  readonly uris?: readonly string[];
  readonly dnsNames?: readonly string[];
  readonly ipAddresses?: readonly string[];
  readonly commonName?: string;
  readonly key?: KeyPair;
  readonly keyKind?: KeyKind;
  readonly serial?: bigint;
  readonly notBefore?: Date;
  readonly notAfter?: Date;
  /** null leaves the extension out. */
  readonly basicConstraints?: { readonly ca: boolean; readonly pathLength?: number } | null;
  readonly keyUsage?: readonly KeyUsageBit[] | null;
  readonly keyUsageCritical?: boolean;
  readonly extendedKeyUsage?: readonly string[] | null;
  readonly extensions?: readonly ExtensionSpec[];
  /** Changes the signed bytes before they are signed. */
  readonly tamper?: (der: Buffer) => Buffer;
}

export interface Certificate {
  readonly der: Buffer;
  readonly pem: string;
  readonly key: KeyPair;
  readonly keyPem: string;
  readonly serial: bigint;
  readonly sha256: Buffer;
}

const HOUR_MS = 3_600_000;

function name(commonName: string): Buffer {
  return der.sequence(der.set(der.sequence(der.oid('2.5.4.3'), der.utf8String(commonName))));
}

function signatureAlgorithm(key: KeyObject): Buffer {
  if (key.asymmetricKeyType === 'rsa') return der.sequence(der.oid('1.2.840.113549.1.1.11'), der.nullValue());
  return der.sequence(der.oid(key.asymmetricKeyType === 'ec' ? '1.2.840.10045.4.3.2' : '1.3.101.112'));
}

function signed(tbs: Buffer, key: KeyObject): Buffer {
  const digest = key.asymmetricKeyType === 'ed25519' ? null : 'sha256';
  return der.sequence(tbs, signatureAlgorithm(key), der.bitString(sign(digest, tbs, key)));
}

export function extension({ oid, critical, value }: ExtensionSpec): Buffer {
  return der.sequence(der.oid(oid), ...(critical ? [der.boolean(true)] : []), der.octetString(value));
}

function keyIdentifier(key: KeyObject): Buffer {
  return createHash('sha1')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest();
}

function subjectAltName(spec: CertificateSpec): Buffer | undefined {
  const names = [
    ...(spec.uris ?? []).map((uri) => der.implicit(6, Buffer.from(uri, 'latin1'))),
    ...(spec.dnsNames ?? []).map((dns) => der.implicit(2, Buffer.from(dns))),
    ...(spec.ipAddresses ?? []).map((ip) => der.implicit(7, Buffer.from(ip.split('.').map(Number)))),
  ];
  return names.length === 0 ? undefined : der.sequence(...names);
}

function extensionsOf(spec: CertificateSpec, subject: KeyPair, issuerKey: KeyObject): ExtensionSpec[] {
  const extensions: ExtensionSpec[] = [
    {
      oid: OID.subjectKeyIdentifier,
      critical: false,
      value: der.octetString(keyIdentifier(subject.publicKey)),
    },
    {
      oid: OID.authorityKeyIdentifier,
      critical: false,
      value: der.sequence(der.implicit(0, keyIdentifier(issuerKey))),
    },
  ];
  if (spec.basicConstraints !== undefined && spec.basicConstraints !== null) {
    const { ca, pathLength } = spec.basicConstraints;
    const parts = [...(ca ? [der.boolean(true)] : [])];
    if (pathLength !== undefined) parts.push(der.integer(BigInt(pathLength)));
    extensions.push({ oid: OID.basicConstraints, critical: true, value: der.sequence(...parts) });
  }
  if (spec.keyUsage !== undefined && spec.keyUsage !== null) {
    const bits = spec.keyUsage.reduce((all, bit) => all | KEY_USAGE_BITS[bit], 0);
    // DER: no trailing zero bits in a named bit list.
    const unused = bits === 0 ? 0 : Math.log2(bits & -bits);
    const value = der.bitString(Buffer.from(bits === 0 ? [] : [bits]), unused);
    extensions.push({ oid: OID.keyUsage, critical: spec.keyUsageCritical ?? true, value });
  }
  if (spec.extendedKeyUsage !== undefined && spec.extendedKeyUsage !== null) {
    const value = der.sequence(...spec.extendedKeyUsage.map(der.oid));
    extensions.push({ oid: OID.extendedKeyUsage, critical: false, value });
  }
  const names = subjectAltName(spec);
  if (names !== undefined) extensions.push({ oid: OID.subjectAltName, critical: false, value: names });
  return [...extensions, ...(spec.extensions ?? [])];
}

function mint(spec: CertificateSpec, issuerName: string, issuerKey?: KeyPair): Certificate {
  const key = spec.key ?? makeKey(spec.keyKind);
  const signer = issuerKey ?? key;
  const serial = spec.serial ?? BigInt(`0x${randomBytes(8).toString('hex')}`);
  const tbs = der.sequence(
    der.explicit(0, der.integer(2n)),
    der.integer(serial),
    signatureAlgorithm(signer.privateKey),
    name(issuerName),
    der.sequence(
      der.time(spec.notBefore ?? new Date(Date.now() - HOUR_MS)),
      der.time(spec.notAfter ?? new Date(Date.now() + 24 * HOUR_MS)),
    ),
    name(spec.commonName ?? `certificate ${serial}`),
    key.publicKey.export({ type: 'spki', format: 'der' }),
    der.explicit(3, der.sequence(...extensionsOf(spec, key, signer.publicKey).map(extension))),
  );
  const bytes = signed(spec.tamper?.(tbs) ?? tbs, signer.privateKey);
  return {
    der: bytes,
    pem: writePem(bytes, 'CERTIFICATE'),
    key,
    keyPem: key.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    serial,
    sha256: createHash('sha256').update(bytes).digest(),
  };
}

export interface CrlSpec {
  readonly revoked?: readonly bigint[];
  readonly nextUpdate?: Date | null;
  /** Signs in this authority's name with another key. */
  readonly key?: KeyPair;
  readonly listExtensions?: readonly ExtensionSpec[];
  readonly entryExtensions?: readonly ExtensionSpec[];
}

/** A certificate authority that issues whatever it is told to. */
export class Authority {
  constructor(
    readonly commonName: string,
    readonly certificate: Certificate,
  ) {}

  /** A self-signed one. The defaults are right; `spec` breaks them. */
  static root(commonName: string, spec: CertificateSpec = {}): Authority {
    return new Authority(commonName, mint({ ...AUTHORITY, ...spec, commonName }, commonName));
  }

  get pem(): string {
    return this.certificate.pem;
  }

  get der(): Buffer {
    return this.certificate.der;
  }

  /** Another authority below this one. */
  intermediate(commonName: string, spec: CertificateSpec = {}): Authority {
    const certificate = mint({ ...AUTHORITY, ...spec, commonName }, this.commonName, this.certificate.key);
    return new Authority(commonName, certificate);
  }

  /** A leaf. With only a SPIFFE ID it is one that every rule accepts. */
  leaf(uri: string | readonly string[], spec: CertificateSpec = {}): Certificate {
    const uris = typeof uri === 'string' ? [uri] : uri;
    return mint({ ...LEAF, uris, ...spec }, this.commonName, this.certificate.key);
  }

  crl(spec: CrlSpec = {}): string {
    return writePem(this.crlDer(spec), 'X509 CRL');
  }

  crlDer(spec: CrlSpec = {}): Buffer {
    const key = (spec.key ?? this.certificate.key).privateKey;
    const nextUpdate = spec.nextUpdate === undefined ? new Date(Date.now() + 24 * HOUR_MS) : spec.nextUpdate;
    const entries = (spec.revoked ?? []).map((serial) =>
      der.sequence(der.integer(serial), der.time(new Date()), ...extensionList(spec.entryExtensions)),
    );
    const tbs = der.sequence(
      der.integer(1n),
      signatureAlgorithm(key),
      name(this.commonName),
      der.time(new Date(Date.now() - HOUR_MS)),
      ...(nextUpdate === null ? [] : [der.time(nextUpdate)]),
      ...(entries.length === 0 ? [] : [der.sequence(...entries)]),
      ...extensionList(spec.listExtensions).map((list) => der.explicit(0, list)),
    );
    return signed(tbs, key);
  }
}

function extensionList(extensions: readonly ExtensionSpec[] | undefined): Buffer[] {
  return extensions === undefined ? [] : [der.sequence(...extensions.map(extension))];
}

const AUTHORITY: CertificateSpec = {
  basicConstraints: { ca: true },
  keyUsage: ['keyCertSign', 'cRLSign'],
};

const LEAF: CertificateSpec = {
  basicConstraints: { ca: false },
  keyUsage: ['digitalSignature', 'keyEncipherment'],
  extendedKeyUsage: [OID.serverAuth, OID.clientAuth],
};

/** A folder of bundles that a test fills and changes. */
export class BundleFolder {
  readonly path = mkdtempSync(join(tmpdir(), 'surety-bundles-'));

  bundle(trustDomain: string, ...authorities: readonly Authority[]): this {
    return this.file(`${trustDomain}.pem`, authorities.map(({ pem }) => pem).join(''));
  }

  crl(trustDomain: string, pem: string): this {
    return this.file(`${trustDomain}.crl.pem`, pem);
  }

  file(file: string, content: string): this {
    writeFileSync(join(this.path, file), content);
    return this;
  }

  delete(file: string): this {
    rmSync(join(this.path, file));
    return this;
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

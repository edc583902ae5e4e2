import { createPublicKey, generateKeyPair, type KeyObject, randomBytes, sign } from 'node:crypto';
import { promisify } from 'node:util';
import forge from 'node-forge';

/** A certificate and its private key, PEM. */
export interface Minted {
  readonly certificatePem: string;
  readonly keyPem: string;
}

/** An authority that can issue; its key lives only as long as this object. */
export interface MintedAuthority extends Minted {
  readonly certificate: forge.pki.Certificate;
  readonly privateKey: KeyObject;
}

/** From when to when a certificate holds. */
export interface Validity {
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** node-forge signs RSA only; what OpenSSL and every client accept today, and quick to make. */
const KEY_BITS = 2048;

const generateRsa = promisify(generateKeyPair);

interface RsaKey {
  readonly pem: string;
  readonly publicKey: forge.pki.rsa.PublicKey;
  readonly privateKey: KeyObject;
}

/** Made by node:crypto, off the event loop; node-forge's own generator is slow and less examined. */
async function makeKey(): Promise<RsaKey> {
  const { privateKey } = await generateRsa('rsa', { modulusLength: KEY_BITS });
  const publicPem = createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }).toString();
  return {
    pem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    publicKey: forge.pki.publicKeyFromPem(publicPem),
    privateKey,
  };
}

/** Mints a self-signed authority for one trust domain. It names the domain, as SPIRE's authorities do. */
export async function mintAuthority(trustDomain: string, validity: Validity): Promise<MintedAuthority> {
  const key = await makeKey();
  const certificate = prepare(key, `${trustDomain} development authority`, validity);
  certificate.setIssuer(certificate.subject.attributes);
  certificate.setExtensions([
    // No authority below this one.
    { name: 'basicConstraints', critical: true, cA: true, pathLenConstraint: 0 },
    { name: 'keyUsage', critical: true, keyCertSign: true, cRLSign: true },
    { name: 'subjectAltName', altNames: [uri(`spiffe://${trustDomain}`)] },
    { name: 'subjectKeyIdentifier' },
    { name: 'authorityKeyIdentifier', keyIdentifier: true },
  ]);
  return { ...finish(certificate, key.privateKey, key.pem), certificate, privateKey: key.privateKey };
}

/** What a leaf says about whose it is. */
export interface LeafNames {
  readonly spiffeId: string;
  readonly commonName: string;
  readonly dnsNames?: readonly string[];
  readonly ipAddresses?: readonly string[];
}

/** Mints a leaf that obeys the rules of identity.md, The connection. */
export async function mintLeaf(
  authority: MintedAuthority,
  names: LeafNames,
  validity: Validity,
): Promise<Minted> {
  const key = await makeKey();
  const certificate = prepare(key, names.commonName, validity);
  certificate.setIssuer(authority.certificate.subject.attributes);
  certificate.setExtensions([
    { name: 'basicConstraints', critical: true, cA: false },
    { name: 'keyUsage', critical: true, digitalSignature: true },
    { name: 'extKeyUsage', serverAuth: true, clientAuth: true },
    {
      name: 'subjectAltName',
      altNames: [
        uri(names.spiffeId),
        ...(names.dnsNames ?? []).map((value) => ({ type: 2, value })),
        ...(names.ipAddresses ?? []).map((ip) => ({ type: 7, ip })),
      ],
    },
    { name: 'subjectKeyIdentifier' },
    {
      name: 'authorityKeyIdentifier',
      keyIdentifier: authority.certificate.generateSubjectKeyIdentifier().getBytes(),
    },
  ]);
  return finish(certificate, authority.privateKey, key.pem);
}

function uri(value: string): { type: number; value: string } {
  return { type: 6, value };
}

function prepare(key: RsaKey, commonName: string, { notBefore, notAfter }: Validity): forge.pki.Certificate {
  const certificate = forge.pki.createCertificate();
  certificate.publicKey = key.publicKey;
  certificate.serialNumber = positiveSerial();
  certificate.validity.notBefore = notBefore;
  certificate.validity.notAfter = notAfter;
  certificate.setSubject([{ shortName: 'CN', value: commonName }]);
  return certificate;
}

/** 16 random bytes whose first is 40 to 7f: neither negative nor written shorter (RFC 5280, 4.1.2.2). */
function positiveSerial(): string {
  const serial = randomBytes(16);
  serial[0] = 0x40 | ((serial[0] ?? 0) & 0x3f);
  return serial.toString('hex');
}

/** What node-forge asks of a key when it signs a certificate. */
type ForgeSigner = Parameters<forge.pki.Certificate['sign']>[0];

function finish(certificate: forge.pki.Certificate, signer: KeyObject, keyPem: string): Minted {
  // node-forge prepares the bytes; OpenSSL signs them, in a fiftieth of the time.
  const openssl = {
    sign: (): string => {
      const signed = forge.asn1.toDer(certificate.tbsCertificate).getBytes();
      return sign('sha256', Buffer.from(signed, 'latin1'), signer).toString('latin1');
    },
  };
  certificate.sign(openssl as unknown as ForgeSigner, forge.md.sha256.create());
  return { certificatePem: forge.pki.certificateToPem(certificate).replaceAll('\r\n', '\n'), keyPem };
}

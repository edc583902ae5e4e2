import { calculateJwkThumbprint, type JWK } from 'jose';
import { createHash, createPublicKey } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { inspectLeaf } from '../../src/identity/certificate.js';
import { MAX_CERTIFICATE_BYTES } from '../../src/identity/certificate-fields.js';
import { CertificateRejected } from '../../src/identity/certificate-rejected.js';
import * as der from '../support/der-writer.js';
import { Authority, type CertificateSpec, type KeyKind, makeKey, OID } from '../support/pki.js';

const SPIFFE_ID = 'spiffe://acme.test/executor/payments-a';
const authority = Authority.root('acme authority');

function rejection(act: () => unknown): string {
  try {
    act();
    return 'accepted';
  } catch (error) {
    if (error instanceof CertificateRejected) return error.reason;
    throw error;
  }
}

function rejectionOf(uris: string | readonly string[], spec: CertificateSpec = {}): string {
  return rejection(() => inspectLeaf(authority.leaf(uris, spec).der));
}

describe('leaf rules (identity.md, The connection)', () => {
  it.each<KeyKind>(['ec', 'rsa', 'ed25519'])('reads a right leaf with a key of kind %s', async (keyKind) => {
    const notBefore = new Date('2031-02-03T04:05:06Z');
    const notAfter = new Date('2055-06-07T08:09:10Z');
    const leaf = authority.leaf(SPIFFE_ID, {
      keyKind,
      notBefore,
      notAfter,
      serial: 0xfeedn,
      dnsNames: ['localhost'],
    });
    expect(inspectLeaf(leaf.der)).toEqual({
      spiffeId: SPIFFE_ID,
      trustDomain: 'acme.test',
      sha256: createHash('sha256').update(leaf.der).digest(),
      publicKeySha256: createHash('sha256')
        .update(leaf.key.publicKey.export({ type: 'spki', format: 'der' }))
        .digest(),
      publicKeyThumbprint: await calculateJwkThumbprint(leaf.key.publicKey.export({ format: 'jwk' }) as JWK),
      serial: '00feed',
      notBeforeMicros: BigInt(notBefore.getTime()) * 1000n,
      notAfterMicros: BigInt(notAfter.getTime()) * 1000n,
    });
  });

  it('needs exactly one URI SAN', () => {
    expect(rejectionOf([])).toBe('URI_SAN_NOT_SINGLE');
    expect(rejectionOf([], { dnsNames: ['acme.test'] })).toBe('URI_SAN_NOT_SINGLE');
    expect(rejectionOf([SPIFFE_ID, 'spiffe://acme.test/owner/olga'])).toBe('URI_SAN_NOT_SINGLE');
    expect(rejectionOf([SPIFFE_ID, SPIFFE_ID])).toBe('URI_SAN_NOT_SINGLE');
    expect(rejectionOf([SPIFFE_ID, 'https://acme.test/'])).toBe('URI_SAN_NOT_SINGLE');
  });

  it('reads the raw URI, never a printed form that quoting could forge', () => {
    expect(rejectionOf(`spiffe://acme.test/x", URI:"${SPIFFE_ID}`)).toBe('SPIFFE_ID_INVALID');
    expect(rejectionOf(`spiffe://acme.test/x, URI:${SPIFFE_ID}`)).toBe('SPIFFE_ID_INVALID');
    expect(rejectionOf(`"${SPIFFE_ID}"`)).toBe('SPIFFE_ID_INVALID');
    expect(rejectionOf(`${SPIFFE_ID}\0.evil`)).toBe('SPIFFE_ID_INVALID');
    // The name stands in a DNS SAN, where a printed form would show it as a URI.
    expect(rejectionOf([], { dnsNames: [`x, URI:${SPIFFE_ID}`] })).toBe('URI_SAN_NOT_SINGLE');
    expect(rejectionOf([], { commonName: SPIFFE_ID })).toBe('URI_SAN_NOT_SINGLE');
    expect(rejectionOf('spiffe://acme.test/')).toBe('SPIFFE_ID_INVALID');
    expect(rejectionOf('spiffe://acme.test')).toBe('SPIFFE_ID_INVALID');
  });

  it('refuses an authority as a leaf', () => {
    expect(rejectionOf(SPIFFE_ID, { basicConstraints: { ca: true } })).toBe('LEAF_IS_CA');
    expect(rejectionOf(SPIFFE_ID, { basicConstraints: null })).toBe('accepted');
  });

  it('needs a critical key usage with digitalSignature and no signing of certificates or lists', () => {
    expect(rejectionOf(SPIFFE_ID, { keyUsage: null })).toBe('KEY_USAGE_INVALID');
    expect(rejectionOf(SPIFFE_ID, { keyUsage: ['keyEncipherment'] })).toBe('KEY_USAGE_INVALID');
    expect(rejectionOf(SPIFFE_ID, { keyUsage: ['digitalSignature', 'keyCertSign'] })).toBe(
      'KEY_USAGE_INVALID',
    );
    expect(rejectionOf(SPIFFE_ID, { keyUsage: ['digitalSignature', 'cRLSign'] })).toBe('KEY_USAGE_INVALID');
    expect(rejectionOf(SPIFFE_ID, { keyUsageCritical: false })).toBe('KEY_USAGE_NOT_CRITICAL');
    expect(rejectionOf(SPIFFE_ID, { keyUsage: ['digitalSignature'] })).toBe('accepted');
  });

  it('needs client and server authentication where an extended key usage is there', () => {
    expect(rejectionOf(SPIFFE_ID, { extendedKeyUsage: null })).toBe('accepted');
    expect(rejectionOf(SPIFFE_ID, { extendedKeyUsage: [OID.clientAuth] })).toBe('EXTENDED_KEY_USAGE_INVALID');
    expect(rejectionOf(SPIFFE_ID, { extendedKeyUsage: [OID.serverAuth] })).toBe('EXTENDED_KEY_USAGE_INVALID');
    expect(rejectionOf(SPIFFE_ID, { extendedKeyUsage: ['2.5.29.37.0'] })).toBe('EXTENDED_KEY_USAGE_INVALID');
  });

  it('refuses a critical extension that it does not understand, and any extension given twice', () => {
    const unknown = { oid: '1.3.6.1.4.1.99999.1', value: der.nullValue() };
    expect(rejectionOf(SPIFFE_ID, { extensions: [{ ...unknown, critical: true }] })).toBe(
      'UNKNOWN_CRITICAL_EXTENSION',
    );
    expect(rejectionOf(SPIFFE_ID, { extensions: [{ ...unknown, critical: false }] })).toBe('accepted');
    const second = {
      oid: OID.subjectAltName,
      critical: false,
      value: der.sequence(der.implicit(6, Buffer.from(SPIFFE_ID))),
    };
    expect(rejectionOf('spiffe://acme.test/owner/olga', { extensions: [second] })).toBe(
      'DUPLICATE_EXTENSION',
    );
  });

  it('refuses keys that are too weak or of an unusual kind', () => {
    expect(rejectionOf(SPIFFE_ID, { keyKind: 'rsa-1024' })).toBe('KEY_UNSUPPORTED');
    expect(rejectionOf(SPIFFE_ID, { keyKind: 'secp256k1' })).toBe('KEY_UNSUPPORTED');
  });

  it('sees one key in two encodings of it', () => {
    const { publicKey, privateKey } = makeKey('ec');
    const jwk = publicKey.export({ format: 'jwk' });
    const x = Buffer.from(jwk.x ?? '', 'base64url');
    const parity = (Buffer.from(jwk.y ?? '', 'base64url').at(-1) ?? 0) & 1;
    const compressed = createPublicKey({
      key: der.sequence(
        der.sequence(der.oid('1.2.840.10045.2.1'), der.oid('1.2.840.10045.3.1.7')),
        der.bitString(Buffer.concat([Buffer.from([2 + parity]), x])),
      ),
      format: 'der',
      type: 'spki',
    });
    const one = authority.leaf(SPIFFE_ID, { key: { publicKey, privateKey } });
    const other = authority.leaf(SPIFFE_ID, { key: { publicKey: compressed, privateKey } });
    expect(other.der.includes(Buffer.concat([Buffer.from([2 + parity]), x]))).toBe(true);
    expect(inspectLeaf(other.der).publicKeySha256).toEqual(inspectLeaf(one.der).publicKeySha256);
  });

  it('refuses bytes that are not one DER certificate of version 3', () => {
    const right = authority.leaf(SPIFFE_ID).der;
    expect(rejection(() => inspectLeaf(Buffer.alloc(0)))).toBe('MALFORMED');
    expect(rejection(() => inspectLeaf(right.subarray(0, -1)))).toBe('MALFORMED');
    expect(rejection(() => inspectLeaf(Buffer.concat([right, Buffer.from([0])])))).toBe('MALFORMED');
    expect(rejection(() => inspectLeaf(Buffer.alloc(MAX_CERTIFICATE_BYTES + 1, 0x30)))).toBe('MALFORMED');
    expect(rejection(() => inspectLeaf(der.sequence()))).toBe('MALFORMED');
    // The same certificate, its outermost length written longer than DER allows.
    const content = right.subarray(4);
    const longer = Buffer.concat([
      Buffer.from([0x30, 0x83, 0, content.length >> 8, content.length & 0xff]),
      content,
    ]);
    expect(rejection(() => inspectLeaf(longer))).toBe('MALFORMED');
    expect(
      rejectionOf(SPIFFE_ID, {
        tamper: (tbs) =>
          Buffer.from(tbs.toString('latin1').replace('\x02\x01\x02', '\x02\x01\x00'), 'latin1'),
      }),
    ).toBe('MALFORMED');
  });

  it('survives every cut and every flipped byte of a certificate', () => {
    const right = authority.leaf(SPIFFE_ID).der;
    for (let at = 0; at < right.length; at += 1) {
      const flipped = Buffer.from(right);
      flipped[at] = (flipped[at] ?? 0) ^ 0xff;
      expect(typeof rejection(() => inspectLeaf(flipped))).toBe('string');
      expect(rejection(() => inspectLeaf(right.subarray(0, at)))).toBe('MALFORMED');
    }
  });
});

import { describe, expect, it } from 'vitest';
import { readCertificate } from '../../src/identity/certificate-fields.js';
import { CrlInvalid, isCrlSignedBy, readCrl } from '../../src/identity/crl.js';
import * as der from '../support/der-writer.js';
import { Authority, type KeyKind, makeKey } from '../support/pki.js';

describe('certificate revocation lists', () => {
  it.each<KeyKind>(['ec', 'rsa', 'ed25519'])(
    'reads and verifies a list signed with a key of kind %s',
    (keyKind) => {
      const authority = Authority.root('authority', { keyKind });
      const nextUpdate = new Date('2044-01-02T03:04:05Z');
      const crl = readCrl(authority.crlDer({ revoked: [0x8001n, 7n], nextUpdate }));
      expect([...crl.revokedSerials]).toEqual(['008001', '07']);
      expect(crl.nextUpdateMicros).toBe(BigInt(nextUpdate.getTime()) * 1000n);
      expect(isCrlSignedBy(crl, readCertificate(authority.der))).toBe(true);
    },
  );

  it('is not signed by who merely has the name, another key, or no right to sign lists', () => {
    const authority = Authority.root('authority');
    const crl = readCrl(authority.crlDer());
    expect(isCrlSignedBy(crl, readCertificate(Authority.root('authority').der))).toBe(false);
    expect(isCrlSignedBy(crl, readCertificate(Authority.root('authority', { keyKind: 'rsa' }).der))).toBe(
      false,
    );
    const sameKey = { key: authority.certificate.key };
    expect(isCrlSignedBy(crl, readCertificate(Authority.root('another', sameKey).der))).toBe(false);
    const noLists = Authority.root('authority', { ...sameKey, keyUsage: ['keyCertSign'] });
    expect(isCrlSignedBy(crl, readCertificate(noLists.der))).toBe(false);
    expect(isCrlSignedBy(readCrl(authority.crlDer({ key: makeKey() })), readCertificate(authority.der))).toBe(
      false,
    );
  });

  it('refuses a list that it cannot honour in full', () => {
    const authority = Authority.root('authority');
    const critical = [{ oid: '2.5.29.28', critical: true, value: der.sequence() }];
    const harmless = [{ oid: '2.5.29.20', critical: false, value: der.integer(1n) }];
    expect(() => readCrl(authority.crlDer({ listExtensions: critical }))).toThrow(CrlInvalid);
    expect(() => readCrl(authority.crlDer({ revoked: [1n], entryExtensions: critical }))).toThrow(CrlInvalid);
    expect(() => readCrl(authority.crlDer({ nextUpdate: null }))).toThrow(CrlInvalid);
    expect(() => readCrl(authority.crlDer().subarray(0, -1))).toThrow(CrlInvalid);
    expect(() => readCrl(authority.der)).toThrow(CrlInvalid);
    expect(
      readCrl(authority.crlDer({ listExtensions: harmless, entryExtensions: harmless })).revokedSerials.size,
    ).toBe(0);
  });
});

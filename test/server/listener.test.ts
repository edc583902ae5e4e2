import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NOBODY, peerOf, peerOfSocket } from '../../src/identity/connection-peer.js';
import { inspectLeaf } from '../../src/identity/certificate.js';
import { Authority, type CertificateSpec, OID } from '../support/pki.js';
import {
  CALLER_ID,
  Caller,
  type Harness,
  HTTP2_OPENING,
  rawTls,
  startHarness,
  until,
  whoAmI,
} from './harness.js';

let harness: Harness;
beforeAll(async () => {
  harness = await startHarness();
});
afterAll(() => harness.stop());

const HOUR_MS = 3_600_000;
const ENDED_AT_TLS = { code: 'UNAVAILABLE', text: expect.any(String) };

function refused(reason: string): number {
  return harness.listener.refusals.get(reason) ?? 0;
}

async function wrong(uris: string | readonly string[], spec: CertificateSpec = {}) {
  return whoAmI(harness, harness.authorities.acme.leaf(uris, spec));
}

describe('who gets in, over a real TLS connection (identity.md, The connection)', () => {
  it.each(['ec', 'rsa', 'ed25519'] as const)('a right leaf with a key of kind %s', async (keyKind) => {
    const leaf = harness.authorities.acme.leaf(CALLER_ID, { keyKind });
    expect(await whoAmI(harness, leaf)).toEqual({ code: 'OK', text: CALLER_ID });
    const inspected = inspectLeaf(leaf.der);
    expect(harness.seen.at(-1)).toMatchObject({
      spiffeId: CALLER_ID,
      trustDomain: 'acme.test',
      leafSha256: leaf.sha256,
      publicKeySha256: inspected.publicKeySha256,
      publicKeyThumbprint: inspected.publicKeyThumbprint,
      notAfterMicros: expect.any(BigInt),
    });
  });

  it('a leaf behind an intermediate that the client sends', async () => {
    const middle = harness.authorities.acme.intermediate('middle');
    expect(await whoAmI(harness, middle.leaf(CALLER_ID), [middle.certificate])).toEqual({
      code: 'OK',
      text: CALLER_ID,
    });
    const deep = middle.intermediate('deep');
    const sent = [deep.certificate, middle.certificate];
    expect(await whoAmI(harness, deep.leaf(CALLER_ID), sent)).toEqual({ code: 'OK', text: CALLER_ID });
    const tooDeep = deep.intermediate('too deep');
    const refused = await whoAmI(harness, tooDeep.leaf(CALLER_ID), [tooDeep.certificate, ...sent]);
    expect(refused).toEqual(ENDED_AT_TLS);
  });

  it('nobody without a certificate', async () => {
    expect(await whoAmI(harness, undefined)).toEqual(ENDED_AT_TLS);
    expect(refused('NO_CERTIFICATE')).toBe(1);
  });

  it('nobody whose certificate has expired or is not yet valid', async () => {
    expect(await wrong(CALLER_ID, { notAfter: new Date(Date.now() - 2_000) })).toEqual(ENDED_AT_TLS);
    expect(refused('EXPIRED')).toBe(1);
    expect(await wrong(CALLER_ID, { notBefore: new Date(Date.now() + HOUR_MS) })).toEqual(ENDED_AT_TLS);
    expect(refused('NOT_YET_VALID')).toBe(1);
  });

  it('nobody of an authority that no bundle has, whatever its name', async () => {
    expect(await whoAmI(harness, Authority.root('acme authority').leaf(CALLER_ID))).toEqual(ENDED_AT_TLS);
    expect(await whoAmI(harness, Authority.root('stranger').leaf(CALLER_ID))).toEqual(ENDED_AT_TLS);
  });

  it('nobody whom the authority of another trusted domain vouches for', async () => {
    const before = refused('CHAIN_UNTRUSTED');
    const { globex, acme } = harness.authorities;
    expect(await whoAmI(harness, globex.leaf(CALLER_ID))).toEqual(ENDED_AT_TLS);
    expect(await whoAmI(harness, globex.leaf(CALLER_ID), [globex.certificate, acme.certificate])).toEqual(
      ENDED_AT_TLS,
    );
    expect(refused('CHAIN_UNTRUSTED')).toBe(before + 2);
    expect(await whoAmI(harness, globex.leaf('spiffe://globex.test/executor/payments-a'))).toMatchObject({
      code: 'OK',
    });
  });

  it('nobody of a trust domain without a bundle', async () => {
    expect(await wrong('spiffe://initech.test/executor/x')).toEqual(ENDED_AT_TLS);
    expect(refused('TRUST_DOMAIN_UNKNOWN')).toBe(1);
  });

  it('nobody with an unknown critical extension', async () => {
    const extension = { oid: '1.3.6.1.4.1.99999.1', critical: true, value: Buffer.from([5, 0]) };
    expect(await wrong(CALLER_ID, { extensions: [extension] })).toEqual(ENDED_AT_TLS);
  });

  it.each<[string, string, string | string[], CertificateSpec]>([
    ['two URI SANs', 'URI_SAN_NOT_SINGLE', [CALLER_ID, 'spiffe://acme.test/owner/olga'], {}],
    ['no URI SAN', 'URI_SAN_NOT_SINGLE', [], { dnsNames: ['localhost'] }],
    ['a SAN with quotes in it', 'SPIFFE_ID_INVALID', `spiffe://acme.test/x", URI:"${CALLER_ID}`, {}],
    ['a SAN with a comma in it', 'SPIFFE_ID_INVALID', `spiffe://acme.test/x, URI:${CALLER_ID}`, {}],
    ['a DNS SAN that prints like a URI', 'URI_SAN_NOT_SINGLE', [], { dnsNames: [`x, URI:${CALLER_ID}`] }],
    ['a NUL in its SAN', 'SPIFFE_ID_INVALID', `${CALLER_ID}\0x`, {}],
    ['the root path', 'SPIFFE_ID_INVALID', 'spiffe://acme.test/', {}],
    ['an authority as leaf', 'LEAF_IS_CA', CALLER_ID, { basicConstraints: { ca: true } }],
    [
      'keyCertSign in its key usage',
      'KEY_USAGE_INVALID',
      CALLER_ID,
      { keyUsage: ['digitalSignature', 'keyCertSign'] },
    ],
    [
      'cRLSign in its key usage',
      'KEY_USAGE_INVALID',
      CALLER_ID,
      { keyUsage: ['digitalSignature', 'cRLSign'] },
    ],
    ['no key usage', 'KEY_USAGE_INVALID', CALLER_ID, { keyUsage: null }],
    ['a key usage that is not critical', 'KEY_USAGE_NOT_CRITICAL', CALLER_ID, { keyUsageCritical: false }],
    [
      'client authentication only',
      'EXTENDED_KEY_USAGE_INVALID',
      CALLER_ID,
      { extendedKeyUsage: [OID.clientAuth] },
    ],
  ])('a trusted leaf with %s is UNAUTHENTICATED on each call', async (_, reason, uris, spec) => {
    const caller = new Caller(harness, harness.authorities.acme.leaf(uris, spec));
    expect(await caller.whoAmI()).toEqual({ code: 'UNAUTHENTICATED', text: reason });
    expect(await caller.whoAmI()).toEqual({ code: 'UNAUTHENTICATED', text: reason });
    expect(caller.connected).toBe(true);
    expect(harness.seen.at(-1)).not.toHaveProperty('spiffeId');
    caller.close();
  });

  it.each<[string, CertificateSpec]>([
    ['a key usage without digitalSignature', { keyUsage: ['keyEncipherment'] }],
    ['server authentication only', { extendedKeyUsage: [OID.serverAuth] }],
    [
      'an authority without digitalSignature as leaf',
      { basicConstraints: { ca: true }, keyUsage: ['keyCertSign'] },
    ],
  ])('nobody with %s, which OpenSSL itself refuses in a client', async (_, spec) => {
    expect(await wrong(CALLER_ID, spec)).toEqual(ENDED_AT_TLS);
  });

  it('never whom a header claims', async () => {
    const caller = new Caller(harness, harness.authorities.acme.leaf(CALLER_ID));
    const root = 'spiffe://surety.test/operator/root';
    const headers = {
      'x-spiffe-id': root,
      'x-forwarded-client-cert': `URI=${root}`,
      forwarded: `for=${root}`,
    };
    expect(await caller.whoAmI(headers)).toEqual({ code: 'OK', text: `${CALLER_ID} ${root}` });
    expect(harness.seen.at(-1)).toMatchObject({ spiffeId: CALLER_ID });
    caller.close();
  });

  it('keeps the peers of many connections apart', async () => {
    const ids = Array.from({ length: 12 }, (_, index) => `spiffe://acme.test/executor/e${index}`);
    const callers = ids.map((id) => new Caller(harness, harness.authorities.acme.leaf(id)));
    for (let round = 0; round < 5; round += 1) {
      const outcomes = await Promise.all(callers.map((caller) => caller.whoAmI()));
      expect(outcomes.map(({ text }) => text)).toEqual(ids);
    }
    for (const caller of callers) caller.close();
  });
});

describe('the protocol under it', () => {
  const shown = () => {
    const leaf = harness.authorities.acme.leaf(CALLER_ID);
    return { cert: leaf.pem, key: leaf.keyPem };
  };

  it('is TLS 1.3 and nothing older', async () => {
    await expect(rawTls(harness, { ...shown(), maxVersion: 'TLSv1.2' })).rejects.toThrow(/version/i);
    const socket = await rawTls(harness, shown());
    expect(socket.getProtocol()).toBe('TLSv1.3');
    socket.destroy();
  });

  it('is HTTP/2, chosen by ALPN', async () => {
    await expect(rawTls(harness, { ...shown(), ALPNProtocols: ['http/1.1'] })).rejects.toThrow();
    const silent = await rawTls(harness, { ...shown(), ALPNProtocols: [] });
    await once(silent, 'close');
    expect(refused('NOT_HTTP2')).toBe(1);
  });

  it('resumes no session, since a resumed one would not show its certificates', async () => {
    const sessions: Buffer[] = [];
    const first = await rawTls(harness, shown());
    first.on('session', (session: Buffer) => sessions.push(session));
    first.write(HTTP2_OPENING);
    await once(first, 'data');
    await new Promise((resolve) => setTimeout(resolve, 50));
    first.destroy();
    for (const session of sessions) {
      const again = await rawTls(harness, { ...shown(), session });
      expect(again.isSessionReused()).toBe(false);
      again.destroy();
    }
  });

  it('has no plaintext side', async () => {
    const socket = connectTcp(harness.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    socket.resume();
    await once(socket, 'close');
    expect(await whoAmI(harness, harness.authorities.acme.leaf(CALLER_ID))).toMatchObject({ code: 'OK' });
  });

  it('shows who ended at TLS no HTTP/2 at all', async () => {
    const leaf = Authority.root('stranger').leaf(CALLER_ID);
    const socket = await rawTls(harness, { cert: leaf.pem, key: leaf.keyPem });
    const received: Buffer[] = [];
    socket.on('data', (data: Buffer) => received.push(data));
    socket.write(HTTP2_OPENING);
    await once(socket, 'close');
    expect(Buffer.concat(received)).toHaveLength(0);
  });
});

describe('the peer of a call', () => {
  it('is nobody when the connection cannot be determined', () => {
    expect(peerOf({ getAuthContext: () => ({}) })).toBe(NOBODY);
    expect(
      peerOf({ getAuthContext: () => ({ sslPeerCertificate: { raw: Buffer.from('x'), spiffeId: 'x' } }) }),
    ).toBe(NOBODY);
    const gone = () => {
      throw new Error('the socket is gone');
    };
    expect(peerOf({ getAuthContext: gone })).toBe(NOBODY);
    expect(peerOfSocket(undefined)).toBe(NOBODY);
    expect(peerOfSocket({})).toBe(NOBODY);
    expect(NOBODY.rejected).toBe('PEER_UNKNOWN');
    expect(NOBODY.closed.aborted).toBe(true);
  });

  it('hears when the connection closes', async () => {
    const caller = new Caller(harness, harness.authorities.acme.leaf(CALLER_ID));
    await caller.whoAmI();
    const peer = harness.seen.at(-1);
    expect(peer?.closed.aborted).toBe(false);
    caller.close();
    await until(() => peer?.closed.aborted === true, 'the end of the connection');
    expect(peer?.closed.reason).toMatchObject({ name: 'ConnectionEnded', rejection: undefined });
  });
});

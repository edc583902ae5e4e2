import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CertificateRejected } from '../../src/identity/certificate-rejected.js';
import { checkPeer } from '../../src/identity/check-peer.js';
import {
  MAX_BUNDLE_FILE_BYTES,
  readTrustBundles,
  type TrustBundles,
} from '../../src/identity/trust-bundles.js';
import * as der from '../support/der-writer.js';
import { Authority, BundleFolder, makeKey, OID } from '../support/pki.js';

const ACME = 'spiffe://acme.test/executor/payments-a';
const GLOBEX = 'spiffe://globex.test/executor/payments-a';
const SECOND = 1_000_000n;
const now = BigInt(Date.now()) * 1000n;

let folder: BundleFolder;
beforeEach(() => {
  folder = new BundleFolder();
});
afterEach(() => folder.remove());

async function read(previous?: TrustBundles): Promise<TrustBundles> {
  const { bundles, problems } = await readTrustBundles(folder.path, previous);
  expect(problems).toEqual([]);
  return bundles;
}

function verdict(bundles: TrustBundles, leaf: Buffer, sent: readonly Buffer[] = [], at = now): string {
  try {
    bundles.verifyChain(leaf, sent, at);
    return 'trusted';
  } catch (error) {
    if (error instanceof CertificateRejected) return error.reason;
    throw error;
  }
}

describe('one bundle per trust domain (identity.md, The connection)', () => {
  it('lets an authority vouch for its own domain only', async () => {
    const acme = Authority.root('acme authority');
    const globex = Authority.root('globex authority');
    const bundles = await read((folder.bundle('acme.test', acme).bundle('globex.test', globex), undefined));
    expect(verdict(bundles, acme.leaf(ACME).der)).toBe('trusted');
    expect(verdict(bundles, globex.leaf(GLOBEX).der)).toBe('trusted');
    // Both authorities are trusted; neither for the other's names, alone or with its own certificate sent along.
    expect(verdict(bundles, acme.leaf(GLOBEX).der)).toBe('CHAIN_UNTRUSTED');
    expect(verdict(bundles, globex.leaf(ACME).der, [globex.der, acme.der])).toBe('CHAIN_UNTRUSTED');
    expect(verdict(bundles, acme.leaf('spiffe://initech.test/x').der)).toBe('TRUST_DOMAIN_UNKNOWN');
  });

  it('tells authorities with the same name apart by their keys', async () => {
    const acme = Authority.root('authority');
    const globex = Authority.root('authority');
    const bundles = await read((folder.bundle('acme.test', acme).bundle('globex.test', globex), undefined));
    expect(verdict(bundles, acme.leaf(ACME).der)).toBe('trusted');
    expect(verdict(bundles, globex.leaf(ACME).der)).toBe('CHAIN_UNTRUSTED');
  });

  it('refuses an authority in a bundle whose own SPIFFE ID is of another domain', async () => {
    folder.bundle('acme.test', Authority.root('a', { uris: ['spiffe://globex.test'] }));
    const { problems } = await readTrustBundles(folder.path);
    expect(problems).toEqual([{ file: 'acme.test.pem', problem: expect.stringContaining('ISSUER_FOREIGN') }]);
    folder.bundle('acme.test', Authority.root('a', { uris: ['spiffe://acme.test'] }));
    await read();
  });
});

describe('chains', () => {
  it('accepts four certificates, not five', async () => {
    const root = Authority.root('root');
    const one = root.intermediate('one');
    const two = one.intermediate('two');
    const three = two.intermediate('three');
    const bundles = await read((folder.bundle('acme.test', root), undefined));
    expect(verdict(bundles, two.leaf(ACME).der, [one.der, two.der])).toBe('trusted');
    expect(verdict(bundles, two.leaf(ACME).der, [two.der, one.der])).toBe('trusted');
    expect(verdict(bundles, two.leaf(ACME).der, [two.der])).toBe('CHAIN_UNTRUSTED');
    expect(verdict(bundles, three.leaf(ACME).der, [one.der, two.der, three.der])).toBe('CHAIN_UNTRUSTED');
  });

  it('ends with the shortest validity in it', async () => {
    const root = Authority.root('root');
    const until = new Date(Math.floor(Date.now() / 1000) * 1000 + 5_000);
    const middle = root.intermediate('middle', { notAfter: until });
    const bundles = await read((folder.bundle('acme.test', root), undefined));
    const end = BigInt(until.getTime()) * 1000n;
    const leaf = middle.leaf(ACME).der;
    expect(bundles.verifyChain(leaf, [middle.der], now).notAfterMicros).toBe(end);
    expect(verdict(bundles, leaf, [middle.der], end)).toBe('trusted');
    expect(verdict(bundles, leaf, [middle.der], end + 1n)).toBe('EXPIRED');
  });

  it('judges the validity of the leaf at both ends', async () => {
    const root = Authority.root('root');
    const notBefore = new Date('2030-01-01T00:00:00Z');
    const notAfter = new Date('2030-01-02T00:00:00Z');
    const always = {
      notBefore: new Date('2020-01-01T00:00:00Z'),
      notAfter: new Date('2040-01-01T00:00:00Z'),
    };
    const bundles = await read(
      (folder.bundle('acme.test', Authority.root('root', { ...always, key: root.certificate.key })),
      undefined),
    );
    const leaf = root.leaf(ACME, { notBefore, notAfter }).der;
    const [from, to] = [notBefore, notAfter].map((date) => BigInt(date.getTime()) * 1000n) as [
      bigint,
      bigint,
    ];
    expect(verdict(bundles, leaf, [], from - 1n)).toBe('NOT_YET_VALID');
    expect(verdict(bundles, leaf, [], from)).toBe('trusted');
    expect(verdict(bundles, leaf, [], to)).toBe('trusted');
    expect(verdict(bundles, leaf, [], to + 1n)).toBe('EXPIRED');
  });

  it('checks every issuer: authority flag, keyCertSign, path length, validity, critical extensions, domain', async () => {
    const root = Authority.root('root');
    const bundles = await read((folder.bundle('acme.test', root), undefined));
    const through = (spec: Parameters<Authority['intermediate']>[1]): string => {
      const middle = root.intermediate('middle', spec);
      return verdict(bundles, middle.leaf(ACME).der, [middle.der]);
    };
    expect(through({})).toBe('trusted');
    expect(through({ basicConstraints: { ca: false } })).toBe('ISSUER_NOT_CA');
    expect(through({ basicConstraints: null })).toBe('ISSUER_NOT_CA');
    expect(through({ keyUsage: ['digitalSignature', 'cRLSign'] })).toBe('ISSUER_KEY_USAGE_INVALID');
    expect(through({ keyUsage: null })).toBe('ISSUER_KEY_USAGE_INVALID');
    expect(through({ notAfter: new Date(Date.now() - 3_600_000) })).toBe('EXPIRED');
    expect(through({ notBefore: new Date(Date.now() + 3_600_000) })).toBe('NOT_YET_VALID');
    expect(through({ uris: ['spiffe://globex.test'] })).toBe('ISSUER_FOREIGN');
    expect(through({ uris: ['spiffe://acme.test.evil'] })).toBe('ISSUER_FOREIGN');
    // Name constraints are not enforced by us, so a chain that relies on them is not one.
    const constraints = { oid: OID.nameConstraints, critical: true, value: der.sequence() };
    expect(through({ extensions: [constraints] })).toBe('CHAIN_UNTRUSTED');
  });

  it('counts the path length', async () => {
    const root = Authority.root('root', { basicConstraints: { ca: true, pathLength: 1 } });
    const one = root.intermediate('one');
    const two = one.intermediate('two');
    const none = root.intermediate('none', { basicConstraints: { ca: true, pathLength: 0 } });
    const below = none.intermediate('below');
    const bundles = await read((folder.bundle('acme.test', root), undefined));
    expect(verdict(bundles, one.leaf(ACME).der, [one.der])).toBe('trusted');
    expect(verdict(bundles, two.leaf(ACME).der, [one.der, two.der])).toBe('PATH_LENGTH_EXCEEDED');
    expect(verdict(bundles, none.leaf(ACME).der, [none.der])).toBe('trusted');
    expect(verdict(bundles, below.leaf(ACME).der, [none.der, below.der])).toBe('PATH_LENGTH_EXCEEDED');
  });

  it('verifies each signature, not only names', async () => {
    const root = Authority.root('root');
    const impostor = Authority.root('root');
    const bundles = await read((folder.bundle('acme.test', root), undefined));
    expect(verdict(bundles, impostor.leaf(ACME).der, [impostor.der])).toBe('CHAIN_UNTRUSTED');
    const right = root.leaf(ACME).der;
    const changed = Buffer.from(right.toString('latin1').replace('payments-a', 'payments-b'), 'latin1');
    expect(verdict(bundles, changed)).toBe('CHAIN_UNTRUSTED');
    // A leaf is nobody's authority, whoever signed it.
    const leaf = root.leaf(ACME);
    const child = new Authority('leaf', leaf).leaf(ACME);
    expect(verdict(bundles, child.der, [leaf.der])).toBe('CHAIN_UNTRUSTED');
  });

  it('bounds the search through certificates that a peer sends', async () => {
    const root = Authority.root('root');
    const bundles = await read((folder.bundle('acme.test', root), undefined));
    const key = makeKey();
    const loops = Array.from({ length: 50 }, () => Authority.root('loop', { key }).der);
    const started = performance.now();
    expect(verdict(bundles, Authority.root('loop', { key }).leaf(ACME).der, loops)).toBe('CHAIN_UNTRUSTED');
    expect(performance.now() - started).toBeLessThan(500);
  });
});

describe('revocation', () => {
  it('refuses what a list names, and asks no list of who publishes none', async () => {
    const acme = Authority.root('acme');
    const globex = Authority.root('globex');
    const [good, bad] = [acme.leaf(ACME), acme.leaf(ACME)];
    folder.bundle('acme.test', acme).bundle('globex.test', globex);
    folder.crl('acme.test', acme.crl({ revoked: [bad.serial] }));
    const bundles = await read();
    expect(verdict(bundles, good.der)).toBe('trusted');
    expect(verdict(bundles, bad.der)).toBe('REVOKED');
    expect(verdict(bundles, globex.leaf(GLOBEX).der)).toBe('trusted');
  });

  it('trusts no list beyond its next update', async () => {
    const acme = Authority.root('acme');
    const nextUpdate = new Date(Math.floor(Date.now() / 1000) * 1000 + 60_000);
    folder.bundle('acme.test', acme).crl('acme.test', acme.crl({ nextUpdate }));
    const bundles = await read();
    const end = BigInt(nextUpdate.getTime()) * 1000n;
    expect(verdict(bundles, acme.leaf(ACME).der, [], end)).toBe('trusted');
    expect(verdict(bundles, acme.leaf(ACME).der, [], end + SECOND)).toBe('REVOCATION_LIST_STALE');
  });

  it('honours the list of an intermediate, and only a genuine one', async () => {
    const root = Authority.root('root');
    const middle = root.intermediate('middle');
    const [good, bad] = [middle.leaf(ACME), middle.leaf(ACME)];
    folder.bundle('acme.test', root);
    folder.crl('acme.test', root.crl() + middle.crl({ revoked: [bad.serial] }));
    const bundles = await read();
    expect(verdict(bundles, good.der, [middle.der])).toBe('trusted');
    expect(verdict(bundles, bad.der, [middle.der])).toBe('REVOKED');
    folder.crl('acme.test', root.crl({ revoked: [middle.certificate.serial] }));
    expect(verdict(await read(), good.der, [middle.der])).toBe('REVOKED');
    folder.crl('acme.test', middle.crl({ key: makeKey() }));
    expect(verdict(await read(), good.der, [middle.der])).toBe('REVOCATION_LIST_INVALID');
  });

  it('keeps a renewed authority apart from the lists of its former key', async () => {
    const [before, after] = [Authority.root('acme'), Authority.root('acme')];
    const leaf = after.leaf(ACME, { serial: 77n });
    folder.bundle('acme.test', before, after).crl('acme.test', before.crl({ revoked: [77n] }));
    const bundles = await read();
    expect(verdict(bundles, leaf.der)).toBe('trusted');
    expect(verdict(bundles, before.leaf(ACME, { serial: 77n }).der)).toBe('REVOKED');
  });
});

describe('reading the folder again', () => {
  it('keeps what a domain had when its new files are bad, and takes the others', async () => {
    const acme = Authority.root('acme');
    const globex = Authority.root('globex');
    const before = await read((folder.bundle('acme.test', acme).bundle('globex.test', globex), undefined));
    const victim = globex.leaf(GLOBEX);
    folder.file('acme.test.pem', acme.pem.slice(0, 200));
    folder.crl('globex.test', globex.crl({ revoked: [victim.serial] }));
    const { bundles, problems } = await readTrustBundles(folder.path, before);
    expect(problems).toEqual([{ file: 'acme.test.pem', problem: expect.any(String) }]);
    expect(verdict(bundles, acme.leaf(ACME).der)).toBe('trusted');
    expect(verdict(bundles, victim.der)).toBe('REVOKED');
    expect(verdict(before, victim.der)).toBe('trusted');
    expect(bundles.fingerprint).not.toBe(before.fingerprint);
  });

  it.each<[string, (folder: BundleFolder, acme: Authority) => unknown]>([
    [
      'a private key in the bundle',
      (into, acme) => into.file('acme.test.pem', acme.pem + acme.certificate.keyPem),
    ],
    ['a leaf in the bundle', (into, acme) => into.file('acme.test.pem', acme.leaf(ACME).pem)],
    ['an empty bundle', (into) => into.file('acme.test.pem', '')],
    [
      'a bundle that is too large',
      (into, acme) => into.file('acme.test.pem', acme.pem.padEnd(MAX_BUNDLE_FILE_BYTES + 1, '\n')),
    ],
    ['too many authorities', (into, acme) => into.file('acme.test.pem', acme.pem.repeat(33))],
    ['a list signed by somebody else', (into, acme) => into.crl('acme.test', acme.crl({ key: makeKey() }))],
    ['a certificate where the list should be', (into, acme) => into.crl('acme.test', acme.pem)],
  ])('reports %s', async (_, spoil) => {
    const acme = Authority.root('acme');
    const before = await read((folder.bundle('acme.test', acme), undefined));
    spoil(folder, acme);
    const { bundles, problems } = await readTrustBundles(folder.path, before);
    expect(problems).toHaveLength(1);
    expect(bundles.fingerprint).toBe(before.fingerprint);
    expect((await readTrustBundles(folder.path)).bundles.domains).toEqual([]);
  });

  it('lets go of a domain whose file is gone, and reports names that are no domain', async () => {
    const acme = Authority.root('acme');
    const before = await read((folder.bundle('acme.test', acme), undefined));
    expect((await readTrustBundles(folder.path, before)).bundles.fingerprint).toBe(before.fingerprint);
    folder.delete('acme.test.pem').file('Acme.test.pem', acme.pem).crl('initech.test', acme.crl());
    const { bundles, problems } = await readTrustBundles(folder.path, before);
    expect(problems.map(({ file }) => file).sort()).toEqual(['Acme.test.pem', 'initech.test.crl.pem']);
    expect(verdict(bundles, acme.leaf(ACME).der)).toBe('TRUST_DOMAIN_UNKNOWN');
  });

  it('does not take a folder that cannot be listed for the removal of every domain', async () => {
    await expect(readTrustBundles(`${folder.path}/nowhere`)).rejects.toThrow();
  });
});

describe('what becomes of a peer', () => {
  it('answers a trusted leaf that breaks a rule, and cuts off who is not trusted', async () => {
    const acme = Authority.root('acme');
    const stranger = Authority.root('stranger');
    const bundles = await read((folder.bundle('acme.test', acme), undefined));
    const check = (leaf: Buffer) => checkPeer(leaf, [], bundles, now);
    expect(check(acme.leaf(ACME).der)).toMatchObject({ outcome: 'accepted', leaf: { spiffeId: ACME } });
    expect(check(acme.leaf(ACME, { keyUsage: null }).der)).toEqual({
      outcome: 'rejected',
      reason: 'KEY_USAGE_INVALID',
    });
    expect(check(acme.leaf([ACME, ACME]).der)).toEqual({ outcome: 'rejected', reason: 'URI_SAN_NOT_SINGLE' });
    expect(check(acme.leaf('spiffe://acme.test/').der)).toEqual({
      outcome: 'rejected',
      reason: 'SPIFFE_ID_INVALID',
    });
    expect(check(stranger.leaf([ACME, ACME]).der)).toEqual({
      outcome: 'untrusted',
      reason: 'URI_SAN_NOT_SINGLE',
    });
    expect(check(stranger.leaf(ACME, { keyUsage: null }).der)).toEqual({
      outcome: 'untrusted',
      reason: 'CHAIN_UNTRUSTED',
    });
    expect(check(Buffer.from('x'))).toEqual({ outcome: 'untrusted', reason: 'MALFORMED' });
  });
});

import { execFile } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  BACKDATE_MS,
  type DevelopmentCertificates,
  ensureDevelopmentCertificates,
  LIFE_MS,
  RENEW_AFTER_MS,
} from '../../certs/development-certificates.js';
import { filesOf } from '../../certs/layout.js';
import { checkPeer } from '../../src/identity/check-peer.js';
import { publicKeyOf } from '../../src/identity/jwk.js';
import { readPem } from '../../src/identity/pem.js';
import { readTrustBundles } from '../../src/identity/trust-bundles.js';
import { readTlsMaterial } from '../../src/server/reload.js';

/** Long enough ago that by the real clock a set of then, and the one after it, have expired. */
const NOW = new Date(Math.floor((Date.now() - RENEW_AFTER_MS - LIFE_MS - 60_000) / 1000) * 1000);
const micros = (date: Date): bigint => BigInt(date.getTime()) * 1000n;
const later = (ms: number): Date => new Date(NOW.getTime() + ms);

let directory: string;
let first: DevelopmentCertificates;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'surety-certs-'));
  // Two at once, as `npm start` and a demo may be: one mints, the other waits for it.
  const [one, other] = await Promise.all([ensure(NOW), ensure(NOW)]);
  expect([one.minted, other.minted].sort()).toEqual([false, true]);
  first = one;
});
afterAll(() => rm(directory, { recursive: true, force: true }));

function ensure(now: Date, renew = false): Promise<DevelopmentCertificates> {
  return ensureDevelopmentCertificates({ directory, now, renew });
}

async function leafOf(file: string): Promise<X509Certificate> {
  return new X509Certificate(await readFile(file));
}

async function outcomeOf(file: string, at: Date): Promise<string> {
  const { bundles, problems } = await readTrustBundles(first.bundlesDir);
  expect(problems).toEqual([]);
  const check = checkPeer((await leafOf(file)).raw, [], bundles, micros(at));
  return check.outcome === 'accepted' ? check.leaf.spiffeId : check.reason;
}

describe('development certificates (identity.md, Certificates for development)', () => {
  it('are the callers of the design, in two domains and the service’s own', () => {
    expect(first.service.spiffeId).toBe('spiffe://surety.test/surety');
    expect(Object.keys(first.callers).sort()).toEqual([
      'spiffe://acme.test/executor/payments-a',
      'spiffe://acme.test/executor/payments-b',
      'spiffe://acme.test/harness/planner',
      'spiffe://acme.test/owner/olga',
      'spiffe://acme.test/reconciler/bank',
      'spiffe://acme.test/worker/courier',
      'spiffe://acme.test/worker/mailer',
      'spiffe://globex.test/executor/payments-a',
      'spiffe://globex.test/harness/planner',
      'spiffe://globex.test/owner/olga',
      'spiffe://globex.test/reconciler/bank',
      'spiffe://globex.test/worker/mailer',
      'spiffe://surety.test/auditor/ann',
      'spiffe://surety.test/operator/root',
    ]);
  });

  it('obey every rule that the listener applies, for a day and not a second more', async () => {
    for (const [spiffeId, { cert, key }] of Object.entries({
      ...first.callers,
      [first.service.spiffeId]: first.service,
    })) {
      expect(await outcomeOf(cert, NOW)).toBe(spiffeId);
      expect((await leafOf(cert)).checkPrivateKey(createPrivateKey(await readFile(key)))).toBe(true);
    }
    const { cert } = first.service;
    expect(await outcomeOf(cert, later(LIFE_MS))).toBe(first.service.spiffeId);
    expect(await outcomeOf(cert, later(LIFE_MS + 1))).toBe('EXPIRED');
    expect(await outcomeOf(cert, later(-BACKDATE_MS))).toBe(first.service.spiffeId);
    expect(await outcomeOf(cert, later(-BACKDATE_MS - 1))).toBe('NOT_YET_VALID');
    const files = { certificateFile: cert, keyFile: first.service.key, bundlesDirectory: first.bundlesDir };
    expect((await readTlsMaterial(files, micros(NOW))).own.spiffeId).toBe(first.service.spiffeId);
  });

  it('name hosts for clients that check them, have positive serials and key identifiers', async () => {
    const service = await leafOf(first.service.cert);
    expect(service.checkHost('localhost')).toBe('localhost');
    expect(service.checkHost('surety.test')).toBe('surety.test');
    expect(service.checkIP('127.0.0.1')).toBe('127.0.0.1');
    const serials = new Set<string>();
    for (const { cert } of [first.service, ...Object.values(first.callers)]) {
      const leaf = await leafOf(cert);
      serials.add(leaf.serialNumber);
      expect(leaf.serialNumber).toMatch(/^[4-7][0-9A-F]{31}$/);
      // Subject and authority key identifier.
      for (const oid of ['551d0e', '551d23']) expect(leaf.raw.toString('hex')).toContain(oid);
    }
    expect(serials.size).toBe(15);
  });

  it('keep every private key to its owner, and no authority’s at all', async () => {
    const names = (await readdir(directory, { recursive: true })).filter((name) =>
      /\.(pem|json)$/.test(name),
    );
    let secrets = 0;
    for (const name of names) {
      const text = await readFile(join(directory, name), 'utf8');
      if (!text.includes('PRIVATE KEY') && !text.includes('"d"')) continue;
      secrets += 1;
      expect((await stat(join(directory, name))).mode & 0o777).toBe(0o600);
    }
    // A TLS key each for the service and fourteen callers, and two forms of eleven signing keys.
    expect(secrets).toBe(15 + 22);
    expect(names.map((name) => join(directory, name)).sort()).toEqual(
      [...filesOf(first), join(directory, 'minted.json')].sort(),
    );
    expect((await readdir(directory)).filter((name) => name.startsWith('.'))).toEqual([]);
  });

  it('have a signing key, in three forms of one key, for whoever signs', async () => {
    expect(Object.keys(first.signingKeys)).toHaveLength(11);
    for (const { pem, jwk, publicJwk } of Object.values(first.signingKeys)) {
      const key = publicKeyOf(createPrivateKey(await readFile(pem)));
      const same = createPrivateKey({ key: JSON.parse(await readFile(jwk, 'utf8')), format: 'jwk' });
      expect(publicKeyOf(same).thumbprint).toBe(key.thumbprint);
      expect(JSON.parse(await readFile(publicJwk, 'utf8'))).toEqual(JSON.parse(key.jwk));
    }
  });

  it('are left alone for two thirds of their life, then minted again, with the former authority still trusted', async () => {
    const { cert } = first.service;
    const before = await leafOf(cert);
    const formerSigning = await readFile(
      first.signingKeys['spiffe://surety.test/operator/root']?.pem ?? '',
      'utf8',
    );
    expect((await ensure(later(RENEW_AFTER_MS - 1))).minted).toBe(false);
    const at = later(RENEW_AFTER_MS);
    const again = await ensure(at);
    expect(again).toMatchObject({ minted: true, mintedAt: at });
    expect((await leafOf(cert)).serialNumber).not.toBe(before.serialNumber);
    const { bundles } = await readTrustBundles(first.bundlesDir);
    expect(checkPeer(before.raw, [], bundles, micros(at)).outcome).toBe('accepted');
    expect(await outcomeOf(cert, at)).toBe(first.service.spiffeId);
    // An operator's public key is in the database: another one would lock everybody out.
    expect(await readFile(first.signingKeys['spiffe://surety.test/operator/root']?.pem ?? '', 'utf8')).toBe(
      formerSigning,
    );
    const pem = await readFile(join(first.bundlesDir, 'surety.test.pem'), 'latin1');
    expect(readPem(pem, 'CERTIFICATE')).toHaveLength(2);
  });
});

describe('npm run certs', () => {
  const main = join(import.meta.dirname, '../../dist/certs/main.js');
  const run = (...flags: string[]) =>
    new Promise<{ code: number; out: string; err: string }>((resolve) => {
      execFile(process.execPath, [main, ...flags], (error, out, err) => {
        resolve({ code: error === null ? 0 : Number(error.code), out, err });
      });
    });

  it('says what it does, and what it does not understand', async () => {
    expect(await run('--help')).toMatchObject({ code: 0, out: expect.stringContaining('--renew') });
    expect(await run('--bogus')).toMatchObject({
      code: 2,
      out: '',
      err: expect.stringMatching(/^certs: .*--bogus/),
    });
  });

  it('mints what is old, lets go of what has expired, takes over from who died, and says where things are', async () => {
    await writeFile(join(directory, '.lock'), '999999999');
    const { code, out } = await run('--out', directory);
    expect(code).toBe(0);
    expect(out).toContain('Minted development certificates.');
    expect(out).toMatch(/caller +spiffe:\/\/acme\.test\/executor\/payments-a .*payments-a\.crt\.pem/);
    const pem = await readFile(join(first.bundlesDir, 'surety.test.pem'), 'latin1');
    expect(readPem(pem, 'CERTIFICATE')).toHaveLength(1);
    expect(await outcomeOf(first.service.cert, new Date())).toBe(first.service.spiffeId);
    expect((await run('--out', directory)).out).toContain('still hold');
    await rm(first.service.key);
    expect((await run('--out', directory)).out).toContain('Minted');
  });
});

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readTlsMaterial, Reloader, type TlsFiles, TlsFilesInvalid } from '../../src/server/reload.js';
import { Authority, type Certificate } from '../support/pki.js';
import {
  CALLER_ID,
  Caller,
  endOf,
  type Harness,
  rawTls,
  SERVICE_ID,
  startHarness,
  until,
  whoAmI,
} from './harness.js';

let harness: Harness;
let files: TlsFiles;
let reloader: Reloader;
/** Microseconds added to the clock of listener and reloader. */
let ahead: bigint;
const now = (): bigint => BigInt(Date.now()) * 1000n + ahead;

function serve(certificate: Certificate): void {
  writeFileSync(files.certificateFile, certificate.pem);
  writeFileSync(files.keyFile, certificate.keyPem);
}

beforeEach(async () => {
  ahead = 0n;
  harness = await startHarness({ listener: { now } });
  // Not ending in .pem, so that the folder's bundles stay what they are.
  files = {
    certificateFile: join(harness.folder.path, 'service.crt'),
    keyFile: join(harness.folder.path, 'service.key'),
    bundlesDirectory: harness.folder.path,
  };
  serve(harness.service);
  reloader = new Reloader({
    files,
    initial: await readTlsMaterial(files, now()),
    listeners: [harness.listener],
    log: harness.log,
    now,
    intervalMs: 20,
  });
});
afterEach(async () => {
  await reloader.stop();
  await harness.stop();
});

const acmeCaller = (): Caller => new Caller(harness, harness.authorities.acme.leaf(CALLER_ID));
const servedSerial = async (): Promise<bigint> => {
  const socket = await rawTls(harness, { checkServerIdentity: () => undefined });
  const serial = BigInt(`0x${socket.getPeerCertificate().serialNumber}`);
  socket.destroy();
  return serial;
};
const errors = (): unknown[] =>
  harness.log.lines.filter(({ level }) => level === 'error').map(({ fields }) => fields['problem']);

describe('reload without a restart (identity.md, The connection)', () => {
  it('serves a new certificate from the next handshake on, and keeps open connections', async () => {
    const caller = acmeCaller();
    await caller.whoAmI();
    const renewed = harness.authorities.surety.leaf(SERVICE_ID, { dnsNames: ['localhost'] });
    serve(renewed);
    await reloader.checkNow();
    expect(await servedSerial()).toBe(renewed.serial);
    expect(await caller.whoAmI()).toEqual({ code: 'OK', text: CALLER_ID });
    expect(harness.listener.openConnections).toBe(1);
    caller.close();
  });

  it('keeps the old certificate when the new files are bad, and says so once', async () => {
    const other = harness.authorities.surety.leaf(SERVICE_ID);
    const spoil: [string, string, RegExp][] = [
      [other.pem, harness.service.keyPem, /service\.key: is not the key of/],
      ['', other.keyPem, /service\.crt: no CERTIFICATE in it/],
      [other.pem.slice(0, 300), other.keyPem, /service\.crt: a block is cut short/],
      [other.pem, 'nonsense', /service\.key/],
      [
        harness.authorities.surety.leaf('spiffe://surety.test/other', { key: other.key }).pem,
        other.keyPem,
        /names another SPIFFE ID/,
      ],
      [
        harness.authorities.surety.leaf(SERVICE_ID, {
          key: other.key,
          notAfter: new Date(Date.now() - 5_000),
        }).pem,
        other.keyPem,
        /EXPIRED/,
      ],
      [
        harness.authorities.surety.leaf(SERVICE_ID, { key: other.key, keyUsage: null }).pem,
        other.keyPem,
        /KEY_USAGE_INVALID/,
      ],
    ];
    for (const [certificatePem, keyPem, problem] of spoil) {
      const before = errors().length;
      writeFileSync(files.certificateFile, certificatePem);
      writeFileSync(files.keyFile, keyPem);
      await reloader.checkNow();
      await reloader.checkNow();
      expect(errors().slice(before)).toEqual([expect.stringMatching(problem)]);
      expect(await servedSerial()).toBe(harness.service.serial);
    }
    serve(other);
    await reloader.checkNow();
    expect(await servedSerial()).toBe(other.serial);
  });

  it('ends open connections of a bundle that was removed, streams too, and lets nobody of it in', async () => {
    const caller = acmeCaller();
    const bystander = new Caller(
      harness,
      harness.authorities.globex.leaf('spiffe://globex.test/worker/mailer'),
    );
    await bystander.whoAmI();
    const end = endOf(caller.stream('Watch'));
    await until(() => harness.listener.openConnections === 2, 'two connections');
    harness.folder.delete('acme.test.pem');
    await reloader.checkNow();
    expect(await end).toEqual({ code: 'UNAUTHENTICATED', text: 'TRUST_DOMAIN_UNKNOWN' });
    await until(() => harness.listener.openConnections === 1, 'the end of the connection');
    expect(await whoAmI(harness, harness.authorities.acme.leaf(CALLER_ID))).toMatchObject({
      code: 'UNAVAILABLE',
    });
    expect(await bystander.whoAmI()).toMatchObject({ code: 'OK' });
    expect(harness.listener.openConnections).toBe(1);
    caller.close();
    bystander.close();
  });

  it('ends the open connection of a certificate that a list now names, and of no other', async () => {
    const victim = harness.authorities.acme.leaf(CALLER_ID);
    const caller = new Caller(harness, victim);
    const colleague = acmeCaller();
    await colleague.whoAmI();
    const end = endOf(caller.stream('Watch'));
    await until(() => harness.listener.openConnections === 2, 'two connections');
    harness.folder.crl('acme.test', harness.authorities.acme.crl({ revoked: [victim.serial] }));
    await reloader.checkNow();
    // Before its socket goes, a call on the living connection is already nobody's.
    expect(await caller.whoAmI()).toEqual({ code: 'UNAUTHENTICATED', text: 'REVOKED' });
    expect(await end).toEqual({ code: 'UNAUTHENTICATED', text: 'REVOKED' });
    await until(() => harness.listener.openConnections === 1, 'the end of the connection');
    expect(await whoAmI(harness, victim)).toMatchObject({ code: 'UNAVAILABLE' });
    expect(await colleague.whoAmI()).toMatchObject({ code: 'OK' });
    caller.close();
    colleague.close();
  });

  it('lets a new domain in, and rolls an authority over with both in the bundle', async () => {
    const { acme, globex } = harness.authorities;
    const initech = Authority.root('initech authority');
    harness.folder.bundle('initech.test', initech).bundle('acme.test', globex, acme);
    const caller = acmeCaller();
    await caller.whoAmI();
    await reloader.checkNow();
    expect(await whoAmI(harness, initech.leaf('spiffe://initech.test/worker/w'))).toMatchObject({
      code: 'OK',
    });
    expect(await whoAmI(harness, globex.leaf(CALLER_ID))).toMatchObject({ code: 'OK' });
    expect(await caller.whoAmI()).toMatchObject({ code: 'OK' });
    expect(harness.listener.openConnections).toBe(1);
    harness.folder.bundle('acme.test', globex);
    await reloader.checkNow();
    await until(() => harness.listener.openConnections === 0, 'the end of the former authority');
    caller.close();
  });

  it('keeps what a domain had when its file is bad', async () => {
    const caller = acmeCaller();
    await caller.whoAmI();
    harness.folder.file('acme.test.pem', 'half a fi');
    await reloader.checkNow();
    expect(errors()).toEqual([expect.stringMatching(/^acme\.test\.pem: /)]);
    expect(await caller.whoAmI()).toMatchObject({ code: 'OK' });
    expect(await whoAmI(harness, harness.authorities.acme.leaf(CALLER_ID))).toMatchObject({ code: 'OK' });
    caller.close();
  });

  it('ends a connection whose certificate expires while it lives, by the clock it is given', async () => {
    const caller = new Caller(
      harness,
      harness.authorities.acme.leaf(CALLER_ID, { notAfter: new Date(Date.now() + 3_600_000) }),
    );
    const lasting = acmeCaller();
    await lasting.whoAmI();
    const end = endOf(caller.stream('Watch'));
    await until(() => harness.listener.openConnections === 2, 'two connections');
    ahead = 3_590_000_000n;
    await reloader.checkNow();
    expect(harness.listener.openConnections).toBe(2);
    ahead = 3_601_000_000n;
    await reloader.checkNow();
    expect(await end).toEqual({ code: 'UNAUTHENTICATED', text: 'EXPIRED' });
    await until(() => harness.listener.openConnections === 1, 'the end of the connection');
    expect(await lasting.whoAmI()).toMatchObject({ code: 'OK' });
    caller.close();
    lasting.close();
  });

  it('does all of it by itself', async () => {
    reloader.start();
    harness.folder.delete('acme.test.pem');
    await until(() => !harness.listener.bundles.domains.includes('acme.test'), 'the removal');
  });
});

describe('reading the files at the start', () => {
  it('says every problem at once', async () => {
    writeFileSync(files.keyFile, 'x');
    harness.folder.file('acme.test.pem', 'x').file('globex.test.pem', 'y');
    const reading = readTlsMaterial(files, now());
    await expect(reading).rejects.toThrow(TlsFilesInvalid);
    await expect(reading).rejects.toMatchObject({
      problems: [
        expect.stringMatching(/service\.key/),
        expect.stringMatching(/acme\.test\.pem/),
        expect.stringMatching(/globex\.test\.pem/),
      ],
    });
  });

  it('names a folder that is not there, and one without bundles', async () => {
    const nowhere = readTlsMaterial(
      { ...files, bundlesDirectory: join(harness.folder.path, 'nowhere') },
      now(),
    );
    await expect(nowhere).rejects.toMatchObject({ problems: [expect.stringMatching(/nowhere: ENOENT/)] });
    for (const domain of ['surety', 'acme', 'globex']) harness.folder.delete(`${domain}.test.pem`);
    await expect(readTlsMaterial(files, now())).rejects.toMatchObject({
      problems: [expect.stringMatching(/no <trust-domain>/)],
    });
  });

  it('never repeats what a file held', async () => {
    writeFileSync(files.keyFile, '-----BEGIN PRIVATE KEY-----\nSECRETSECRET\n-----END PRIVATE KEY-----\n');
    const problems = await readTlsMaterial(files, now()).catch((error: TlsFilesInvalid) =>
      error.problems.join(),
    );
    expect(problems).not.toContain('SECRET');
  });
});

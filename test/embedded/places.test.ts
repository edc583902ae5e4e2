import { existsSync } from 'node:fs';
import { chmod, chown, cp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { Checkout, isRoot, nobody, type Report, somebodyElse } from './checkout.js';

// architecture.md, Embedded Postgres: root or not, with npm's install scripts or without, wherever the checkout is.

const checkouts: Checkout[] = [];

/** Some of this only root can arrange. */
const asRoot = isRoot && nobody !== undefined && somebodyElse !== undefined;
const user = nobody ?? { uid: 0, gid: 0 };
const somebody = somebodyElse ?? { uid: 0, gid: 0 };

afterEach(async () => {
  for (const checkout of checkouts.splice(0)) await checkout.remove();
});

async function createCheckout(
  options: { libraryLinks?: boolean; ownFiles?: boolean } = {},
): Promise<Checkout> {
  const checkout = await Checkout.create(options);
  checkouts.push(checkout);
  return checkout;
}

async function start(checkout: Checkout, as?: { uid: number; gid: number }): Promise<Required<Report>> {
  const runner = await checkout.start({}, as);
  expect(runner.report).not.toHaveProperty('message');
  return runner.report as Required<Report>;
}

async function query(report: Required<Report>, sql: string): Promise<unknown[]> {
  const client = new Client(report.url);
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query({ text: sql, rowMode: 'array' })).rows;
  } finally {
    await client.end();
  }
}

async function giveTo(checkout: Checkout, user: { uid: number; gid: number }): Promise<void> {
  for (const name of ['', ...(await readdir(checkout.folder, { recursive: true }))]) {
    const file = path.join(checkout.folder, name);
    if (existsSync(file)) await chown(file, user.uid, user.gid);
  }
}

describe('a checkout whose install scripts were skipped', () => {
  test('gets the library links, and Postgres runs in place', async () => {
    const checkout = await createCheckout({ libraryLinks: false });
    expect(await checkout.countLibraryLinks()).toBe(0);
    const report = await start(checkout);
    expect(await query(report, 'SELECT 1')).toEqual([[1]]);
    if (process.platform === 'linux') expect(await checkout.countLibraryLinks()).toBeGreaterThan(5);
    expect(await readdir(checkout.dataDir)).toEqual(['data', 'superuser-password']);
  });
});

describe.runIf(asRoot)('started by root', () => {
  test('Postgres runs as nobody, who gets the data and nothing else', async () => {
    const checkout = await createCheckout();
    const report = await start(checkout);
    const owners = await Promise.all(
      [checkout.dataDir, report.data, path.join(checkout.dataDir, 'superuser-password')].map(async (file) => {
        const { uid, mode } = await stat(file);
        return [uid, (mode & 0o777).toString(8)];
      }),
    );
    expect(owners).toEqual([
      [0, '711'],
      [user.uid, '700'],
      [0, '600'],
    ]);
    expect((await stat(`/proc/${report.pid}`)).uid).toBe(user.uid);
  });

  test('in a checkout that nobody can enter: data and binaries go elsewhere, and are found again', async () => {
    const checkout = await createCheckout();
    await chmod(checkout.parent, 0o700);
    const first = await start(checkout);
    expect(first.data.startsWith(checkout.parent)).toBe(false);
    const home = path.dirname(first.data);
    expect((await stat(home)).mode & 0o777).toBe(0o711);
    expect((await stat(first.data)).mode & 0o777).toBe(0o700);
    expect(await readdir(checkout.dataDir)).toEqual(['superuser-password']);
    await query(first, 'CREATE TABLE kept AS SELECT 1 AS id');
    await checkout.stopAll();

    const second = await start(checkout);
    expect(second.data).toBe(first.data);
    expect(await query(second, 'SELECT id FROM kept')).toEqual([[1]]);
    expect(second.log.filter((line) => line.startsWith('staged'))).toEqual([]);
    await checkout.stopAll();

    // A folder that was removed by hand, or cloned anew at the same path, begins anew.
    await rm(checkout.dataDir, { recursive: true });
    const third = await start(checkout);
    expect(await query(third, `SELECT to_regclass('kept')`)).toEqual([[null]]);
    await checkout.stopAll();

    await checkout.removeData();
    expect(existsSync(home)).toBe(false);
    expect(existsSync(checkout.dataDir)).toBe(false);
  });

  test('in such a checkout without library links, and with modes that only root can read', async () => {
    const checkout = await createCheckout({ libraryLinks: false, ownFiles: true });
    for (const name of await readdir(checkout.native, { recursive: true })) {
      const file = path.join(checkout.native, name);
      const { mode } = await stat(file);
      await chmod(file, mode & 0o700);
    }
    await chmod(checkout.native, 0o700);
    await chmod(checkout.parent, 0o700);
    const report = await start(checkout);
    expect(await query(report, 'SELECT 1')).toEqual([[1]]);
    expect(report.log).toContainEqual(expect.stringMatching(/^staged .*copy/));
  });

  test('a folder in its place that is not ours is not used', async () => {
    const checkout = await createCheckout();
    await chmod(checkout.parent, 0o700);
    const first = await start(checkout);
    await checkout.stopAll();
    const home = path.dirname(first.data);
    await chown(home, user.uid, user.gid);
    const second = await start(checkout);
    expect(second.data).not.toBe(first.data);
    await checkout.stopAll();
    await rm(home, { recursive: true });
  });

  test('in the checkout of an ordinary user who has started it before: as that user', async () => {
    const checkout = await createCheckout({ ownFiles: true });
    await giveTo(checkout, somebody);
    const first = await start(checkout, somebody);
    await query(first, 'CREATE TABLE kept AS SELECT 1 AS id');
    await checkout.stopAll();
    const second = await start(checkout);
    expect((await stat(`/proc/${second.pid}`)).uid).toBe(somebody.uid);
    expect(await query(second, 'SELECT id FROM kept')).toEqual([[1]]);
    await checkout.stopAll();
    const third = await start(checkout, somebody);
    expect(await query(third, 'SELECT id FROM kept')).toEqual([[1]]);
  });

  test('an ordinary user with folders of their own needs nothing of root', async () => {
    const checkout = await createCheckout({ libraryLinks: false, ownFiles: true });
    await giveTo(checkout, user);
    await chmod(checkout.folder, 0o700);
    const report = await start(checkout, user);
    expect((await stat(`/proc/${report.pid}`)).uid).toBe(user.uid);
    expect((await stat(checkout.dataDir)).mode & 0o777).toBe(0o700);
    expect(await query(report, 'SELECT 1')).toEqual([[1]]);
  });

  test('an ordinary user whose packages are read only and lack the links gets a copy', async () => {
    const checkout = await createCheckout({ libraryLinks: false });
    const own = path.join(checkout.parent, 'own');
    await cp(path.join(checkout.folder, 'package.json'), path.join(own, 'package.json'));
    await chown(own, user.uid, user.gid);
    const runner = await checkout.start({ dataDir: path.join(own, 'data') }, user);
    expect(runner.report.log).toContainEqual(expect.stringMatching(/^staged .*copy/));
    expect(await query(runner.report as Required<Report>, 'SELECT 1')).toEqual([[1]]);
    expect(await checkout.countLibraryLinks()).toBe(0);
  });
});

describe('data that is there', () => {
  let checkout: Checkout;
  let data: string;

  beforeAll(async () => {
    checkout = await Checkout.create();
    ({ data } = await start(checkout));
    await checkout.stopAll();
  });

  afterAll(() => checkout.remove());

  test('of another major version is named', async () => {
    const version = path.join(data, 'PG_VERSION');
    const right = await readFile(version);
    await writeFile(version, '17\n');
    const { report } = await checkout.start();
    expect(report.reason).toBe('DATA_VERSION_MISMATCH');
    await writeFile(version, right);
  });

  test('whose password is lost is named, and left alone', async () => {
    const password = path.join(checkout.dataDir, 'superuser-password');
    await rename(password, `${password}.away`);
    const { report } = await checkout.start();
    expect(report.reason).toBe('PASSWORD_MISSING');
    expect(existsSync(path.join(data, 'PG_VERSION'))).toBe(true);
    await rename(`${password}.away`, password);
  });

  test.runIf(asRoot)('and is out of reach now, is not forgotten', async () => {
    await chmod(checkout.parent, 0o700);
    const { report } = await checkout.start();
    expect(report.reason).toBe('NO_PLACE_FOR_DATA');
    await chmod(checkout.parent, 0o755);
  });

  test.runIf(asRoot)('is not for another user', async () => {
    const { report } = await checkout.start({}, user);
    expect(report.reason).toBe('DATA_NOT_OURS');
  });

  test('and well is started again', async () => {
    expect(await query(await start(checkout), 'SELECT 1')).toEqual([[1]]);
    await checkout.stopAll();
  });
});

describe('binaries', () => {
  test('that do not run are named, with what was tried', async () => {
    const checkout = await createCheckout();
    await rm(path.join(checkout.native, 'bin', 'postgres'));
    const { report } = await checkout.start();
    expect(report.reason).toBe('BINARIES_UNUSABLE');
    expect(report.message).toContain('in place: ENOENT');
    expect(report.message).toContain('SURETY_DATABASE_URL');
  });
});

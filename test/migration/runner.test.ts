import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { Client, Pool } from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { assertSchemaCurrent, migrate, readSchemaVersion } from '../../src/store/migrate.js';
import { ensureServiceRole } from '../../src/store/migrate-roles.js';
import { createTestDatabase, type TestDatabase, urlFor } from '../support/postgres.js';

// The runner of architecture.md, Migrations, on SQL of the test's own.

let database: TestDatabase;
let client: Client;
let folder: string;
let directory: URL;

beforeEach(async () => {
  database = await createTestDatabase({ empty: true });
  client = new Client(database.url);
  client.on('error', () => {});
  await client.connect();
  folder = await mkdtemp(path.join(os.tmpdir(), 'surety-migrations-'));
  directory = pathToFileURL(`${folder}/`);
});

afterEach(async () => {
  await client.end();
  await database.drop();
  await rm(folder, { recursive: true });
});

function write(files: Record<string, string>): Promise<unknown> {
  return Promise.all(Object.entries(files).map(([name, sql]) => writeFile(path.join(folder, name), sql)));
}

const run = (options: { test?: boolean; url?: string } = {}): ReturnType<typeof migrate> =>
  migrate({ url: database.url, directory, ...options });

async function rows(sql: string): Promise<unknown[]> {
  return (await client.query({ text: sql, rowMode: 'array' })).rows;
}

const twoSteps = {
  '0001_first.sql': 'CREATE TABLE runs (version int); INSERT INTO runs VALUES (1);',
  '0002_second.sql': 'INSERT INTO runs VALUES (2);',
};

describe('applying', () => {
  test('applies every file in order, and records name and checksum', async () => {
    await write({ ...twoSteps, 'README.md': 'not SQL' });
    const lines: string[] = [];
    expect(await migrate({ url: database.url, directory, log: (line) => lines.push(line) })).toEqual({
      version: 2,
      applied: [1, 2],
    });
    expect(lines).toEqual(['applied migration 0001_first.sql', 'applied migration 0002_second.sql']);
    expect(await rows('SELECT version FROM runs ORDER BY version')).toEqual([[1], [2]]);
    expect(
      await rows(`SELECT version, name, checksum = encode(sha256(convert_to(
        CASE version WHEN 1 THEN '${twoSteps['0001_first.sql']}' ELSE '${twoSteps['0002_second.sql']}' END,
        'UTF8')), 'hex') FROM schema_migrations ORDER BY version`),
    ).toEqual([
      [1, 'first', true],
      [2, 'second', true],
    ]);
  });

  test('applies nothing twice, and goes on from where the data is', async () => {
    await write({ '0001_first.sql': twoSteps['0001_first.sql'] });
    await run();
    await client.query('INSERT INTO runs VALUES (100)');
    await write(twoSteps);
    expect(await run()).toEqual({ version: 2, applied: [2] });
    expect(await run()).toEqual({ version: 2, applied: [] });
    expect(await rows('SELECT version FROM runs ORDER BY version')).toEqual([[1], [2], [100]]);
  });

  test('twenty that start at once on an empty database apply each file once', async () => {
    await write({
      '0001_first.sql': `SELECT pg_sleep(0.05); ${twoSteps['0001_first.sql']}`,
      '0002_second.sql': `SELECT pg_sleep(0.05); ${twoSteps['0002_second.sql']}`,
    });
    const results = await Promise.all(Array.from({ length: 20 }, () => run()));
    expect(results.flatMap((result) => result.applied).sort()).toEqual([1, 2]);
    expect(results.every((result) => result.version === 2)).toBe(true);
    expect(await rows('SELECT version FROM runs ORDER BY version')).toEqual([[1], [2]]);
  });

  test('twenty more, on a database whose transactions are serializable unless said otherwise', async () => {
    await client.query(`ALTER DATABASE ${database.name} SET default_transaction_isolation = 'serializable'`);
    await write(twoSteps);
    const results = await Promise.all(Array.from({ length: 20 }, () => run()));
    expect(results.flatMap((result) => result.applied).sort()).toEqual([1, 2]);
  });

  test('what a file sets for its session does not reach the next', async () => {
    await write({
      '0001_first.sql':
        'CREATE SCHEMA elsewhere; SET search_path = elsewhere; SET ROLE surety_service;\nRESET ROLE;',
      '0002_second.sql': 'CREATE TABLE here ();',
    });
    await run();
    expect(await rows(`SELECT to_regclass('public.here') IS NOT NULL`)).toEqual([[true]]);
  });
});

describe('what a migration that fails leaves behind', () => {
  test('nothing of it, all before it; the error names file, line and SQLSTATE, and no value', async () => {
    await write({
      '0001_first.sql': twoSteps['0001_first.sql'],
      '0002_second.sql': `INSERT INTO runs VALUES (2);\n\nSELECT 'secret'::int;`,
    });
    await expect(run()).rejects.toMatchObject({
      reason: 'MIGRATION_FAILED',
      sqlState: '22P02',
      message: '0002_second.sql failed at line 3 (SQLSTATE 22P02)',
    });
    expect(await rows('SELECT version FROM runs')).toEqual([[1]]);
    expect(await readSchemaVersion(client)).toBe(1);
    await write(twoSteps);
    expect(await run()).toEqual({ version: 2, applied: [2] });
  });

  test.each(['COMMIT;', 'COMMIT; BEGIN;', 'ROLLBACK; BEGIN;'])(
    'a file that holds %s is refused and not recorded',
    async (sql) => {
      await write({ '0001_first.sql': `SELECT 1; ${sql}` });
      await expect(run()).rejects.toMatchObject({ reason: 'MIGRATION_LEFT_TRANSACTION' });
      expect(await readSchemaVersion(client)).toBe(0);
    },
  );

  test('a runner that is killed leaves the last whole version, and the lock free', async () => {
    await write({ '0001_first.sql': `${twoSteps['0001_first.sql']} SELECT pg_sleep(30);` });
    const killed = expect(run()).rejects.toMatchObject({ reason: 'MIGRATION_FAILED', sqlState: '57P01' });
    const terminate = `SELECT count(pg_terminate_backend(pid))::int FROM pg_stat_activity
      WHERE datname = current_database() AND query LIKE '%pg_sleep(30);' AND pid <> pg_backend_pid()`;
    await expect.poll(() => rows(terminate), { interval: 20 }).toEqual([[1]]);
    await killed;
    expect(await readSchemaVersion(client)).toBe(0);
    await write(twoSteps);
    expect(await run()).toEqual({ version: 2, applied: [1, 2] });
  });
});

describe('a history that does not fit is refused before anything is applied', () => {
  beforeEach(async () => {
    await write(twoSteps);
    await run();
    await write({ '0003_third.sql': 'INSERT INTO runs VALUES (3);' });
  });

  afterEach(async () => {
    expect(await rows('SELECT version FROM runs ORDER BY version')).toEqual([[1], [2]]);
  });

  test('an edited file, even by a space', async () => {
    await write({ '0001_first.sql': `${twoSteps['0001_first.sql']} ` });
    await expect(run()).rejects.toMatchObject({ reason: 'MIGRATION_EDITED' });
  });

  test('a renamed file', async () => {
    await rename(path.join(folder, '0002_second.sql'), path.join(folder, '0002_other.sql'));
    await expect(run()).rejects.toMatchObject({ reason: 'MIGRATION_EDITED' });
  });

  test('a schema that is newer than this program', async () => {
    await rm(path.join(folder, '0003_third.sql'));
    await rm(path.join(folder, '0002_second.sql'));
    await expect(run()).rejects.toMatchObject({ reason: 'SCHEMA_NEWER' });
    await expect(assertSchemaCurrent(client, directory)).rejects.toMatchObject({ reason: 'SCHEMA_NEWER' });
  });

  test('a version that is missing below others', async () => {
    await client.query('DELETE FROM schema_migrations WHERE version = 1');
    await expect(run()).rejects.toMatchObject({ reason: 'HISTORY_BROKEN' });
  });
});

describe('the folder', () => {
  test.each([
    ['a gap', ['0001_a.sql', '0003_c.sql']],
    ['a double', ['0001_a.sql', '0001_b.sql']],
    ['a start at zero', ['0000_a.sql']],
    ['a name without a number', ['first.sql']],
    ['a name with capitals', ['0001_First.sql']],
  ])('%s is refused', async (_, names) => {
    await write(Object.fromEntries(names.map((name) => [name, 'SELECT 1;'])));
    await expect(run()).rejects.toMatchObject({ reason: 'MIGRATION_FOLDER_INVALID' });
    expect(await readSchemaVersion(client)).toBe(0);
  });

  test('that is not there is refused', async () => {
    const absent = new URL('absent/', directory);
    await expect(migrate({ url: database.url, directory: absent })).rejects.toMatchObject({
      reason: 'MIGRATION_FOLDER_INVALID',
    });
  });
});

describe('the mark of a test database', () => {
  const withMark = {
    '0001_first.sql': `CREATE TABLE service_state (
      only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row), test_database boolean NOT NULL DEFAULT false);
      INSERT INTO service_state DEFAULT VALUES;`,
  };

  test('is set when asked for, also later, and only then', async () => {
    await write(withMark);
    await run();
    expect(await rows('SELECT test_database FROM service_state')).toEqual([[false]]);
    await run({ test: true });
    expect(await rows('SELECT test_database FROM service_state')).toEqual([[true]]);
    await run();
    expect(await rows('SELECT test_database FROM service_state')).toEqual([[true]]);
  });

  test('that cannot be set is an error', async () => {
    await write(twoSteps);
    await expect(run({ test: true })).rejects.toMatchObject({ reason: 'TEST_MARK_FAILED' });
  });
});

describe('what a service learns at its start', () => {
  test('the version, with no other right than to read it', async () => {
    await write(twoSteps);
    await run();
    const pool = new Pool({ connectionString: database.serviceUrl, max: 1 });
    expect(await readSchemaVersion(pool)).toBe(2);
    expect(await assertSchemaCurrent(pool, directory)).toBe(2);
    await expect(pool.query('DELETE FROM schema_migrations')).rejects.toMatchObject({ code: '42501' });
    await pool.end();
  });

  test('that the schema is behind, also when it was never migrated', async () => {
    await write(twoSteps);
    await expect(assertSchemaCurrent(client, directory)).rejects.toMatchObject({ reason: 'SCHEMA_BEHIND' });
    await run();
    await write({ '0003_third.sql': 'SELECT 1;' });
    await expect(assertSchemaCurrent(client, directory)).rejects.toMatchObject({ reason: 'SCHEMA_BEHIND' });
  });
});

describe('a database that cannot be used', () => {
  test('nobody listens', async () => {
    await expect(run({ url: 'postgres://x:y@127.0.0.1:1/z' })).rejects.toMatchObject({
      reason: 'DATABASE_UNREACHABLE',
      message: 'The database did not answer.',
    });
  });

  test('a wrong password', async () => {
    const url = urlFor(database.url, { password: 'wrong' });
    await expect(run({ url })).rejects.toMatchObject({ reason: 'LOGIN_REFUSED', sqlState: '28P01' });
  });
});

describe('roles', () => {
  const roleName = `role_${process.pid}_${Date.now()}`;
  const login = `login_${process.pid}_${Date.now()}`;

  afterEach(async () => {
    for (const name of [roleName, login]) {
      if ((await client.query('SELECT FROM pg_roles WHERE rolname = $1', [name])).rowCount === 1) {
        await client.query(`DROP OWNED BY ${name}; DROP ROLE ${name}`);
      }
    }
  });

  async function connectAs(attributes: string): Promise<Client> {
    await client.query(`CREATE ROLE ${login} LOGIN PASSWORD 'pass' ${attributes}`);
    const own = new Client(urlFor(database.url, { user: login, password: 'pass' }));
    await own.connect();
    return own;
  }

  test('the service role is made once by twenty that start at once, and cannot log in', async () => {
    await connectAs('CREATEROLE').then((own) => own.end());
    const url = urlFor(database.url, { user: login, password: 'pass' });
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        const own = new Client(url);
        await own.connect();
        try {
          await ensureServiceRole(own, roleName);
          await own.query(`SET ROLE ${roleName}`);
        } finally {
          await own.end();
        }
      }),
    );
    expect(await rows(`SELECT rolcanlogin FROM pg_roles WHERE rolname = '${roleName}'`)).toEqual([[false]]);
  });

  test('a login that may not make it is told what to ask for', async () => {
    const own = await connectAs('');
    await expect(ensureServiceRole(own, roleName)).rejects.toMatchObject({
      reason: 'ROLE_MISSING',
      message: expect.stringContaining(`CREATE ROLE ${roleName} NOLOGIN`),
    });
    await client.query(`CREATE ROLE ${roleName} NOLOGIN`);
    await expect(ensureServiceRole(own, roleName)).rejects.toMatchObject({
      reason: 'ROLE_MISSING',
      message: expect.stringContaining(`GRANT ${roleName} TO`),
    });
    await client.query(`GRANT ${roleName} TO ${login} WITH SET FALSE`);
    await expect(ensureServiceRole(own, roleName)).rejects.toMatchObject({ reason: 'ROLE_MISSING' });
    await client.query(`GRANT ${roleName} TO ${login} WITH SET TRUE`);
    await ensureServiceRole(own, roleName);
    await own.end();
  });

  test('a login without rights over roles migrates, where they exist', async () => {
    await write(twoSteps);
    const own = await connectAs('');
    await own.end();
    await client.query(`GRANT CREATE ON SCHEMA public TO ${login}`);
    await run({ url: urlFor(database.url, { user: login, password: 'pass' }) });
    expect(await rows('SELECT tableowner FROM pg_tables WHERE tablename = $$runs$$')).toEqual([[login]]);
  });

  test('a name that is no plain identifier never reaches the database', async () => {
    await expect(ensureServiceRole(client, 'a"; DROP TABLE x')).rejects.toThrow(RangeError);
  });
});

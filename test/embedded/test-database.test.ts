import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readSchemaVersion } from '../../src/store/migrate.js';
import { createTestDatabase, type TestDatabase } from '../support/postgres.js';

// What every other test file that wants a database builds on.

let database: TestDatabase;
const clients: Client[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
});

afterAll(async () => {
  for (const client of clients) await client.end();
  await database.drop();
});

async function connect(url: string): Promise<Client> {
  const client = new Client(url);
  client.on('error', () => {});
  await client.connect();
  clients.push(client);
  return client;
}

describe('a test database', () => {
  test('is migrated, and marked as one', async () => {
    const client = await connect(database.url);
    expect(await readSchemaVersion(client)).toBeGreaterThan(0);
    expect((await client.query('SELECT test_database FROM service_state')).rows).toEqual([
      { test_database: true },
    ]);
  });

  test('is served by a login that has the rights of the service role and no others', async () => {
    const client = await connect(database.serviceUrl);
    const { rows } = await client.query(
      `SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolbypassrls OR rolreplication AS special,
         ARRAY(SELECT r.rolname FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid
               WHERE m.member = u.oid) = '{surety_service}' AS only_service
       FROM pg_roles u WHERE rolname = CURRENT_USER`,
    );
    expect(rows).toEqual([{ special: false, only_service: true }]);
    await expect(client.query('CREATE TABLE public.own ()')).rejects.toMatchObject({ code: '42501' });
  });

  test('is nobody else’s: what one file writes another does not see', async () => {
    const other = await createTestDatabase();
    try {
      await (await connect(database.url)).query('CREATE TABLE mine ()');
      const client = await connect(other.url);
      expect((await client.query(`SELECT to_regclass('mine') AS found`)).rows).toEqual([{ found: null }]);
    } finally {
      // Also with a connection open.
      await other.drop();
    }
  });
});

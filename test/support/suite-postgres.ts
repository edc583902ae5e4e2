import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import type { PostgresSettings } from '../../src/embedded/server-settings.js';
import { migrate } from '../../src/store/migrate.js';
import { ensureRole, serviceRole } from '../../src/store/migrate-roles.js';

declare module 'vitest' {
  interface ProvidedContext {
    suitePostgres: PreparedServer;
  }
}

/** A server with the migrated template and the service's login, as the tests' helpers need to know it. */
export interface PreparedServer {
  /** The superuser's, for the database `postgres`. */
  readonly url: string;
  /** Of {@link serviceLogin}. */
  readonly servicePassword: string;
  /** Why the template could not be migrated; whoever wants a database is told, other tests run. */
  readonly templateFailure: string | undefined;
}

/** Copied for each test database, in about 70 ms. */
export const templateDatabase = 'surety_template';

/** A login that has the rights of the service's role and no others. */
export const serviceLogin = 'surety_test_service';

/**
 * 300 connections for the whole suite. Two files run at once; each may hold 100 (two services with a pool of 20
 * and lanes, and the connections of the test itself), which leaves room for connections that are still closing.
 * A test that needs more starts a Postgres of its own.
 *
 * Everything about durability is left as it is, on: see server-settings.ts.
 */
export const testServerSettings: PostgresSettings = {
  max_connections: '300',
  shared_buffers: '128MB',
};

/** Makes the template database and the service's login on a new server. */
export async function prepareServer(url: string): Promise<PreparedServer> {
  const servicePassword = randomBytes(16).toString('hex');
  const client = new Client(url);
  await client.connect();
  try {
    await client.query(`CREATE DATABASE ${templateDatabase}`);
    const templateFailure = await migrateTemplate(urlFor(url, { database: templateDatabase }));
    await ensureRole(client, serviceRole);
    await client.query(
      `CREATE ROLE ${serviceLogin} LOGIN PASSWORD '${servicePassword}' IN ROLE ${serviceRole}`,
    );
    // Nobody can connect to it from now on: a database with a connection cannot be copied.
    await client.query(`ALTER DATABASE ${templateDatabase} WITH IS_TEMPLATE true ALLOW_CONNECTIONS false`);
    return { url, servicePassword, templateFailure };
  } finally {
    await client.end();
  }
}

/** The same server with another database, login or port. */
export function urlFor(
  url: string,
  change: { database?: string; user?: string; password?: string; port?: number },
): string {
  const changed = new URL(url);
  if (change.database !== undefined) changed.pathname = `/${change.database}`;
  if (change.user !== undefined) changed.username = change.user;
  if (change.password !== undefined) changed.password = change.password;
  if (change.port !== undefined) changed.port = String(change.port);
  return changed.href;
}

/** The template is empty as long as there are no migrations. */
async function migrateTemplate(url: string): Promise<string | undefined> {
  const folder = fileURLToPath(new URL('../../src/store/migrations/', import.meta.url));
  const hasMigrations = existsSync(folder) && (await readdir(folder)).some((name) => name.endsWith('.sql'));
  if (!hasMigrations) return undefined;
  return migrate({ url, test: true }).then(
    () => undefined,
    (error: Error) => error.message,
  );
}

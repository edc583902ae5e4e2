import { randomBytes } from 'node:crypto';
import { mkdtemp } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { inject } from 'vitest';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/embedded/embedded-postgres.js';
import type { PostgresSettings } from '../../src/embedded/server-settings.js';
import {
  type PreparedServer,
  prepareServer,
  serviceLogin,
  templateDatabase,
  testServerSettings,
  urlFor,
} from './suite-postgres.js';

export { urlFor } from './suite-postgres.js';

/** What a database starts from. */
export interface TestDatabaseOptions {
  /** Nothing at all, for tests of the migrations; else migrated and marked as a test database. */
  readonly empty?: boolean;
}

/** A database of the test's own. */
export interface TestDatabase {
  /** The superuser's: migrates, looks, breaks things. */
  readonly url: string;
  /** Of a login that may only what the service's role may. */
  readonly serviceUrl: string;
  readonly name: string;
  /** Removes it, and ends whatever is still connected. */
  drop(): Promise<void>;
}

/** A server of the test's own, to be killed and started again. */
export interface PrivatePostgres {
  /** The same before and after a restart. */
  readonly port: number;
  /** Of the postmaster that runs now. */
  pid(): number;
  /** A database of this server. */
  createTestDatabase(options?: TestDatabaseOptions): Promise<TestDatabase>;
  /** SIGKILL, as a crash of the machine would look to its clients; returns when the process is gone. */
  kill(): Promise<void>;
  /** Starts it again after {@link kill}, or stops it fast and starts it, on the same port and data. */
  restart(): Promise<void>;
  /** Stops it and removes its data. Call it in any case. */
  stop(): Promise<void>;
}

/**
 * Makes a database on the suite's server from the migrated template, in about 70 ms. Call `drop` when done. How
 * many connections a test file may hold is said in suite-postgres.ts.
 */
export function createTestDatabase(options?: TestDatabaseOptions): Promise<TestDatabase> {
  return createDatabaseOn(inject('suitePostgres'), options);
}

/** Starts a Postgres for one test file alone, in about two seconds. Call `stop` when done. */
export async function startPrivatePostgres(
  options: { settings?: PostgresSettings } = {},
): Promise<PrivatePostgres> {
  const dataDir = await mkdtemp(path.join(os.tmpdir(), 'surety-test-'));
  const settings = { ...testServerSettings, ...options.settings };
  const start = (port?: number): Promise<EmbeddedPostgres> =>
    startEmbeddedPostgres({
      dataDir,
      settings,
      removeWhenDone: true,
      ...(port === undefined ? {} : { port }),
    });
  let server = await start();
  const prepared = await prepareServer(server.url);
  return {
    port: server.port,
    pid: () => server.pid,
    createTestDatabase: (databaseOptions) => createDatabaseOn(prepared, databaseOptions),
    kill: async () => {
      process.kill(server.pid, 'SIGKILL');
      await server.exited;
      await server.stop({ keepData: true });
    },
    restart: async () => {
      await server.stop({ keepData: true });
      server = await start(server.port);
    },
    stop: () => server.stop(),
  };
}

/** Makes a database on a server that was prepared. */
export async function createDatabaseOn(
  server: PreparedServer,
  { empty = false }: TestDatabaseOptions = {},
): Promise<TestDatabase> {
  if (!empty && server.templateFailure !== undefined) throw new Error(server.templateFailure);
  const name = `test_${randomBytes(8).toString('hex')}`;
  await asSuperuser(server, `CREATE DATABASE ${name} TEMPLATE ${empty ? 'template0' : templateDatabase}`);
  const url = urlFor(server.url, { database: name });
  return {
    name,
    url,
    serviceUrl: urlFor(url, { user: serviceLogin, password: server.servicePassword }),
    drop: () => asSuperuser(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}

/** As long as no test takes, in milliseconds. */
const FOR_EVER_MS = '600000';

/**
 * The same database, for a service or a lane whose transaction a test holds or keeps waiting: no timeout of the connection
 * ends it meanwhile, however slow the machine is. What a URL says goes before the service's own values (`clientConfig`).
 */
export function patientUrl(url: string): string {
  const patient = new URL(url);
  for (const name of [
    'idle_in_transaction_session_timeout',
    'lock_timeout',
    'statement_timeout',
    'query_timeout',
  ]) {
    patient.searchParams.set(name, FOR_EVER_MS);
  }
  return patient.href;
}

async function asSuperuser(server: PreparedServer, sql: string): Promise<void> {
  const client = new Client(server.url);
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

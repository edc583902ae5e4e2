import pg from 'pg';
import type { ConnectionSettings } from './connection.js';
import { assertSchemaCurrent, migrate } from './migrate.js';
import { MigrationError, toMigrationError } from './migrate-error.js';
import { ensureServiceRole, serviceRole } from './migrate-roles.js';

/** Where to serve from, and who may change the schema. */
export interface DatabaseLogins {
  /** Serves. */
  readonly databaseUrl: string;
  /** Migrates. Undefined: `databaseUrl` does. */
  readonly migrationUrl: string | undefined;
  readonly log: (message: string) => void;
}

/** What a database says of itself before anything is served from it. */
export interface PreparedDatabase {
  /** How every serving connection is made. */
  readonly settings: ConnectionSettings;
  /** Of the schema. */
  readonly version: number;
  /** What signed statements name as their audience; undefined: there was no bootstrap. */
  readonly audience: string | undefined;
  /** The service's own domain; undefined: there was no bootstrap. */
  readonly serviceDomainId: string | undefined;
  readonly incarnation: bigint;
  /** Whether `surety migrate --test` has marked it. */
  readonly testDatabase: boolean;
  /** The store's clock, microseconds since the epoch. */
  readonly now: bigint;
}

/** A database that is there accepts a connection at once; a proxy in front of it may need a moment. */
const CONNECT_TIMEOUT_MS = 10_000;
const QUERY_TIMEOUT_MS = 10_000;

const READ_STATE = `SELECT incarnation::text, audience, service_domain_id, test_database, surety_now()::text AS now
  FROM service_state`;

interface StateRow {
  readonly incarnation: string;
  readonly audience: string | null;
  readonly service_domain_id: string | null;
  readonly test_database: boolean;
  readonly now: string;
}

/**
 * Brings the schema up to date and says how to serve from it (architecture.md, Configuration and data): with a login for
 * each, or with one login that migrates and takes the serving role on every connection.
 *
 * One login on a schema that is current migrates nothing, so that it then needs no right to.
 *
 * @throws MigrationError
 */
export async function prepareDatabase(logins: DatabaseLogins): Promise<PreparedDatabase> {
  const { databaseUrl, migrationUrl, log } = logins;
  if (migrationUrl !== undefined) await migrate({ url: migrationUrl, log });
  const settings: ConnectionSettings = {
    url: databaseUrl,
    applicationName: 'surety',
    ...(migrationUrl === undefined ? { role: serviceRole } : {}),
  };
  return withClient(databaseUrl, async (client) => {
    const version =
      migrationUrl === undefined ? await migrateIfBehind(client, logins) : await assertSchemaCurrent(client);
    if (settings.role !== undefined) {
      await ensureServiceRole(client);
      await client.query(`SET ROLE ${settings.role}`);
    }
    const { rows } = await client.query<StateRow>(READ_STATE);
    const [state] = rows;
    if (state === undefined)
      throw new MigrationError('HISTORY_BROKEN', 'The database has lost the row that says what it is.');
    return {
      settings,
      version,
      audience: state.audience ?? undefined,
      serviceDomainId: state.service_domain_id ?? undefined,
      incarnation: BigInt(state.incarnation),
      testDatabase: state.test_database,
      now: BigInt(state.now),
    };
  });
}

async function migrateIfBehind(client: pg.Client, { databaseUrl, log }: DatabaseLogins): Promise<number> {
  try {
    return await assertSchemaCurrent(client);
  } catch (error) {
    if (!(error instanceof MigrationError) || error.reason !== 'SCHEMA_BEHIND') throw error;
    const { version } = await migrate({ url: databaseUrl, log });
    return version;
  }
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'surety-start',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
  });
  // A connection that breaks between two queries emits an error, which nobody listening to would end the process.
  client.on('error', () => {});
  try {
    await client.connect();
    return await work(client);
  } catch (error) {
    throw toMigrationError(error);
  } finally {
    await client.end().catch(() => {});
  }
}

import pg from 'pg';
import type { ConnectionSettings } from './connection.js';
import { assertSchemaCurrent } from './migrate.js';
import { toMigrationError } from './migrate-error.js';
import { archiveRole, ensureServiceRole } from './migrate-roles.js';

const CONNECT_TIMEOUT_MS = 10_000;
const QUERY_TIMEOUT_MS = 10_000;

/**
 * The archival gives way: callers queue for a domain's lock, and so does it, but it goes away again where a caller would
 * still wait, in milliseconds.
 */
const LOCK_TIMEOUT_MS = 2_000;

/** How to archive from a database. */
export interface ArchiveDatabase {
  readonly settings: ConnectionSettings;
  /** Whether `surety migrate --test` has marked it. */
  readonly testDatabase: boolean;
}

/**
 * Says how to archive from a database whose schema is current: with a login that has the archiving role's rights, or with
 * one that takes the role on every connection.
 *
 * @param takeRole whether the login is another one's, which must be able to take the role
 * @throws MigrationError
 */
export async function prepareArchive(url: string, takeRole: boolean): Promise<ArchiveDatabase> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'surety-archive',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
  });
  // A connection that breaks between two queries emits an error, which nobody listening to would end the process.
  client.on('error', () => {});
  try {
    await client.connect();
    await assertSchemaCurrent(client);
    if (takeRole) await ensureServiceRole(client, archiveRole);
    const { rows } = await client.query<{ test_database: boolean }>(
      'SELECT test_database FROM service_state',
    );
    const settings = {
      url,
      applicationName: 'surety-archive',
      lockTimeoutMs: LOCK_TIMEOUT_MS,
      ...(takeRole ? { role: archiveRole } : {}),
    };
    return { settings, testDatabase: rows[0]?.test_database === true };
  } catch (error) {
    throw toMigrationError(error);
  } finally {
    await client.end().catch(() => {});
  }
}

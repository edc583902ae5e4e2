import { Client, type ClientBase, DatabaseError, type Pool } from 'pg';
import { MigrationError, toMigrationError } from './migrate-error.js';
import { sqlState } from './store-error.js';
import { type Migration, readMigrations } from './migrate-files.js';
import { ensureHistoryTables, pendingMigrations, readHistory, recordMigration } from './migrate-history.js';
import { archiveRole, ensureRole, serviceRole } from './migrate-roles.js';

/** What {@link migrate} takes. */
export interface MigrateOptions {
  /** Of a login that may create tables in the schema `public`, and roles unless they exist. */
  readonly url: string;
  /** The folder with the SQL files; the one beside this file if none is given. */
  readonly directory?: URL;
  /** Mark the database as one for tests, which a service with a test clock demands (architecture.md, Time). */
  readonly test?: boolean;
  /** Gets a line for each migration that this call applied. */
  readonly log?: (message: string) => void;
}

/** What {@link migrate} did. */
export interface MigrateResult {
  /** Of the schema as it is now. */
  readonly version: number;
  /** The versions that this call applied; others may have applied more at the same time. */
  readonly applied: readonly number[];
}

const ownDirectory = new URL('./migrations/', import.meta.url);

/** A database that is there accepts a connection at once; a proxy in front of it may need a moment. */
const connectTimeoutMs = 10_000;

/**
 * A migration may rewrite a large table, so statements have no limit. Waiting has: ten minutes for another
 * runner, half a minute for a table (whoever waits for a table holds up all who come after it), a minute for
 * ourselves (a runner that hangs between two statements holds up everybody).
 */
const sessionSettings = `
  RESET ROLE;
  RESET ALL;
  SET search_path = public;
  SET client_min_messages = warning;
  SET statement_timeout = 0;
  SET lock_timeout = '10min';
  SET idle_in_transaction_session_timeout = '60s';`;
const lockTimeoutInside = `SET LOCAL lock_timeout = '30s'`;

/** No such savepoint; no transaction. */
const leftTransaction: ReadonlySet<string> = new Set(['3B001', '25P01']);

/**
 * Brings a database's schema up to date (architecture.md, Migrations): forward only, each file in a transaction
 * of its own, under one lock row, so that any number of processes may start at once and each file is applied
 * once. A process that dies leaves the schema at the last whole version.
 *
 * @throws MigrationError
 */
export async function migrate(options: MigrateOptions): Promise<MigrateResult> {
  const migrations = await readMigrations(options.directory ?? ownDirectory);
  const client = new Client({
    connectionString: options.url,
    application_name: 'surety-migrate',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
  });
  // A connection that breaks between two queries emits an error, which nobody listening to would end the process.
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query(sessionSettings);
    for (const role of [serviceRole, archiveRole]) await ensureRole(client, role);
    await ensureHistoryTables(client);
    const applied = await applyAll(client, migrations, options.log ?? (() => {}));
    if (options.test === true) await markAsTest(client);
    return { version: migrations.length, applied };
  } catch (error) {
    throw toMigrationError(error);
  } finally {
    await client.end().catch(() => {});
  }
}

/**
 * The version of a database's schema, 0 if it was never migrated. The service's role may read it.
 *
 * @throws MigrationError DATABASE_UNREACHABLE, DATABASE_ERROR
 */
export async function readSchemaVersion(pool: Pool | ClientBase): Promise<number> {
  try {
    return (await readHistory(pool)).at(-1)?.version ?? 0;
  } catch (error) {
    throw toMigrationError(error);
  }
}

/**
 * Checks that a database's schema is exactly the one that this program was built for: before a service serves
 * that does not migrate itself.
 *
 * @returns the version
 * @throws MigrationError SCHEMA_BEHIND, SCHEMA_NEWER, MIGRATION_EDITED, HISTORY_BROKEN, DATABASE_UNREACHABLE,
 *   DATABASE_ERROR
 */
export async function assertSchemaCurrent(
  pool: Pool | ClientBase,
  directory: URL = ownDirectory,
): Promise<number> {
  const migrations = await readMigrations(directory);
  try {
    const pending = pendingMigrations(migrations, await readHistory(pool));
    if (pending.length === 0) return migrations.length;
    throw new MigrationError(
      'SCHEMA_BEHIND',
      `The database's schema has version ${migrations.length - pending.length}, and this program needs ` +
        `${migrations.length}: run surety migrate.`,
    );
  } catch (error) {
    throw toMigrationError(error);
  }
}

async function applyAll(
  client: Client,
  migrations: readonly Migration[],
  log: (message: string) => void,
): Promise<number[]> {
  const applied: number[] = [];
  // Read without the lock first: of twenty replicas that start on a current schema none waits for another.
  while (pendingMigrations(migrations, await readHistory(client)).length > 0) {
    const migration = await applyNext(client, migrations);
    if (migration === undefined) continue;
    applied.push(migration.version);
    log(`applied migration ${migration.fileName}`);
  }
  return applied;
}

/** Applies the next migration, or none if another process has applied the last one while we waited. */
async function applyNext(client: Client, migrations: readonly Migration[]): Promise<Migration | undefined> {
  // Under any other level the history would be read as it was before the wait for the lock.
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
  try {
    await client.query('SELECT FROM public.schema_migration_lock FOR UPDATE');
    const migration = pendingMigrations(migrations, await readHistory(client))[0];
    if (migration !== undefined) {
      await client.query(lockTimeoutInside);
      await runMigration(client, migration);
      await recordMigration(client, migration);
    }
    await client.query('COMMIT');
    // What a file set for its session must not reach the next one.
    await client.query(sessionSettings);
    return migration;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}

async function runMigration(client: Client, migration: Migration): Promise<void> {
  // A file that ends our transaction, even one that begins another, loses this savepoint.
  await client.query('SAVEPOINT surety_migration');
  try {
    await client.query(migration.sql);
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error;
    throw new MigrationError(
      'MIGRATION_FAILED',
      `${migration.fileName} failed${lineOf(migration.sql, error.position)}`,
      error.code,
    );
  }
  try {
    await client.query('RELEASE SAVEPOINT surety_migration');
  } catch (error) {
    if (!leftTransaction.has(sqlState(error) ?? '')) throw error;
    throw new MigrationError(
      'MIGRATION_LEFT_TRANSACTION',
      `${migration.fileName} ends the transaction that it runs in: it must not hold BEGIN, COMMIT or ROLLBACK.`,
    );
  }
}

/** The database counts characters, people count lines. */
function lineOf(sql: string, position: string | undefined): string {
  if (position === undefined) return '';
  return ` at line ${sql.slice(0, Number(position) - 1).split('\n').length}`;
}

/** The row belongs to the first migration. */
async function markAsTest(client: Client): Promise<void> {
  const marked = await client.query('UPDATE public.service_state SET test_database = true').then(
    ({ rowCount }) => rowCount,
    (error: unknown) => {
      if (sqlState(error) === undefined) throw error;
      return 0;
    },
  );
  if (marked !== 1) {
    throw new MigrationError('TEST_MARK_FAILED', 'The migrations made no row in service_state to mark.');
  }
}

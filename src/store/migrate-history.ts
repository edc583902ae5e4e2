import type { ClientBase, Pool } from 'pg';
import { MigrationError } from './migrate-error.js';
import { sqlState } from './store-error.js';
import type { Migration } from './migrate-files.js';
import { serviceRole } from './migrate-roles.js';

/** One row of `schema_migrations`. */
interface AppliedMigration {
  readonly version: number;
  readonly name: string;
  readonly checksum: string;
}

/** Raised when two sessions create the same table at once: its row in the catalog, or the table itself. */
const createdMeanwhile: ReadonlySet<string> = new Set(['23505', '42P07', '42710']);

/** The loser of that race finds the table at its next look. */
const maxCreateTries = 5;

const createTables = `
  BEGIN;
  CREATE TABLE public.schema_migrations (
    version integer PRIMARY KEY CHECK (version > 0),
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  CREATE TABLE public.schema_migration_lock (
    only_row boolean PRIMARY KEY CHECK (only_row)
  );
  INSERT INTO public.schema_migration_lock VALUES (true);
  GRANT SELECT ON public.schema_migrations TO ${serviceRole};
  COMMIT;`;

/**
 * Makes the runner's own tables, if they are not there: all of them or none, whoever else does the same.
 *
 * @throws the driver's error
 */
export async function ensureHistoryTables(client: ClientBase): Promise<void> {
  for (let tries = 1; !(await historyExists(client)); tries++) {
    try {
      await client.query(createTables);
    } catch (error) {
      await client.query('ROLLBACK');
      if (!createdMeanwhile.has(sqlState(error) ?? '') || tries === maxCreateTries) throw error;
    }
  }
}

/** What has been applied, in order; nothing if the runner has never been here. */
export async function readHistory(client: ClientBase | Pool): Promise<readonly AppliedMigration[]> {
  if (!(await historyExists(client))) return [];
  const { rows } = await client.query<AppliedMigration>(
    'SELECT version, name, checksum FROM public.schema_migrations ORDER BY version',
  );
  return rows;
}

/** Records a migration as applied, in the transaction that applies it. */
export async function recordMigration(client: ClientBase, migration: Migration): Promise<void> {
  await client.query('INSERT INTO public.schema_migrations (version, name, checksum) VALUES ($1, $2, $3)', [
    migration.version,
    migration.name,
    migration.checksum,
  ]);
}

/**
 * Compares what was applied with what we have.
 *
 * @returns the migrations that are still to be applied, in order
 * @throws MigrationError SCHEMA_NEWER, HISTORY_BROKEN, MIGRATION_EDITED
 */
export function pendingMigrations(
  known: readonly Migration[],
  applied: readonly AppliedMigration[],
): readonly Migration[] {
  const newest = applied.at(-1)?.version ?? 0;
  if (newest > known.length) {
    throw new MigrationError(
      'SCHEMA_NEWER',
      `The database's schema has version ${newest}, and this program knows ${known.length}: ` +
        'it needs a newer version of Surety.',
    );
  }
  applied.forEach((row, index) => {
    const migration = known[index];
    if (migration === undefined || row.version !== migration.version) {
      throw new MigrationError(
        'HISTORY_BROKEN',
        `The database has migration ${row.version}, and lacks ${index + 1}, which comes before it.`,
      );
    }
    if (row.checksum !== migration.checksum || row.name !== migration.name) {
      throw new MigrationError(
        'MIGRATION_EDITED',
        `${migration.fileName} is not what was applied to this database. Migrations are never edited: ` +
          'bring the file back, and put the change into a new one.',
      );
    }
  });
  return known.slice(applied.length);
}

async function historyExists(client: ClientBase | Pool): Promise<boolean> {
  const { rows } = await client.query<{ there: boolean }>(
    `SELECT to_regclass('public.schema_migrations') IS NOT NULL AS there`,
  );
  return rows[0]?.there === true;
}

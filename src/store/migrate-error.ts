import { sqlState } from './store-error.js';

/** Why a schema could not be brought or found up to date. Stable: callers and tests compare it. */
export type MigrationReason =
  /** A file is named or numbered wrongly, or the folder cannot be read. */
  | 'MIGRATION_FOLDER_INVALID'
  /** The database has migrations that this program does not know: a newer version has been here. */
  | 'SCHEMA_NEWER'
  /** The database lacks migrations that this program needs. */
  | 'SCHEMA_BEHIND'
  /** A migration that was applied has another name or another text now. */
  | 'MIGRATION_EDITED'
  /** The database has a later migration and lacks an earlier one. */
  | 'HISTORY_BROKEN'
  /** A migration's SQL failed; nothing of it was kept. */
  | 'MIGRATION_FAILED'
  /** A migration's SQL ended the transaction that it runs in. */
  | 'MIGRATION_LEFT_TRANSACTION'
  /** A role is missing, and this login may not make it or be made a member. */
  | 'ROLE_MISSING'
  /** The migrations have no row to mark as a test database. */
  | 'TEST_MARK_FAILED'
  /** The database did not answer, or the connection broke; a migration that was under way counts as unknown. */
  | 'DATABASE_UNREACHABLE'
  /** The database refused something else; `sqlState` says what. */
  | 'DATABASE_ERROR';

/**
 * What the migration functions throw, and nothing else. The driver's own words are left out: they carry names,
 * values and SQL.
 */
export class MigrationError extends Error {
  override readonly name = 'MigrationError';

  /**
   * @param reason - stable, for programs
   * @param message - for people
   * @param sqlState - the database's five characters, if it was the database that refused
   */
  constructor(
    readonly reason: MigrationReason,
    message: string,
    readonly sqlState?: string,
  ) {
    super(sqlState === undefined ? message : `${message} (SQLSTATE ${sqlState})`);
  }
}

/** Any error as one of ours. */
export function toMigrationError(error: unknown): MigrationError {
  if (error instanceof MigrationError) return error;
  const state = sqlState(error);
  return state === undefined
    ? new MigrationError('DATABASE_UNREACHABLE', 'The database did not answer.')
    : new MigrationError('DATABASE_ERROR', 'The database refused a statement', state);
}

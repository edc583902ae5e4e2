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
  /** The database does not let the login in: it, its user or its password is not one of its own. */
  | 'LOGIN_REFUSED'
  /** The server has no database of that name. */
  | 'DATABASE_MISSING'
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

/** What a server says to somebody who connects, and what it means. */
const CONNECT_REFUSALS: Readonly<Record<string, readonly [MigrationReason, string]>> = {
  '28P01': ['LOGIN_REFUSED', 'The database does not take the user and password'],
  '28000': ['LOGIN_REFUSED', 'The database does not let the user in'],
  '3D000': ['DATABASE_MISSING', 'There is no such database'],
};

/**
 * Any error as one of ours.
 *
 * @param refused the sentence for a statement that the database refused
 */
export function toMigrationError(
  error: unknown,
  refused: string = 'The database refused a statement',
): MigrationError {
  if (error instanceof MigrationError) return error;
  const state = sqlState(error);
  if (state === undefined) return new MigrationError('DATABASE_UNREACHABLE', 'The database did not answer.');
  const [reason, message] = CONNECT_REFUSALS[state] ?? (['DATABASE_ERROR', refused] as const);
  return new MigrationError(reason, message, state);
}

import { DatabaseError } from 'pg';

/** What became of a transaction that did not answer as it should. */
export type StoreFailure =
  /** It is certain that nothing was committed. */
  | 'not_done'
  /** It is not known whether COMMIT took effect. */
  | 'unknown';

/** A failure of the store, without any text of the driver; `detail` is for the log only. */
export class StoreError extends Error {
  constructor(
    readonly failure: StoreFailure,
    /** Whether trying again may help: a lost connection, a conflict. */
    readonly transient: boolean,
    /** SQLSTATE or the name of the driver's error, for the log. */
    readonly detail: string,
    options?: ErrorOptions,
  ) {
    super(`store: ${failure} (${detail})`, options);
    this.name = 'StoreError';
  }
}

/** Conflicts after which the same batch is decided anew (architecture.md): unique violation, serialization, deadlock, lock, cancel. */
const CONFLICT_STATES: ReadonlySet<string> = new Set(['23505', '40001', '40P01', '55P03', '57014', '22012']);

/** Classes of SQLSTATE that say that the server, not the statement, is in trouble. */
const SERVER_CLASSES: ReadonlySet<string> = new Set(['08', '53', '57', '58', '25']);

/**
 * SQLSTATE, where it was the database that refused; undefined for the driver's own failures, whose codes (`EPIPE`) may
 * look alike. The only place that tells them apart.
 */
export function sqlState(error: unknown): string | undefined {
  return error instanceof DatabaseError ? error.code : undefined;
}

/** Whether a failure before COMMIT may pass when tried again. */
export function isTransient(error: unknown): boolean {
  const state = sqlState(error);
  if (state === undefined) return true;
  return CONFLICT_STATES.has(state) || SERVER_CLASSES.has(state.slice(0, 2));
}

/** A short name of a driver error for the log: never its text, which may hold data. */
export function detailOf(error: unknown): string {
  const state = sqlState(error);
  if (state !== undefined) return state;
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : 'connection';
}

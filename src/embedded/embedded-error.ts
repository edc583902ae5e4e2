/** Why the embedded Postgres did not start, stop or go away. Stable: callers and tests compare it. */
export type EmbeddedPostgresReason =
  /** There are no binaries for this operating system and processor. */
  | 'PLATFORM_UNSUPPORTED'
  /** The optional npm package with the binaries is not installed. */
  | 'PACKAGE_MISSING'
  /** The binaries are there, but cannot be run under the account that has to run them. */
  | 'BINARIES_UNUSABLE'
  /** Postgres refuses to run as root, and there is no other account to run it under. */
  | 'NO_UNPRIVILEGED_USER'
  /** There is no folder for the data that the account can reach and that is ours alone. */
  | 'NO_PLACE_FOR_DATA'
  /** The data belongs to another account. */
  | 'DATA_NOT_OURS'
  /** The data is there, and its superuser password is not. */
  | 'PASSWORD_MISSING'
  /** The data was written by another major version of Postgres. */
  | 'DATA_VERSION_MISMATCH'
  /** A living process has this data open. */
  | 'ALREADY_RUNNING'
  /** The port that was asked for is taken. */
  | 'PORT_IN_USE'
  /** A setting that is not the caller's to change, or is no setting. */
  | 'SETTING_NOT_ALLOWED'
  /** `initdb` failed. */
  | 'INITDB_FAILED'
  /** The server ended, or did not become ready in time. */
  | 'START_FAILED'
  /** The server did not end, not even when it was killed. */
  | 'STOP_FAILED';

/** What every function in this folder throws, and nothing else. */
export class EmbeddedPostgresError extends Error {
  override readonly name = 'EmbeddedPostgresError';

  /**
   * @param reason - stable, for programs
   * @param message - for people; says what to do about it where there is something
   * @param output - the last lines that Postgres or initdb printed, empty if it never ran
   */
  constructor(
    readonly reason: EmbeddedPostgresReason,
    message: string,
    readonly output: string = '',
  ) {
    super(output === '' ? message : `${message}\n${output}`);
  }
}

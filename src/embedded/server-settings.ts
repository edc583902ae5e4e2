import { EmbeddedPostgresError } from './embedded-error.js';

/** Postgres settings (GUCs) by name, such as `{ max_connections: '300' }`. */
export type PostgresSettings = Readonly<Record<string, string>>;

const defaultSettings: PostgresSettings = {
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_min_messages: 'warning',
  log_checkpoints: 'off',
  // A statement can carry a password (CREATE ROLE), and a DETAIL line carries stored values.
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_line_prefix: '[%p] ',
};

/** Who may talk to it, and what it reads: nobody from another machine or through a socket file. */
const fixedSettings: PostgresSettings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  password_encryption: 'scram-sha-256',
};

/**
 * Refused, and not on the command line either: they are on unless somebody turns them off, a promise about
 * durability that was tested without them was not tested, and a test that the service refuses to serve without
 * them can still turn them off inside the database.
 */
const durabilitySettings: ReadonlySet<string> = new Set(['fsync', 'full_page_writes', 'synchronous_commit']);

/** Ours to choose, each through a parameter of its own. */
const managedSettings: ReadonlySet<string> = new Set([
  ...Object.keys(fixedSettings),
  'port',
  'data_directory',
  'config_file',
  'hba_file',
  'ident_file',
  'external_pid_file',
  'logging_collector',
]);

/** Carries the pid of the process that started the server; the orphan check reads it (see orphan.ts). */
export const ownerSetting = 'surety.owner_pid';

/**
 * The arguments with which `postgres` is started.
 *
 * @throws EmbeddedPostgresError SETTING_NOT_ALLOWED
 */
export function serverArguments(
  data: string,
  port: number,
  settings: PostgresSettings,
  ownerPid: number,
): string[] {
  checkSettings(settings);
  const all = {
    ...defaultSettings,
    ...settings,
    ...fixedSettings,
    port: String(port),
    [ownerSetting]: String(ownerPid),
  };
  return ['-D', data, ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

/**
 * Checks the names of settings; Postgres itself judges the values.
 *
 * @throws EmbeddedPostgresError SETTING_NOT_ALLOWED
 */
export function checkSettings(settings: PostgresSettings): void {
  for (const name of Object.keys(settings)) {
    const refused = durabilitySettings.has(name)
      ? 'it has to stay on'
      : managedSettings.has(name) || name === ownerSetting
        ? 'it is not for the caller to choose'
        : /^[a-z_]+(\.[a-z_]+)?$/.test(name)
          ? undefined
          : 'it is no setting';
    if (refused !== undefined) {
      throw new EmbeddedPostgresError(
        'SETTING_NOT_ALLOWED',
        `The Postgres setting ${name} was refused: ${refused}.`,
      );
    }
  }
}

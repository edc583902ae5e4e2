import { readFileSync, statSync } from 'node:fs';
import type { FaultOrder } from '../lane/faults.js';
import { environmentMistakes } from './environment.js';
import { TLS_VARIABLES, tlsFileMistakes } from './tls-files.js';
import type { ListenAddress } from './value-types.js';
import { VARIABLES, type Values, type Variable, type VariableName } from './variables.js';

/** Where the service's certificate, its key and the bundles are. */
export interface TlsPaths {
  readonly certificateFile: string;
  readonly keyFile: string;
  readonly bundlesDirectory: string;
}

/** What a process was told, checked. */
export interface Configuration {
  readonly listen: ListenAddress;
  readonly adminListen: ListenAddress;
  /** Undefined: development certificates are to be made. */
  readonly tls: TlsPaths | undefined;
  /** Undefined: the embedded Postgres is to be started. */
  readonly databaseUrl: string | undefined;
  readonly migrationUrl: string | undefined;
  readonly archiveUrl: string | undefined;
  readonly laneConnections: number;
  readonly poolSize: number;
  readonly queueLimit: number;
  readonly batchLimit: number;
  readonly sweepIntervalMs: number;
  readonly connectionMaxAgeMs: number;
  readonly drainGraceMs: number;
  readonly reflection: boolean;
  readonly logLevel: string;
  readonly stateDir: string;
  readonly testClock: boolean;
  readonly fault: FaultOrder | undefined;
}

/** Every mistake at once, each with its variable's name in front. Nothing was started; exit 2. */
export class ConfigurationInvalid extends Error {
  override readonly name = 'ConfigurationInvalid';
  constructor(readonly mistakes: readonly string[]) {
    super(mistakes.join('\n'));
  }
}

/** Which variables a command cannot do without. */
const REQUIRED: Readonly<Record<string, readonly VariableName[]>> = {
  serve: ['SURETY_TLS_CERT_FILE', 'SURETY_TLS_KEY_FILE', 'SURETY_BUNDLES_DIR', 'SURETY_DATABASE_URL'],
};

/** Commands that serve, or speak, with the service's own certificate: they look into the files of TLS beforehand. */
const READS_TLS: ReadonlySet<string> = new Set(['serve', 'start', 'health']);

/**
 * Reads and checks everything, before anything is done with it.
 *
 * @param environment usually `process.env`; not changed
 * @param command of the CLI; says which variables must be there
 * @throws {ConfigurationInvalid}
 */
export function readConfiguration(
  environment: Readonly<Record<string, string | undefined>>,
  command:
    | 'serve'
    | 'start'
    | 'migrate'
    | 'bootstrap'
    | 'restore'
    | 'health'
    | 'admin'
    | 'archive'
    | 'worker',
): Configuration {
  const mistakes: string[] = [...environmentMistakes(environment)];
  const texts = new Map<VariableName, string>();
  const values: Record<string, unknown> = {};
  for (const [name, variable] of Object.entries(VARIABLES) as [VariableName, Variable][]) {
    const text = textOf(environment, name, variable, mistakes);
    if (text === undefined) continue;
    texts.set(name, text);
    const parsed = variable.type.safeParse(text);
    if (parsed.success) values[name] = parsed.data;
    else
      mistakes.push(
        ...parsed.error.issues.map(({ message }) => `${name}: ${message}${shown(variable, text)}`),
      );
  }
  const isSet = (name: VariableName): boolean => environment[name] !== undefined || texts.has(name);
  for (const name of REQUIRED[command] ?? []) if (!isSet(name)) mistakes.push(`${name}: must be set`);
  mistakes.push(...fileMistakes(values, isSet, command));
  if (mistakes.length > 0) throw new ConfigurationInvalid(mistakes);
  return configurationOf(values as Values);
}

function configurationOf(values: Values): Configuration {
  const { SURETY_TLS_CERT_FILE, SURETY_TLS_KEY_FILE, SURETY_BUNDLES_DIR } = values;
  return Object.freeze({
    listen: Object.freeze(given(values.SURETY_LISTEN)),
    adminListen: Object.freeze(given(values.SURETY_ADMIN_LISTEN)),
    tls:
      SURETY_TLS_CERT_FILE === undefined
        ? undefined
        : Object.freeze({
            certificateFile: SURETY_TLS_CERT_FILE,
            keyFile: given(SURETY_TLS_KEY_FILE),
            bundlesDirectory: given(SURETY_BUNDLES_DIR),
          }),
    databaseUrl: values.SURETY_DATABASE_URL,
    migrationUrl: values.SURETY_MIGRATION_URL,
    archiveUrl: values.SURETY_ARCHIVE_URL,
    laneConnections: given(values.SURETY_LANE_CONNECTIONS),
    poolSize: given(values.SURETY_POOL_SIZE),
    queueLimit: given(values.SURETY_QUEUE_LIMIT),
    batchLimit: given(values.SURETY_BATCH_LIMIT),
    sweepIntervalMs: given(values.SURETY_SWEEP_INTERVAL_MS),
    connectionMaxAgeMs: given(values.SURETY_CONNECTION_MAX_AGE_MS),
    drainGraceMs: given(values.SURETY_DRAIN_GRACE_MS),
    reflection: given(values.SURETY_REFLECTION),
    logLevel: given(values.SURETY_LOG_LEVEL),
    stateDir: given(values.SURETY_STATE_DIR),
    testClock: given(values.SURETY_TEST_CLOCK),
    fault: values.SURETY_FAULT,
  });
}

/** A variable that has a fallback, or was required, is there by now. */
function given<T>(value: T | undefined): T {
  if (value === undefined) throw new TypeError('a checked value is not there');
  return value;
}

function textOf(
  environment: Readonly<Record<string, string | undefined>>,
  name: VariableName,
  variable: Variable,
  mistakes: string[],
): string | undefined {
  const direct = environment[name];
  const file = variable.secret === true ? environment[`${name}_FILE`] : undefined;
  if (direct !== undefined && file !== undefined) {
    mistakes.push(`${name}: is set, and ${name}_FILE as well`);
    return undefined;
  }
  if (file === undefined) return direct ?? variable.fallback;
  try {
    return readFileSync(file, 'utf8').trimEnd();
  } catch (error) {
    mistakes.push(`${name}_FILE: ${codeOf(error)} ${file}`);
    return undefined;
  }
}

/** The files of TLS and the folder of the state, as far as they can be looked at before anything is done. */
function fileMistakes(
  values: Readonly<Partial<Record<VariableName, unknown>>>,
  isSet: (name: VariableName) => boolean,
  command: string,
): string[] {
  const set = TLS_VARIABLES.filter(isSet);
  const missing =
    command !== 'serve' && set.length > 0
      ? TLS_VARIABLES.filter((name) => !isSet(name)).map(
          (name) => `${name}: must be set too, as ${set[0]} is`,
        )
      : [];
  const paths = Object.fromEntries(
    TLS_VARIABLES.flatMap((name) => {
      const file = values[name];
      return typeof file === 'string' ? [[name, file]] : [];
    }),
  );
  const tls = tlsFileMistakes(paths, READS_TLS.has(command) ? 'contents' : 'places');
  return [...missing, ...tls, ...(command === 'start' ? stateMistakes(values.SURETY_STATE_DIR) : [])];
}

/** One that is not there is made; whether it can be is seen then. */
function stateMistakes(folder: unknown): string[] {
  if (typeof folder !== 'string' || folder === '') return [];
  try {
    return statSync(folder).isDirectory() ? [] : [`SURETY_STATE_DIR: ${folder} is not a folder`];
  } catch {
    return [];
  }
}

/** A value may be repeated where it is no secret, so that a person sees which of several spellings counted. */
function shown({ secret }: Variable, text: string): string {
  return secret === true ? '' : ` (it is ${JSON.stringify(text.slice(0, 80))})`;
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'cannot be read:';
}

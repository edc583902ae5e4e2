import { readFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Logger } from 'pino';
import { SERVICE, spiffeIdOf } from '../../certs/callers.js';
import {
  type DevelopmentCertificates,
  ensureDevelopmentCertificates,
} from '../../certs/development-certificates.js';
import { type Configuration, readConfiguration, type TlsPaths } from '../config/configuration.js';
import { VARIABLES } from '../config/variables.js';
import {
  type EmbeddedPostgres,
  removeEmbeddedPostgres,
  startEmbeddedPostgres,
} from '../embedded/embedded-postgres.js';
import { auditCodec } from '../lane/audit-codec.js';
import { Refused } from '../ledger/run-decision.js';
import { runService } from '../main.js';
import { newId } from '../rpc/new-id.js';
import { createLog } from '../server/log.js';
import { type Service, StartRefused } from '../server/service.js';
import { bootstrap } from '../store/bootstrap.js';
import { migrate } from '../store/migrate.js';
import { bootstrapInput } from './bootstrap-input.js';
import {
  DEVELOPMENT_AUDITOR,
  DEVELOPMENT_OPERATOR,
  ensureDevelopmentAuditor,
} from './development-auditor.js';
import { EXIT_FAILED } from './failure.js';
import { makeFolder } from './make-folder.js';
import { addressLines } from './start-output.js';

export const START_HELP = `surety start [--fresh]

For development. Starts a real Postgres that came with the npm packages, makes certificates for the service and its
callers, migrates, makes the development operator and auditor, and serves. With SURETY_DATABASE_URL it uses that Postgres; with
the three TLS variables those certificates, and then makes neither. surety help configuration lists all
variables. What it makes is kept in SURETY_STATE_DIR (.surety) for the next start.

  --fresh   throws the data of its own Postgres away first; with SURETY_TEST_CLOCK=1 the new one is a test database

Ctrl-C or SIGTERM drains it; a second one, a second later or more, ends it at once. Its log goes to the standard error.`;

/** Certificates hold for a day and are minted again after two thirds of it; the listener reads them again by itself. */
const RENEWAL_CHECK_MS = 15 * 60_000;

/** Runs until it is told to stop. @returns the exit code */
export async function start(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { fresh: { type: 'boolean', default: false } } });
  const configuration = readConfiguration(process.env, 'start');
  const log = createLog(configuration.logLevel, 2);
  // Passable, not readable: started as root, Postgres runs as another user and has to get through to its data.
  await makeFolder(configuration.stateDir, 0o711).catch((error: unknown) => {
    throw new StartRefused(`SURETY_STATE_DIR: ${configuration.stateDir} cannot be made (${codeOf(error)})`);
  });
  const minting = ownCertificates(configuration);
  // Looked at below; until then a failure of it must not end the process before Postgres is stopped.
  minting.catch(() => {});
  const database = await openDatabase(configuration, values.fresh, log);
  const fate = watch(database.embedded, log);
  try {
    const certificates = await minting;
    await prepare(configuration, database, certificates);
    if (certificates !== undefined) keepFresh(certificates, log);
    await runService({
      configuration: {
        ...configuration,
        tls: configuration.tls ?? tlsOf(certificates),
        databaseUrl: database.url,
      },
      log,
      onServing: (service) =>
        void registerAuditor(service, certificates, log).then(() =>
          tell(service, configuration, certificates, database.embedded),
        ),
    });
  } finally {
    fate.expected = true;
    await database.embedded?.stop();
  }
  return fate.ended ? EXIT_FAILED : 0;
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown';
}

interface Fate {
  /** We are stopping it ourselves. */
  expected: boolean;
  /** It ended by itself. */
  ended: boolean;
}

/** A service whose own Postgres is gone has nothing left to serve from: it drains as if it had been told to. */
function watch(embedded: EmbeddedPostgres | undefined, log: Logger): Fate {
  const fate: Fate = { expected: false, ended: false };
  void embedded?.exited.then(() => {
    if (fate.expected) return;
    fate.ended = true;
    log.fatal('the embedded Postgres has ended');
    process.kill(process.pid, 'SIGTERM');
  });
  return fate;
}

interface Database {
  readonly url: string;
  readonly embedded: EmbeddedPostgres | undefined;
}

async function openDatabase(configuration: Configuration, fresh: boolean, log: Logger): Promise<Database> {
  if (configuration.databaseUrl !== undefined) return { url: configuration.databaseUrl, embedded: undefined };
  const dataDir = dataDirOf(configuration);
  const say = (message: string): void => log.debug(message);
  if (fresh) await removeEmbeddedPostgres(dataDir, say);
  const embedded = await startEmbeddedPostgres({ dataDir, log: say });
  return { url: embedded.url, embedded };
}

async function ownCertificates(configuration: Configuration): Promise<DevelopmentCertificates | undefined> {
  if (configuration.tls !== undefined) return undefined;
  return ensureDevelopmentCertificates({ directory: join(configuration.stateDir, 'certs') });
}

function tlsOf(certificates: DevelopmentCertificates | undefined): TlsPaths {
  if (certificates === undefined) throw new TypeError('there are no certificates');
  const { service, bundlesDir } = certificates;
  return { certificateFile: service.cert, keyFile: service.key, bundlesDirectory: bundlesDir };
}

/** The schema, and the first operator where there is none. */
async function prepare(
  { migrationUrl, testClock }: Configuration,
  database: Database,
  certificates: DevelopmentCertificates | undefined,
): Promise<void> {
  const url = migrationUrl ?? database.url;
  const { applied } = await migrate({ url });
  // A database that was made this minute has nothing to lose; any other is marked by `surety migrate --test` alone.
  const isNew = database.embedded !== undefined && applied.includes(1);
  if (testClock && isNew) await migrate({ url, test: true });
  const signingKey = certificates?.signingKeys[DEVELOPMENT_OPERATOR];
  if (signingKey === undefined) return;
  const input = bootstrapInput({
    url,
    audience: spiffeIdOf(SERVICE),
    operatorSpiffeId: DEVELOPMENT_OPERATOR,
    operatorJwk: await readFile(signingKey.publicJwk, 'utf8'),
    commandId: newId('cmd'),
    codec: auditCodec,
  });
  try {
    await bootstrap(input);
  } catch (error) {
    if (!(error instanceof Refused && error.refusal.reason === 'ALREADY_BOOTSTRAPPED')) throw error;
  }
}

/** However long it takes, what was started is told after so long, in milliseconds. */
const AUDITOR_PATIENCE_MS = 1_500;

/** It serves already; but who reads that it does is not to race for the policy revision with a command of ours. */
async function registerAuditor(
  { grpc }: Service,
  certificates: DevelopmentCertificates | undefined,
  log: Logger,
): Promise<void> {
  if (certificates === undefined) return;
  const registered = ensureDevelopmentAuditor(reachable(grpc), certificates).catch((error: unknown) => {
    log.warn({ error: error instanceof Error ? error.message : typeof error }, 'no development auditor');
  });
  await Promise.race([registered, sleep(AUDITOR_PATIENCE_MS, undefined, { ref: false })]);
}

/** A service that runs for days serves certificates that hold. */
function keepFresh({ directory }: DevelopmentCertificates, log: Logger): void {
  setInterval(() => {
    ensureDevelopmentCertificates({ directory }).catch((error: unknown) => {
      log.error({ error: error instanceof Error ? error.message : typeof error }, 'development certificates');
    });
  }, RENEWAL_CHECK_MS).unref();
}

function dataDirOf({ stateDir }: Configuration): string {
  return resolve(stateDir, 'postgres');
}

/** Says where everything is, and what to try next. */
function tell(
  { grpc, admin }: Service,
  configuration: Configuration,
  certificates: DevelopmentCertificates | undefined,
  embedded: EmbeddedPostgres | undefined,
): void {
  const short = (path: string): string => {
    const near = relative(process.cwd(), path);
    return near === '' || near.startsWith('..') ? path : near;
  };
  const lines = [
    'Surety serves.',
    '',
    ...addressLines({ grpc: address(grpc), admin: address(admin) }),
    `  database      ${embedded === undefined ? 'the one of SURETY_DATABASE_URL' : `an embedded Postgres, its data in ${short(embedded.data)}`}`,
    ...(certificates === undefined
      ? []
      : [
          `  certificates  ${short(certificates.directory)}, for development, until ${certificates.expiresAt.toISOString()}`,
          `  operator      ${DEVELOPMENT_OPERATOR}`,
          `  auditor       ${DEVELOPMENT_AUDITOR}`,
        ]),
    ...(configuration.testClock ? ['', '  THIS IS A TEST DATABASE: its clock can be moved.'] : []),
    '',
    'Try next, in another terminal:',
    '',
    ...suggestions(grpc, certificates !== undefined),
    '',
    'Ctrl-C ends it.',
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

type Address = Pick<Service['grpc'], 'address' | 'port'>;

function address({ address: host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** A wildcard address is one to listen on, not one to connect to. */
function reachable({ address: host, port }: Address): string {
  return address({ address: host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host, port });
}

/** What another terminal must be told too, where this one was. */
const SHARED_VARIABLES = [
  'SURETY_STATE_DIR',
  'SURETY_TLS_CERT_FILE',
  'SURETY_TLS_KEY_FILE',
  'SURETY_BUNDLES_DIR',
] as const;

/** Commands that work as they are printed, each with what it does. */
function suggestions(grpc: Address, isDevelopment: boolean): string[] {
  const listen = reachable(grpc);
  const set = [
    ...(listen === VARIABLES.SURETY_LISTEN.fallback ? [] : [['SURETY_LISTEN', listen]]),
    ...SHARED_VARIABLES.map((name) => [name, process.env[name] ?? '']),
  ].filter(([, value]) => value !== '');
  const before = set.map(([name, value]) => `${name}=${quoted(value ?? '')} `).join('');
  const commands = [
    [`${before}npx surety health`, 'asks it, over mutual TLS, whether it serves'],
    ...(isDevelopment
      ? [
          [
            `${before}npx surety audit export --domain surety.test`,
            'reads its log, which is chained by hashes',
          ],
        ]
      : []),
    ['npx surety admin --help', 'lists what an operator can do: each change is a signed command'],
    ['npm run demo', 'tells the story of an effect whose answer was lost'],
  ];
  return commands.flatMap(([command, what]) => [`  ${command}`, `      ${what}`]);
}

/** For a shell. */
function quoted(text: string): string {
  return /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

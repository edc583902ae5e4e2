import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type PostgresBinaries, usableBinaries } from './binaries.js';
import { ensureCluster, superuser } from './cluster.js';
import { type DataPlace, existingFolders, isDisowned, prepareDataPlace } from './data-place.js';
import { EmbeddedPostgresError } from './embedded-error.js';
import { freePort } from './free-port.js';
import { stopOrphan } from './orphan.js';
import { findNativeFolder } from './platform-package.js';
import { becomesReady, type Postmaster, spawnPostmaster } from './postmaster.js';
import { checkSettings, type PostgresSettings, serverArguments } from './server-settings.js';
import { startWatchdog, type Watchdog } from './watchdog.js';

/** What {@link startEmbeddedPostgres} takes. */
export interface EmbeddedPostgresOptions {
  /**
   * A folder that is for this server alone. It is made if it is not there, and what is in it is started again
   * if it is. As root, the data itself goes elsewhere if the unprivileged account cannot enter this folder.
   */
  readonly dataDir: string;
  /** The port on 127.0.0.1; a free one if none is given. */
  readonly port?: number;
  /** Postgres settings beyond ours. Those for durability and reachability are refused. */
  readonly settings?: PostgresSettings;
  /** Gets what is worth telling, and each line that the server prints. */
  readonly log?: (message: string) => void;
  /** Remove the folder, data and all, when the server is stopped, or by the watchdog when this process dies. */
  readonly removeWhenDone?: boolean;
}

/** A running server. */
export interface EmbeddedPostgres {
  /** The superuser's, with the password, for the database `postgres`. */
  readonly url: string;
  readonly port: number;
  /** Of the postmaster. */
  readonly pid: number;
  /** Where the data is: in the folder that was asked for, or elsewhere. */
  readonly data: string;
  /** Settled when the server has ended, stopped or not. Never rejects. */
  readonly exited: Promise<void>;
  /**
   * Fast shutdown, after a bounded wait immediate, then kill. Returns when the process is gone; may be called
   * again.
   *
   * @param options - with `keepData`, data that is to be removed when done is kept this time: it will be started
   *   again
   * @throws EmbeddedPostgresError STOP_FAILED
   */
  stop(options?: { keepData?: boolean }): Promise<void>;
}

/** Retries when somebody else took the free port first, or the last server's children are still ending. */
const maxStarts = 20;
const restartPauseMs = 250;

/**
 * Starts the Postgres that comes with `npm install` (architecture.md, Embedded Postgres): a real one, durable,
 * on 127.0.0.1 only, with a random password in a file that only we can read. Works for an ordinary user and
 * for root, with and without npm's install scripts. An orphan on the same data is stopped first. If this
 * process dies, a watchdog stops the server.
 *
 * @throws EmbeddedPostgresError
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const log = options.log ?? ((): void => {});
  checkSettings(options.settings ?? {});
  const native = await findNativeFolder();
  const place = await prepareDataPlace(options.dataDir);
  await stopOrphan(place.data, log);
  const folders = options.removeWhenDone === true ? [...new Set([place.folder, place.home])] : [];
  const watchdog = startWatchdog(folders, log);
  try {
    if (isDisowned(place)) {
      log(`removing ${place.data}, which belonged to an earlier ${place.folder}`);
      await rm(place.data, { recursive: true, force: true });
    }
    const binaries = await usableBinaries(native, place.user, place.home, log);
    const password = await ensureCluster(place, binaries, native.version, log);
    const { server, port } = await launch(place, binaries, options, watchdog, log);
    void server.exited.then(() => watchdog.forget());
    let stopped: Promise<void> | undefined;
    return {
      url: `postgres://${superuser}:${password}@127.0.0.1:${port}/postgres`,
      port,
      pid: server.pid,
      data: place.data,
      exited: server.exited,
      stop: async ({ keepData = false } = {}) => {
        await (stopped ??= stopBoth(server, watchdog));
        if (!keepData) await removeAll(folders);
      },
    };
  } catch (error) {
    await watchdog.release();
    // Somebody else's living server is not ours to remove, whatever we were told about our own.
    const isInUse = error instanceof EmbeddedPostgresError && error.reason === 'ALREADY_RUNNING';
    if (!isInUse) await removeAll(folders);
    throw error;
  }
}

/**
 * Removes the data of a folder, wherever it lies, and the folder: what `npm start -- --fresh` begins with. An
 * orphan is stopped first. Nothing happens if there is no such folder.
 *
 * @throws EmbeddedPostgresError ALREADY_RUNNING if a living process uses it, STOP_FAILED
 */
export async function removeEmbeddedPostgres(
  dataDir: string,
  log: (message: string) => void = () => {},
): Promise<void> {
  const folders = existingFolders(dataDir);
  for (const folder of folders) await stopOrphan(`${folder}/data`, log);
  await removeAll(folders);
}

async function launch(
  place: DataPlace,
  binaries: PostgresBinaries,
  options: EmbeddedPostgresOptions,
  watchdog: Watchdog,
  log: (message: string) => void,
): Promise<{ server: Postmaster; port: number }> {
  for (let starts = 1; ; starts++) {
    const port = options.port ?? (await freePort());
    const args = serverArguments(place.data, port, options.settings ?? {}, process.pid);
    const server = await spawnPostmaster(binaries.postgres, args, place.user, log);
    if (server === undefined) {
      throw new EmbeddedPostgresError('START_FAILED', `${binaries.postgres} could not be started.`);
    }
    watchdog.watch(server.pid, place.data);
    if (await becomesReady(server, place.data)) return { server, port };
    await server.stop();
    await server.exited;
    watchdog.forget();
    const failure = whyItEnded(server.output(), options.port, place.data);
    if (!failure.mayRetry || starts === maxStarts) throw failure.error;
    await sleep(restartPauseMs);
  }
}

/** Postgres says why only in words; under the C locale they are always the same. */
function whyItEnded(
  output: string,
  askedPort: number | undefined,
  data: string,
): { error: EmbeddedPostgresError; mayRetry: boolean } {
  if (output.includes('could not bind IPv4 address')) {
    const message = `Port ${askedPort ?? ''} of 127.0.0.1 is taken.`;
    return { error: new EmbeddedPostgresError('PORT_IN_USE', message), mayRetry: askedPort === undefined };
  }
  if (output.includes('lock file "postmaster.pid" already exists')) {
    const message = `Another Postgres has ${data} open, or a file postmaster.pid of one was left there.`;
    return { error: new EmbeddedPostgresError('ALREADY_RUNNING', message, output), mayRetry: false };
  }
  const error = new EmbeddedPostgresError('START_FAILED', `Postgres did not start on ${data}.`, output);
  // The children of a server that was killed end by themselves, each when it next looks. An empty lock file is one
  // that another server is just writing.
  const passes = ['pre-existing shared memory block', 'lock file "postmaster.pid" is empty'];
  return { error, mayRetry: passes.some((text) => output.includes(text)) };
}

async function stopBoth(server: Postmaster, watchdog: Watchdog): Promise<void> {
  await server.stop();
  await watchdog.release();
}

async function removeAll(folders: readonly string[]): Promise<void> {
  for (const folder of folders) await rm(folder, { recursive: true, force: true, maxRetries: 5 });
}

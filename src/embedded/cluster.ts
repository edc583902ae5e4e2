import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chown, link, mkdtemp, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { PostgresBinaries } from './binaries.js';
import type { DataPlace } from './data-place.js';
import { EmbeddedPostgresError } from './embedded-error.js';
import { runProgram } from './run-program.js';

/** The one role that initdb makes. Its only door is TCP on 127.0.0.1 with the password. */
export const superuser = 'postgres';

/** It takes one to two seconds on two slow cores. */
const initdbTimeoutMs = 120_000;

/** 256 bits, in an alphabet that a URL takes as it is. */
const passwordBytes = 32;

/** What an initdb that died left behind is removed at the next start, once nobody can still be writing it. */
const leftoverAgeMs = 10 * 60_000;

const unfinishedPrefix = 'initializing-';

/**
 * Makes the data folder with initdb unless it is there, and returns the superuser's password.
 *
 * The data appears whole or not at all, and after its password: a crash leaves nothing half made that a later
 * start would take for data.
 *
 * @param version - the version of the binaries, such as `18.4.0`
 * @throws EmbeddedPostgresError INITDB_FAILED, PASSWORD_MISSING, DATA_VERSION_MISMATCH, DATA_NOT_OURS
 */
export async function ensureCluster(
  place: DataPlace,
  binaries: PostgresBinaries,
  version: string,
  log: (message: string) => void,
): Promise<string> {
  if (existsSync(place.data)) {
    await checkCluster(place, version);
    return readPassword(place.passwordFile);
  }
  await removeLeftovers(place.home);
  const password = await makePassword(place.passwordFile);
  await initialize(place, binaries, password);
  log(`made a new database cluster in ${place.data}`);
  return password;
}

async function initialize(place: DataPlace, binaries: PostgresBinaries, password: string): Promise<void> {
  const unfinished = await mkdtemp(path.join(place.home, unfinishedPrefix));
  try {
    // initdb reads the password as the account that will own the data, so that account gets a copy for as
    // long as initdb runs.
    const passwordCopy = path.join(unfinished, 'password');
    await writeFile(passwordCopy, `${password}\n`, { mode: 0o600 });
    if (place.user !== undefined) {
      await chown(passwordCopy, place.user.uid, place.user.gid);
      await chown(unfinished, place.user.uid, place.user.gid);
    }
    const data = path.join(unfinished, 'data');
    const end = await runProgram(
      binaries.initdb,
      initdbArguments(data, passwordCopy),
      place.user,
      initdbTimeoutMs,
    );
    if (end.code !== 0) {
      throw new EmbeddedPostgresError('INITDB_FAILED', `initdb failed (${end.code}).`, end.output);
    }
    await rename(data, place.data).catch((error: NodeJS.ErrnoException) => {
      // Another process that started at the same moment made it, under the same password.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    });
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
}

function initdbArguments(data: string, passwordFile: string): string[] {
  return [
    `--pgdata=${data}`,
    `--username=${superuser}`,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    // Text sorts by code point, whatever the machine's locale and libraries.
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--locale=C',
    '--no-instructions',
  ];
}

/**
 * Creates the password, or reads the one that another process created at the same moment. The file gets its name
 * when it is whole: a reader never finds it empty.
 */
async function makePassword(file: string): Promise<string> {
  const unfinished = `${file}.${process.pid}`;
  const handle = await open(unfinished, 'w', 0o600);
  try {
    await handle.writeFile(`${randomBytes(passwordBytes).toString('base64url')}\n`);
    await handle.sync();
    await link(unfinished, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await handle.close();
    await rm(unfinished, { force: true });
  }
  return readPassword(file);
}

async function readPassword(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => error);
  if (typeof text === 'string' && text.trim() !== '') return text.trim();
  const denied = typeof text !== 'string' && text.code === 'EACCES';
  throw denied
    ? new EmbeddedPostgresError('DATA_NOT_OURS', `${file} belongs to another user.`)
    : new EmbeddedPostgresError(
        'PASSWORD_MISSING',
        `${file} is gone, and with it the way into the data beside it. Remove ${path.dirname(file)} to begin anew.`,
      );
}

async function checkCluster(place: DataPlace, version: string): Promise<void> {
  const owner = (await stat(place.data)).uid;
  if (owner !== (place.user?.uid ?? process.getuid?.())) {
    throw new EmbeddedPostgresError(
      'DATA_NOT_OURS',
      `${place.data} belongs to uid ${owner}: it was made by another user, or as root. ` +
        `Start as that user, or remove ${place.folder} to begin anew.`,
    );
  }
  const has = (await readFile(path.join(place.data, 'PG_VERSION'), 'utf8')).trim();
  const needs = version.split('.')[0];
  if (has !== needs) {
    throw new EmbeddedPostgresError(
      'DATA_VERSION_MISMATCH',
      `${place.data} was written by Postgres ${has}, and the binaries are Postgres ${needs}. ` +
        `Remove ${place.folder} to begin anew.`,
    );
  }
}

async function removeLeftovers(home: string): Promise<void> {
  for (const name of await readdir(home)) {
    if (!name.startsWith(unfinishedPrefix)) continue;
    const folder = path.join(home, name);
    const changed = await stat(folder).then(
      (found) => found.mtimeMs,
      () => Number.POSITIVE_INFINITY,
    );
    if (Date.now() - changed > leftoverAgeMs) await rm(folder, { recursive: true, force: true });
  }
}

import { createHash } from 'node:crypto';
import { existsSync, lstatSync, realpathSync } from 'node:fs';
import { chmod, mkdir, realpath, stat } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { EmbeddedPostgresError } from './embedded-error.js';
import { canReach, type UnixUser, userToRunAs } from './unix-user.js';

/** Where the parts of one embedded Postgres lie. */
export interface DataPlace {
  /** The folder that was asked for. The superuser's password is always here. */
  readonly folder: string;
  /** The folder with the data and, where needed, the staged binaries: `folder`, or one elsewhere. */
  readonly home: string;
  readonly data: string;
  readonly passwordFile: string;
  /** The account that runs Postgres and owns the data; undefined for ourselves. */
  readonly user: UnixUser | undefined;
}

/**
 * Where the data goes when the folder that was asked for lies behind one that the unprivileged account cannot
 * enter (a checkout under /root). What survives a restart of the machine comes first. Read at each call: tests
 * set TMPDIR.
 */
const placesElsewhere = (): string[] => ['/var/lib', '/var/tmp', os.tmpdir()];

/**
 * Decides where the data lies, and makes the folders around it.
 *
 * @param dataDir - the folder that was asked for, absolute or relative to the working folder
 * @throws EmbeddedPostgresError NO_PLACE_FOR_DATA, DATA_NOT_OURS, NO_UNPRIVILEGED_USER
 */
export async function prepareDataPlace(dataDir: string): Promise<DataPlace> {
  const firstMade = await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const folder = await realpath(dataDir);
  const user = userToRunAs(dataIn(folder));
  // Those of the folders above that we have just made are ours to open too.
  const from = firstMade === undefined ? folder : await realpath(firstMade);
  for (let at = folder; at.length >= from.length; at = path.dirname(at)) await openFor(user, at);
  if (canReach(user, folder)) return placeAt(folder, folder, user);
  if (existsSync(path.join(folder, 'data'))) {
    throw new EmbeddedPostgresError(
      'NO_PLACE_FOR_DATA',
      `${user?.name} runs Postgres and owns ${folder}/data, but can no longer enter ${folder}. ` +
        'Let everybody pass through the folders above it (chmod o+x), or remove it to begin anew.',
    );
  }
  return placeAt(folder, await homeElsewhere(folder, user), user);
}

/**
 * Where the data of a folder lies, if it was ever started; makes nothing.
 *
 * @returns every folder that holds a part of it
 */
export function existingFolders(dataDir: string): string[] {
  if (!existsSync(dataDir)) return [];
  const folder = realpathSync(dataDir);
  const elsewhere = placesElsewhere()
    .map((base) => path.join(base, nameElsewhere(folder)))
    .filter((home) => existsSync(home) && isOurs(home));
  return [folder, ...new Set(elsewhere)];
}

/** True if the data is one that the folder which was asked for no longer knows the password of. */
export function isDisowned(place: DataPlace): boolean {
  return place.home !== place.folder && existsSync(place.data) && !existsSync(place.passwordFile);
}

function placeAt(folder: string, home: string, user: UnixUser | undefined): DataPlace {
  return {
    folder,
    home,
    data: path.join(home, 'data'),
    passwordFile: path.join(folder, 'superuser-password'),
    user,
  };
}

function dataIn(folder: string): string | undefined {
  const data = path.join(folder, 'data');
  return existsSync(data) ? data : undefined;
}

async function homeElsewhere(folder: string, user: UnixUser | undefined): Promise<string> {
  for (const base of placesElsewhere()) {
    if (!existsSync(base) || !canReach(user, await realpath(base))) continue;
    const home = path.join(await realpath(base), nameElsewhere(folder));
    const made = await mkdir(home, { mode: 0o711 }).then(
      () => true,
      () => existsSync(home) && isOurs(home),
    );
    if (!made) continue;
    await openFor(user, home);
    return home;
  }
  throw new EmbeddedPostgresError(
    'NO_PLACE_FOR_DATA',
    `${user?.name} has to run Postgres and can enter neither ${folder} nor a folder of ours in ` +
      `${placesElsewhere().join(', ')}.`,
  );
}

/** Keyed by the path, so that each checkout finds its own again. */
function nameElsewhere(folder: string): string {
  return `surety-postgres-${createHash('sha256').update(folder).digest('hex').slice(0, 16)}`;
}

/**
 * In a folder where everybody may write, somebody else may have taken the name first, and would then choose
 * the binaries that we run and read the data.
 */
function isOurs(home: string): boolean {
  const found = lstatSync(home);
  return found.isDirectory() && found.uid === process.getuid?.() && (found.mode & 0o022) === 0;
}

/** Only the account that owns the data needs to pass, and only through this folder; nobody may list it. */
async function openFor(user: UnixUser | undefined, folder: string): Promise<void> {
  const mode = user === undefined ? 0o700 : 0o711;
  try {
    if (((await stat(folder)).mode & 0o777) !== mode) await chmod(folder, mode);
  } catch {
    throw new EmbeddedPostgresError('DATA_NOT_OURS', `${folder} belongs to another user.`);
  }
}

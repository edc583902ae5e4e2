import { lstatSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { EmbeddedPostgresError } from './embedded-error.js';

/** An account of this machine, from its passwd file. */
export interface UnixUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/**
 * Accounts that exist nearly everywhere and own nothing. The first that is found runs Postgres when we are
 * root; making an account of our own would change the machine.
 */
const unprivilegedNames = ['nobody', 'postgres', 'daemon'] as const;

/** Node's uid arguments: `chown` wants them unsigned, and macOS' nobody is -2. */
const toUnsigned = (id: number): number => id >>> 0;

/**
 * The account under which Postgres has to run: undefined (as we are) for an ordinary user; for root, which
 * Postgres refuses, the owner of the data that is there already, else an unprivileged account. It needs a
 * passwd entry, or initdb refuses it.
 *
 * @param existingData - the data folder, if there is one
 * @throws EmbeddedPostgresError NO_UNPRIVILEGED_USER
 */
export function userToRunAs(existingData: string | undefined): UnixUser | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const users = readPasswd();
  const owner = existingData === undefined ? undefined : ownerOf(existingData);
  if (owner !== undefined && owner !== 0) {
    const user = users.find((entry) => entry.uid === owner);
    if (user !== undefined) return user;
  }
  for (const name of unprivilegedNames) {
    const user = users.find((entry) => entry.name === name && entry.uid !== 0);
    if (user !== undefined) return user;
  }
  throw new EmbeddedPostgresError(
    'NO_UNPRIVILEGED_USER',
    `Postgres does not run as root, and none of the accounts ${unprivilegedNames.join(', ')} exists. ` +
      'Start as an ordinary user, or set SURETY_DATABASE_URL.',
  );
}

/**
 * If the account can pass through every folder of a path, the last one included, judged by owner, group and
 * mode. An access list that gives more than the mode shows is not seen: the answer is then a needless "no".
 *
 * @param user - undefined for ourselves, who made the folder and can
 */
export function canReach(user: UnixUser | undefined, folder: string): boolean {
  if (user === undefined) return true;
  for (let at = folder; ; at = path.dirname(at)) {
    const { uid, gid, mode } = statSync(at);
    const execute = uid === user.uid ? 0o100 : gid === user.gid ? 0o010 : 0o001;
    if ((mode & execute) === 0) return false;
    if (at === path.dirname(at)) return true;
  }
}

/** The uid that owns a path itself (not what it links to), or undefined if there is nothing. */
export function ownerOf(file: string): number | undefined {
  return lstatSync(file, { throwIfNoEntry: false })?.uid;
}

function readPasswd(): UnixUser[] {
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .filter((fields) => fields.length >= 4 && !fields[0]?.startsWith('#'))
    .map(([name = '', , uid, gid]) => ({ name, uid: toUnsigned(Number(uid)), gid: toUnsigned(Number(gid)) }));
}

import { createHash } from 'node:crypto';
import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { EmbeddedPostgresError } from './embedded-error.js';
import type { NativeFolder } from './platform-package.js';
import { type ProgramEnd, runProgram } from './run-program.js';
import { isStaged, makeLibraryLinks, stageBinaries } from './stage-binaries.js';
import type { UnixUser } from './unix-user.js';

/** Postgres' programs, each proven to run under the account that will run it. */
export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** Printing a version takes milliseconds; a cold disk may take a while. */
const probeTimeoutMs = 10_000;

/**
 * Finds out how the binaries can be run under an account, from the cheapest way to the dearest: as npm laid
 * them; with the library links that npm's install script would have made; staged in `home` as hard links, for
 * a checkout that the account cannot enter; staged as copies, for another file system or modes too tight.
 *
 * @param native - what npm laid
 * @param user - undefined for ourselves
 * @param home - a folder of ours that the account can enter
 * @throws EmbeddedPostgresError BINARIES_UNUSABLE
 */
export async function usableBinaries(
  native: NativeFolder,
  user: UnixUser | undefined,
  home: string,
  log: (message: string) => void,
): Promise<PostgresBinaries> {
  const tried: string[] = [];
  const works = async (folder: string, how: string): Promise<PostgresBinaries | undefined> => {
    const found = {
      initdb: path.join(folder, 'bin', 'initdb'),
      postgres: path.join(folder, 'bin', 'postgres'),
    };
    const failure = await probe(found, user);
    if (failure === undefined) return found;
    tried.push(`${how}: ${failure.code} ${failure.output}`.trim());
    return undefined;
  };

  const inPlace = await works(native.path, 'in place');
  if (inPlace !== undefined) return inPlace;

  const madeLinks = await makeLibraryLinks(native.path).catch(() => 0);
  if (madeLinks > 0) {
    log(`made ${madeLinks} library links that the install of ${native.path} had left out`);
    const linked = await works(native.path, 'in place with library links');
    if (linked !== undefined) return linked;
  }

  const staged = path.join(home, `native-${await stageKey(native)}`);
  if (await isStaged(staged)) {
    const before = await works(staged, 'staged before');
    if (before !== undefined) return before;
  }
  for (const how of ['link', 'copy'] as const) {
    const failed = await stageBinaries(native.path, staged, how).then(
      () => undefined,
      (error: NodeJS.ErrnoException) => `staged by ${how}: ${error.code ?? error.message}`,
    );
    if (failed !== undefined) {
      tried.push(failed);
      continue;
    }
    const found = await works(staged, `staged by ${how}`);
    if (found === undefined) continue;
    log(`staged the Postgres binaries in ${staged} (${how})`);
    return found;
  }
  throw new EmbeddedPostgresError(
    'BINARIES_UNUSABLE',
    `The embedded Postgres cannot be run as ${user?.name ?? 'this user'}. ` +
      'Set SURETY_DATABASE_URL to a Postgres of your own. Tried:',
    tried.join('\n'),
  );
}

/** Both programs: they need different libraries. Undefined when both ran. */
async function probe(
  { initdb, postgres }: PostgresBinaries,
  user: UnixUser | undefined,
): Promise<ProgramEnd | undefined> {
  for (const program of [initdb, postgres]) {
    const end = await runProgram(program, ['-V'], user, probeTimeoutMs);
    if (end.code !== 0) return end;
  }
  return undefined;
}

/** Another version, or another checkout, is staged anew. */
async function stageKey(native: NativeFolder): Promise<string> {
  const of = `${native.version}\n${await realpath(native.path)}`;
  return createHash('sha256').update(of).digest('hex').slice(0, 16);
}

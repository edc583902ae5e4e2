import {
  chmod,
  copyFile,
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
} from 'node:fs/promises';
import path from 'node:path';

/** Libraries ship once each; the names by which the loader asks for them are links listed in this file. */
const linkList = 'pg-symlinks.json';

/**
 * Makes the links between libraries which the package's install script makes, and which are missing after
 * `npm install --ignore-scripts`.
 *
 * @param native - the folder that holds `bin`, `lib`, `share` and the list
 * @returns how many were missing
 * @throws the system's error, if the folder cannot be written
 */
export async function makeLibraryLinks(native: string): Promise<number> {
  let made = 0;
  for (const { source, target } of await readLinkList(native)) {
    const at = path.resolve(native, '..', target);
    const to = path.resolve(native, '..', source);
    // Nothing in a package may make us write outside of that package.
    if (!isInside(native, at) || !isInside(native, to)) continue;
    try {
      await symlink(path.relative(path.dirname(at), to), at);
      made++;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
  return made;
}

/** If a folder was staged whole: it gets its name last. */
export async function isStaged(folder: string): Promise<boolean> {
  return stat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

/**
 * Lays the binaries into a folder of ours under modes that let everybody read and run them, and removes what
 * was staged before. The folder appears whole or not at all.
 *
 * @param how - `link` costs no space, and keeps the owner and mode of the files that npm laid; `copy` does not
 * @throws the system's error, such as EXDEV for links to another file system
 */
export async function stageBinaries(native: string, staged: string, how: 'link' | 'copy'): Promise<void> {
  const home = path.dirname(staged);
  const unfinished = await mkdtemp(path.join(home, 'staging-'));
  try {
    await layTree(native, unfinished, how);
    await makeLibraryLinks(unfinished);
    for (const name of await readdir(home)) {
      if (name.startsWith('native-')) await rm(path.join(home, name), { recursive: true, force: true });
    }
    await rename(unfinished, staged);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    throw error;
  }
}

async function layTree(from: string, to: string, how: 'link' | 'copy'): Promise<void> {
  await mkdir(to, { recursive: true });
  await chmod(to, 0o755);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = path.join(from, entry.name);
    const target = path.join(to, entry.name);
    if (entry.isDirectory()) {
      await layTree(source, target, how);
    } else if (entry.isSymbolicLink()) {
      await symlink(await readlink(source), target);
    } else if (how === 'link') {
      await link(source, target);
    } else {
      await copyFile(source, target);
      await chmod(target, ((await stat(source)).mode & 0o100) === 0 ? 0o644 : 0o755);
    }
  }
}

async function readLinkList(native: string): Promise<{ source: string; target: string }[]> {
  // The list's paths begin with "native/"; a staged folder has another name.
  const text = await readFile(path.join(native, linkList), 'utf8').catch(() => '[]');
  const rename = (listed: string): string =>
    path.join(path.basename(native), path.relative('native', listed));
  return (JSON.parse(text) as { source: string; target: string }[]).map(({ source, target }) => ({
    source: rename(source),
    target: rename(target),
  }));
}

function isInside(folder: string, file: string): boolean {
  const relative = path.relative(folder, file);
  return relative !== '' && !relative.startsWith('..') && !path.isAbsolute(relative);
}

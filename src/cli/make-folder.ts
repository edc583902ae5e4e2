import { mkdir } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

/**
 * Makes a folder and whatever is missing above it. Node's own recursive mkdir never returns where the system answers
 * ENOENT for a folder that is there, as /proc does.
 *
 * @param mode for each folder that is made
 * @throws the system's error for the first one that cannot be made
 */
export async function makeFolder(path: string, mode: number): Promise<void> {
  const missing: string[] = [];
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    missing.push(folder);
    if (dirname(folder) === folder) break;
  }
  let failure: Error | undefined;
  for (const folder of missing.reverse()) failure = await makeOne(folder, mode);
  if (failure !== undefined) throw failure;
}

/** What stood in the way; undefined where the folder is there now. A read-only root above it is no obstacle. */
async function makeOne(folder: string, mode: number): Promise<Error | undefined> {
  try {
    await mkdir(folder, { mode });
    return undefined;
  } catch (error) {
    const failure = error as NodeJS.ErrnoException;
    return failure.code === 'EEXIST' ? undefined : failure;
  }
}

import { randomBytes } from 'node:crypto';
import { chmod, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

const OWNER_ONLY_DIRECTORY = 0o700;
const OWNER_ONLY = 0o600;
const READABLE = 0o644;

/** Writes a private key: 0600, and never half of it. */
export function writeSecret(file: string, content: string): Promise<void> {
  return writeWhole(file, content, OWNER_ONLY);
}

/** Writes what anybody may read. */
export function writePublic(file: string, content: string): Promise<void> {
  return writeWhole(file, content, READABLE);
}

/** A running service reads these files every few seconds: it must see the old one or the new one. */
async function writeWhole(file: string, content: string, mode: number): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: OWNER_ONLY_DIRECTORY });
  const temporary = `${file}.${randomBytes(6).toString('hex')}.tmp`;
  const handle = await open(temporary, 'wx', mode);
  try {
    await handle.writeFile(content);
    // The mode that `open` takes is narrowed by the umask; that of a key must be exact.
    await chmod(temporary, mode);
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
}

/** The file's text, or undefined where it is not there. */
export async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Whether all of the files are there. */
export async function allThere(files: readonly string[]): Promise<boolean> {
  const found = await Promise.all(
    files.map((file) =>
      stat(file).then(
        () => true,
        () => false,
      ),
    ),
  );
  return found.every(Boolean);
}

const LOCK_FILE = '.lock';
const LOCK_POLL_MS = 50;

/** Minting takes seconds; whoever holds the lock longer died in a way that left its process number in use. */
const LOCK_STALE_MS = 60_000;

/** Runs `act` while no other process mints into the same folder: `npm start` and a demo may begin together. */
export async function withLock<T>(directory: string, act: () => Promise<T>): Promise<T> {
  await mkdir(directory, { recursive: true, mode: OWNER_ONLY_DIRECTORY });
  const file = join(directory, LOCK_FILE);
  while (!(await take(file))) {
    if (await isAbandoned(file)) await rm(file, { force: true });
    else await new Promise((resolve) => setTimeout(resolve, LOCK_POLL_MS));
  }
  try {
    return await act();
  } finally {
    await rm(file, { force: true });
  }
}

async function take(file: string): Promise<boolean> {
  try {
    const handle = await open(file, 'wx', OWNER_ONLY);
    await handle.writeFile(String(process.pid));
    await handle.close();
    return true;
  } catch (error) {
    if (isCode(error, 'EEXIST')) return false;
    throw error;
  }
}

async function isAbandoned(file: string): Promise<boolean> {
  const found = await stat(file).catch(() => undefined);
  const holder = Number(await readIfThere(file));
  if (found === undefined) return false;
  if (Date.now() - found.mtimeMs > LOCK_STALE_MS) return true;
  return Number.isInteger(holder) && holder > 0 && !isRunning(holder);
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it runs, as somebody else.
    return !isCode(error, 'ESRCH');
  }
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

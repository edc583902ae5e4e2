import { createHash } from 'node:crypto';
import { link, open, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Digest } from '../../ledger/types.js';

const CHUNK_CHARACTERS = 256 * 1024;

/** The file of an archive while it is written. */
export interface ArchiveFile {
  /** Where it stands once it is whole. */
  readonly path: string;
  /** Takes one line, without its line break. */
  readonly write: (line: string) => Promise<void>;
  /** All lines are there. Returns when the file has its name and both are on the disk. @returns the SHA-256 of its bytes */
  readonly finish: () => Promise<Digest>;
  /** Leaves nothing behind. */
  readonly abandon: () => Promise<void>;
}

/** The name of an archive's file: in the order of the archives of a domain, and never twice the same. */
export function archiveFileName(domainId: string, archiveNumber: bigint, archiveId: string): string {
  return `${encodeURIComponent(domainId)}.${archiveNumber.toString().padStart(8, '0')}.${archiveId}.jsonl`;
}

/**
 * Opens the file of an archive, readable by its owner alone. It is written as `<name>.part` and takes its name only when it
 * is whole and on the disk; a file that has the name is never replaced.
 *
 * @throws where it cannot be made, with the code of the file system
 */
export async function openArchiveFile(folder: string, name: string): Promise<ArchiveFile> {
  const target = path.join(folder, name);
  const part = `${target}.part`;
  const file = await open(part, 'wx', 0o600);
  const hash = createHash('sha256');
  let waiting = '';
  const flush = async (): Promise<void> => {
    const bytes = Buffer.from(waiting, 'utf8');
    waiting = '';
    hash.update(bytes);
    await file.writeFile(bytes);
  };
  return {
    path: target,
    write: async (line) => {
      waiting += `${line}\n`;
      if (waiting.length >= CHUNK_CHARACTERS) await flush();
    },
    finish: async () => {
      await flush();
      await file.sync();
      await file.close();
      // Unlike a rename, a link refuses a name that is taken.
      await link(part, target);
      await rm(part);
      await syncFolder(folder);
      return hash.digest();
    },
    abandon: async () => {
      await file.close().catch(() => undefined);
      await rm(part, { force: true });
    },
  };
}

/** A name is on the disk only when its folder is. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

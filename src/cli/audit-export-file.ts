import { type FileHandle, open, realpath, rename, rm, stat } from 'node:fs/promises';

/** Characters that are kept before they are written. */
const CHUNK_CHARACTERS = 64 * 1024;

/** Where the lines of an export go. */
export interface ExportFile {
  /** Takes one line, without its line break. */
  readonly write: (line: string) => Promise<void>;
  /** All lines are there: from now on the file is this export. */
  readonly finish: () => Promise<void>;
  /** Leaves what was there before as it was. */
  readonly abandon: () => Promise<void>;
}

/**
 * Opens the file that an export goes to, readable by its owner alone. It is written as `<out>.part` beside it and takes
 * its name only when it is whole and on the disk: an export that fails does not cost the last good one. What is no
 * regular file, a pipe or a device, is written as it is.
 *
 * @throws where it cannot be made, with the code of the file system
 */
export async function openExportFile(out: string): Promise<ExportFile> {
  const found = await stat(out).catch(() => undefined);
  if (found?.isFile() === false) return written(await open(out, 'w'), { finish: async () => {} });
  // A link stays one: what it names is replaced.
  const target = found === undefined ? out : await realpath(out);
  const part = `${target}.part`;
  await rm(part, { force: true });
  return written(await open(part, 'wx', 0o600), {
    beforeClose: (file) => file.sync(),
    finish: () => rename(part, target),
    abandon: () => rm(part, { force: true }),
  });
}

interface Steps {
  readonly beforeClose?: (file: FileHandle) => Promise<void>;
  readonly finish: () => Promise<void>;
  readonly abandon?: () => Promise<void>;
}

function written(file: FileHandle, { beforeClose, finish, abandon }: Steps): ExportFile {
  let waiting = '';
  const flush = async (): Promise<void> => {
    const text = waiting;
    waiting = '';
    await file.writeFile(text);
  };
  return {
    write: async (line) => {
      waiting += `${line}\n`;
      if (waiting.length >= CHUNK_CHARACTERS) await flush();
    },
    finish: async () => {
      await flush();
      await beforeClose?.(file);
      await file.close();
      await finish();
    },
    abandon: async () => {
      await file.close();
      await abandon?.();
    },
  };
}

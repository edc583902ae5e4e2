import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { MigrationError } from './migrate-error.js';

/** One numbered SQL file. */
export interface Migration {
  /** From 1, without gaps. */
  readonly version: number;
  /** The file's name without number and ending. */
  readonly name: string;
  readonly fileName: string;
  readonly sql: string;
  /** SHA-256 of the file's bytes, lower-case hex. */
  readonly checksum: string;
}

const fileNamePattern = /^(\d{4})_([a-z0-9_]+)\.sql$/;

/**
 * Reads the migrations of a folder, in order. Files that are not `.sql` are passed over.
 *
 * @throws MigrationError MIGRATION_FOLDER_INVALID
 */
export async function readMigrations(directory: URL): Promise<readonly Migration[]> {
  const folder = fileURLToPath(directory);
  const names = await readdir(folder).catch(() => {
    throw new MigrationError('MIGRATION_FOLDER_INVALID', `The migrations' folder ${folder} cannot be read.`);
  });
  const sqlNames = names.filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    sqlNames.map(async (fileName, index) => {
      const [, number, name] = fileNamePattern.exec(fileName) ?? [];
      const version = Number(number);
      if (name === undefined || version !== index + 1) {
        throw new MigrationError(
          'MIGRATION_FOLDER_INVALID',
          `${fileName} should be ${String(index + 1).padStart(4, '0')}_name.sql: migrations are numbered from ` +
            'one, without gaps or doubles.',
        );
      }
      const bytes = await readFile(new URL(fileName, ensureTrailingSlash(directory)));
      const checksum = createHash('sha256').update(bytes).digest('hex');
      return { version, name, fileName, sql: bytes.toString('utf8'), checksum };
    }),
  );
}

/** Without it the folder's own name would be replaced by the file's. */
function ensureTrailingSlash(directory: URL): URL {
  return directory.pathname.endsWith('/') ? directory : new URL(`${directory.href}/`);
}

import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

/** Where the SQL lies in the checkout: it is not copied to where the compiled code runs from. */
export function sqlFile(name: string): string {
  return fileURLToPath(new URL(`../../../bench/sql/${name}`, import.meta.url));
}

/** The text of a file of `bench/sql`. */
export function readSql(name: string): Promise<string> {
  return readFile(sqlFile(name), 'utf8');
}

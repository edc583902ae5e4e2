import { readdirSync, readFileSync } from 'node:fs';
import type { TableName } from '../ledger/tables.js';
import { columnName, TABLES } from './tables.js';

/** Statements by name, from `-- name: x` blocks of one file or of every file of a folder beside this one. */
export function loadStatements(path: string): ReadonlyMap<string, string> {
  const url = new URL(path, import.meta.url);
  const statements = new Map<string, string>();
  const files = path.endsWith('.sql')
    ? [url]
    : readdirSync(url)
        .filter((name) => name.endsWith('.sql'))
        .sort()
        .map((name) => new URL(name, url.href.replace(/\/?$/, '/')));
  for (const file of files) addStatements(statements, readFileSync(file, 'utf8'), file.pathname);
  return statements;
}

/**
 * `-- name: x` begins a statement, `-- part: x` what several of the file share: a line `-- include x` stands for it.
 * `{effects}` stands for a row of the table effects as one value, its columns in the order of the description, called `found`.
 */
function addStatements(statements: Map<string, string>, text: string, origin: string): void {
  const parts = new Map<string, string>();
  const [, ...blocks] = text.split(/^-- (name|part): /m);
  for (let i = 0; i < blocks.length; i += 2) {
    const into = blocks[i] === 'part' ? parts : statements;
    const block = blocks[i + 1] as string;
    const end = block.indexOf('\n');
    const name = block.slice(0, end).trim();
    const body = block.slice(end + 1).trim();
    if (!/^[a-z][a-z0-9_]*$/.test(name) || body === '' || into.has(name)) {
      throw new Error(`bad or repeated statement ${name} in ${origin}`);
    }
    into.set(
      name,
      body
        .replace(/^-- include (.*)$/gm, (_, part: string) => partOf(parts, part, origin))
        .replace(/\{([a-z][a-z_]*)\}/g, (_, table: string) => rowOf(table, origin)),
    );
  }
}

function rowOf(table: string, origin: string): string {
  if (!isTable(table)) throw new Error(`no table ${table} in ${origin}`);
  return `${foundRow(table)} AS found`;
}

/** A row of a table as one value: what `decodeFound` reads. */
export function foundRow(table: TableName): string {
  return `ROW(${Object.keys(TABLES[table].columns).map(columnName).join(', ')})`;
}

function isTable(name: string): name is TableName {
  return Object.hasOwn(TABLES, name);
}

function partOf(parts: ReadonlyMap<string, string>, name: string, origin: string): string {
  const part = parts.get(name.trim());
  if (part === undefined) throw new Error(`no part ${name} before its use in ${origin}`);
  return part;
}

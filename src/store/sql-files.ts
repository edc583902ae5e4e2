import { readdirSync, readFileSync } from 'node:fs';

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

function addStatements(statements: Map<string, string>, text: string, origin: string): void {
  for (const block of text.split(/^-- name: /m).slice(1)) {
    const end = block.indexOf('\n');
    const name = block.slice(0, end).trim();
    const body = block.slice(end + 1).trim();
    if (!/^[a-z][a-z0-9_]*$/.test(name) || body === '' || statements.has(name)) {
      throw new Error(`bad or repeated statement ${name} in ${origin}`);
    }
    statements.set(name, body);
  }
}

import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';

/** What each folder of src may import, besides itself and packages (docs/architecture.md). */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  ledger: [],
  store: ['ledger'],
  lane: ['ledger', 'store', 'gen'],
  identity: ['ledger', 'gen'],
  rpc: ['identity', 'lane', 'store', 'ledger', 'gen'],
  config: ['ledger', 'lane', 'identity'],
  server: ['rpc', 'identity', 'lane', 'store', 'ledger', 'config', 'gen'],
  embedded: [],
  gen: [],
  cli: [
    'server',
    'config',
    'embedded',
    'identity',
    'store',
    'lane',
    'ledger',
    'gen',
    'rpc',
    'certs',
    'main.ts',
    'stop-signals.ts',
  ],
  'main.ts': ['server', 'config', 'stop-signals.ts'],
  'stop-signals.ts': [],
};

/** Node's modules that the pure core may use: hashing is a function. */
const PURE_BUILTINS: ReadonlySet<string> = new Set(['node:crypto', 'node:util']);

interface Import {
  readonly from: string;
  readonly to: string;
}

const root = path.resolve('src');

function imports(): Import[] {
  const found: Import[] = [];
  for (const entry of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
    if (!entry.endsWith('.ts') || entry.startsWith('gen')) continue;
    const text = readFileSync(path.join(root, entry), 'utf8');
    for (const match of text.matchAll(/^(?:import|export)\b[^;]*?from '([^']+)'|\bimport\('([^']+)'\)/gm)) {
      const target = (match[1] ?? match[2]) as string;
      const to = target.startsWith('.')
        ? path.relative(root, path.join(root, path.dirname(entry), target))
        : target;
      found.push({ from: entry, to });
    }
  }
  return found;
}

function room(file: string): string {
  const parts = file.split(path.sep);
  if (parts[0] === '..') return parts[1] ?? '';
  return parts.length === 1 ? file.replace(/\.js$/, '.ts') : (parts[0] as string);
}

describe('imports point one way', () => {
  const all = imports();

  test('there is something to look at', () => {
    expect(all.length).toBeGreaterThan(300);
  });

  test('every import between folders is one that the architecture allows', () => {
    const wrong = all
      .filter(
        ({ to }) =>
          !to.startsWith('node:') && (to.startsWith('..') || to.includes('/')) && to.endsWith('.js'),
      )
      .map(({ from, to }) => ({ from, to, rooms: [room(from), room(to)] as const }))
      .filter(({ rooms: [a, b] }) => a !== b && !(ALLOWED[a] ?? []).includes(b))
      .map(({ from, to }) => `${from} → ${to}`);
    expect(wrong).toEqual([]);
  });

  test('the ledger is pure: no I/O, no clock, no randomness', () => {
    const impure = all
      .filter(
        ({ from, to }) => from.startsWith('ledger') && !to.startsWith('ledger') && !PURE_BUILTINS.has(to),
      )
      .map(({ from, to }) => `${from} → ${to}`);
    expect(impure).toEqual([]);
    const forbidden =
      /Date\.now|new Date\(|Math\.random|performance\.now|randomBytes|randomUUID|process\.[a-z]|setTimeout/;
    const calling = readdirSync(path.join(root, 'ledger'), { recursive: true, encoding: 'utf8' })
      .filter((entry) => entry.endsWith('.ts'))
      .filter((entry) => forbidden.test(readFileSync(path.join(root, 'ledger', entry), 'utf8')));
    expect(calling).toEqual([]);
  });

  test('gRPC codes live in one file', () => {
    const users = all
      .filter(({ from, to }) => to.endsWith('google/rpc/code_pb.js') && !from.startsWith('cli'))
      .map(({ from }) => from)
      .sort();
    // The reflection protocol carries a code of its own inside of its answers.
    const others = users.filter((user) => !user.startsWith(path.join('rpc', 'status')));
    expect(others).toEqual([path.join('rpc', 'reflection-service.ts')]);
    expect(users.length).toBeGreaterThan(0);
  });

  test('SQLSTATEs live in the store and its runner alone', () => {
    const sqlState = /sqlstate|['"](?:23505|40001|40P01|55P03|57014|42P04|42710|57P0\d)['"]/i;
    const users = readdirSync(root, { recursive: true, encoding: 'utf8' })
      .filter((entry) => entry.endsWith('.ts') && !entry.startsWith('gen') && !entry.startsWith('store'))
      .filter((entry) => sqlState.test(readFileSync(path.join(root, entry), 'utf8')));
    expect(users).toEqual([]);
  });
});

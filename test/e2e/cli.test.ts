import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { CertificateFiles } from '../../certs/layout.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { type CommandEnd, runCommand } from '../support/command-process.js';
import {
  ACME,
  AUDITOR,
  type E2eWorld,
  HARNESS,
  OPERATOR,
  openE2eWorld,
  SERVICE_DOMAIN,
} from '../support/e2e-world.js';
import { createTestDatabase, type TestDatabase } from '../support/postgres.js';

// The commands of an operator, against a service with a past: what they print, and how they end.

let world: E2eWorld;
let folder: string;
/** The variables of a command that runs beside the service. */
let beside: Readonly<Record<string, string>>;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'surety-cli-'));
  world = await openE2eWorld();
  const { service, bundlesDir } = world.layout;
  beside = {
    SURETY_TLS_CERT_FILE: service.cert,
    SURETY_TLS_KEY_FILE: service.key,
    SURETY_BUNDLES_DIR: bundlesDir,
  };
  const executor = await world.executor();
  for (const state of [EffectState.SUCCEEDED, EffectState.UNKNOWN]) await world.effectIn(state, executor);
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await world.close();
});

function filesOf(spiffeId: string): CertificateFiles {
  const files = world.layout.callers[spiffeId];
  if (!files) throw new Error(`no certificate of ${spiffeId}`);
  return files;
}

describe('surety health', () => {
  const health = (...args: readonly string[]): Promise<CommandEnd> =>
    runCommand(['health', '--address', world.service.target, ...args], beside);

  test('asks the whole and each service, and exits 0 only where it serves', async () => {
    expect(await health()).toEqual({ code: 0, out: 'SERVING\n', err: '' });
    const part = await health('--service', 'surety.effect.v1.EffectService');
    expect(part).toEqual({ code: 0, out: 'SERVING\n', err: '' });
    const unknown = await health('--service', 'surety.effect.v1.NoService');
    expect(unknown).toMatchObject({ code: 1, out: expect.stringMatching(/^NOT_FOUND: /), err: '' });
  });

  test('finds nobody, or somebody else, and says so', async () => {
    // A port that no system gives to whoever asks for any.
    const nobody = '127.0.0.1:1';
    const none = await runCommand(['health', '--address', nobody, '--timeout', '2'], beside);
    expect(none).toMatchObject({ code: 1, out: expect.stringMatching(/^(UNAVAILABLE|DEADLINE_EXCEEDED): /) });
    // Beside another service than the one that answers: the certificate is a good one, of the wrong name.
    const { cert, key } = filesOf(OPERATOR);
    const other = { ...beside, SURETY_TLS_CERT_FILE: cert, SURETY_TLS_KEY_FILE: key };
    const wrong = await runCommand(['health', '--address', world.service.target, '--timeout', '2'], other);
    expect(wrong).toMatchObject({
      code: 1,
      out: expect.stringMatching(/^(UNAVAILABLE|DEADLINE_EXCEEDED): /),
    });
  });

  test('called wrongly exits 2', async () => {
    for (const args of [['--timeout', 'soon'], ['--timeout', '0'], ['--adress', 'x'], ['--address']]) {
      const { code, out, err } = await health(...args);
      expect({ args, code, out }).toEqual({ args, code: 2, out: '' });
      expect(err).toMatch(/^surety health: /);
    }
  });
});

describe('surety migrate and bootstrap', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase({ empty: true });
  });
  afterAll(() => database.drop());

  async function state(): Promise<unknown> {
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    try {
      const { rows } = await client.query('SELECT test_database, audience FROM service_state');
      return rows[0];
    } finally {
      await client.end();
    }
  }

  test('migrate makes the schema, and again finds nothing to do; --test marks it for good', async () => {
    const env = { SURETY_MIGRATION_URL: database.url };
    const first = await runCommand(['migrate'], env);
    expect(first).toMatchObject({
      code: 0,
      err: '',
      out: expect.stringMatching(/^The schema .+ applied\.$/m),
    });
    expect(await state()).toMatchObject({ test_database: false });
    const again = await runCommand(['migrate'], env);
    expect(again).toMatchObject({ code: 0, out: expect.stringContaining('nothing was to be done') });
    expect(again.out).not.toContain('test database');
    const marked = await runCommand(['migrate', '--test'], env);
    expect(marked).toMatchObject({ code: 0, out: expect.stringContaining('marked as a test database') });
    await runCommand(['migrate'], env);
    expect(await state()).toMatchObject({ test_database: true });
  });

  test('bootstrap works once, and what is wrong with it is told at once', async () => {
    const env = { ...beside, SURETY_MIGRATION_URL: database.url };
    const key = world.layout.signingKeys[OPERATOR];
    const operator = ['--operator', OPERATOR, '--key', key?.publicJwk ?? ''];
    const nothing = await runCommand(['bootstrap']);
    expect(nothing).toMatchObject({ code: 2, out: '' });
    for (const missing of ['--operator', '--key', 'SURETY_MIGRATION_URL', 'SURETY_TLS_CERT_FILE']) {
      expect(nothing.err).toContain(missing);
    }
    const secret = ['--operator', OPERATOR, '--key', key?.jwk ?? ''];
    expect(await runCommand(['bootstrap', ...secret], env)).toMatchObject({ code: 2, out: '' });
    expect(await state()).toMatchObject({ audience: null });

    const first = await runCommand(['bootstrap', ...operator], env);
    expect(first).toMatchObject({ code: 0, err: '', out: expect.stringContaining(OPERATOR) });
    const second = await runCommand(['bootstrap', ...operator], env);
    const known = 'surety bootstrap: ALREADY_BOOTSTRAPPED: The database has its first operator already.\n';
    expect(second).toEqual({ code: 1, out: '', err: known });
    expect(await state()).toMatchObject({ audience: 'spiffe://surety.test/surety' });
  });
});

describe('surety audit', () => {
  function exportLog(spiffeId: string, domain: string, ...more: readonly string[]): Promise<CommandEnd> {
    const { cert, key } = filesOf(spiffeId);
    return runCommand([
      ...['audit', 'export', '--domain', domain, '--cert', cert, '--key', key],
      ...['--roots', world.layout.serviceBundle],
      ...['--address', world.service.target.replace('127.0.0.1', 'localhost'), ...more],
    ]);
  }

  /** Verifies these lines in a file, with no variable that could lead to a service or a database. */
  async function verify(lines: readonly string[], ...more: readonly string[]): Promise<CommandEnd> {
    const file = path.join(folder, 'verified.jsonl');
    writeFileSync(file, lines.map((line) => `${line}\n`).join(''));
    return runCommand(['audit', 'verify', file, ...more]);
  }

  let lines: readonly string[];
  beforeAll(async () => {
    const file = path.join(folder, 'acme.jsonl');
    const { code, err } = await exportLog(AUDITOR, ACME, '--out', file);
    const { headSeq } = await world.channel(AUDITOR).service(AuditService).listEntries({ domainId: ACME });
    expect({ code, err }).toEqual({ code: 0, err: `${headSeq} entries of ${ACME}\n` });
    // Nobody else on the machine reads it.
    expect(statSync(file).mode & 0o077).toBe(0);
    lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    expect(BigInt(lines.length)).toBe(headSeq + 2n);
  });

  test('export writes the same to the standard output, and nothing else', async () => {
    const { code, out } = await exportLog(OPERATOR, ACME);
    expect(code).toBe(0);
    expect(out.trimEnd().split('\n')).toEqual(lines);
  });

  test('verify recomputes it offline', async () => {
    const { code, out, err } = await verify(lines, '--domain', ACME);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toMatch(
      new RegExp(`^${ACME}: ${lines.length - 2} entries, last ${lines.length - 2}, chain `),
    );
    expect(out).toMatch(/^verified$/m);
  });

  test.each([
    { what: 'changed', tamper: changed, finding: /^entry 5 \(line 6\): LEAF_MISMATCH$/m },
    {
      what: 'dropped',
      tamper: (all: readonly string[]) => all.toSpliced(5, 1),
      finding: /^entry 5 \(line 6\): MISSING$/m,
    },
    {
      what: 'swapped with its neighbour',
      tamper: (all: readonly string[]) => all.toSpliced(5, 2, all[6] ?? '', all[5] ?? ''),
      finding: /^entry 5 \(line 6\): MISSING$/m,
    },
    {
      what: 'made unreadable',
      tamper: (all: readonly string[]) => all.with(5, 'nonsense'),
      finding: /^line 6: MALFORMED$/m,
    },
    {
      what: 'cut off with all behind it',
      tamper: (all: readonly string[]) => all.slice(0, 5),
      finding: /^entry 4 \(line 5\): CUT_OFF$/m,
    },
  ])('verify names the entry that was $what', async ({ tamper, finding }) => {
    const { code, out } = await verify(tamper(lines));
    expect(code).toBe(1);
    expect(out).toMatch(finding);
    expect(out).toMatch(/^not verified: \d+ findings$/m);
  });

  test('verify takes no log for another domain’s', async () => {
    const { code, out } = await verify(lines, '--domain', SERVICE_DOMAIN);
    expect(code).toBe(1);
    expect(out).toContain('line 1: OTHER_DOMAIN');
  });

  test('export is refused to who may not read it, and writes no log', async () => {
    const file = path.join(folder, 'refused.jsonl');
    for (const more of [[], ['--out', file]]) {
      const { code, out, err } = await exportLog(HARNESS, ACME, ...more);
      expect({ code, out }).toEqual({ code: 1, out: '' });
      expect(err).toMatch(/^surety audit: .+\n$/);
    }
    expect([existsSync(file), existsSync(`${file}.part`)]).toEqual([false, false]);
  });

  test('an export that fails leaves the last good one as it was', async () => {
    const file = path.join(folder, 'good.jsonl');
    expect((await exportLog(AUDITOR, ACME, '--out', file)).code).toBe(0);
    expect((await exportLog(HARNESS, ACME, '--out', file)).code).toBe(1);
    expect(readFileSync(file, 'utf8').trimEnd().split('\n')).toEqual(lines);
    expect(existsSync(`${file}.part`)).toBe(false);
  });

  test('of files that are not there names them', async () => {
    const none = path.join(folder, 'no-such-folder', 'file');
    const { cert, key } = filesOf(AUDITOR);
    for (const [option, rule, args] of [
      ['verify', 'is not there', ['verify', none]],
      ['--cert', 'is not there', ['export', '--domain', ACME, '--cert', none, '--key', key, '--roots', cert]],
      [
        '--roots',
        'is not there',
        ['export', '--domain', ACME, '--cert', cert, '--key', key, '--roots', none],
      ],
      [
        '--out',
        'is not in a folder that is there',
        ['export', '--domain', ACME, '--cert', cert, '--key', key, '--roots', cert, '--out', none],
      ],
    ] as const) {
      const named = { code: 2, out: '', err: `surety audit: ${option}: ${none} ${rule}\n` };
      expect(await runCommand(['audit', ...args])).toEqual(named);
    }
  });
});

/** The fifth entry with another last byte, its hashes left as they were. */
function changed(lines: readonly string[]): string[] {
  const line = JSON.parse(lines[5] ?? '') as { entry: string };
  const entry = Buffer.from(line.entry, 'base64');
  entry.writeUInt8((entry.at(-1) ?? 0) ^ 1, entry.length - 1);
  return lines.with(5, JSON.stringify({ ...line, entry: entry.toString('base64') }));
}

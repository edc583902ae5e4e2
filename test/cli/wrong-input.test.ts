import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  type DevelopmentCertificates,
  ensureDevelopmentCertificates,
} from '../../certs/development-certificates.js';
import { COMMANDS, type CommandName } from '../../src/cli/commands.js';
import { reportFailure } from '../../src/cli/failure.js';
import { refusal } from '../../src/ledger/refusal.js';
import { Refused } from '../../src/ledger/run-decision.js';
import { createTestDatabase, type TestDatabase } from '../support/postgres.js';

// Whoever gives a command something wrong reads which option or variable it is, and its rule.

const folder = mkdtempSync(path.join(tmpdir(), 'surety-wrong-'));
let certificates: DevelopmentCertificates;
let database: TestDatabase;
beforeAll(async () => {
  certificates = await ensureDevelopmentCertificates({ directory: path.join(folder, 'certs') });
  database = await createTestDatabase();
});
afterAll(async () => {
  await database.drop();
  rmSync(folder, { recursive: true, force: true });
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

/** Runs a command in this process, as the program does. */
async function surety(
  name: CommandName,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ code: number; err: string[] }> {
  for (const [variable, value] of Object.entries({ SURETY_STATE_DIR: folder, ...env }))
    vi.stubEnv(variable, value);
  let text = '';
  vi.spyOn(process.stderr, 'write').mockImplementation((chunk) => {
    text += String(chunk);
    return true;
  });
  const command = await COMMANDS[name].load();
  const code = await command.run(args).catch((error: unknown) => reportFailure(name, error));
  return { code, err: text.trimEnd().split('\n') };
}

describe('a database', () => {
  const wrong = (change: (url: URL) => void): { url: string; place: string } => {
    const url = new URL(database.url);
    change(url);
    const host = url.searchParams.get('host') ?? url.hostname;
    return { url: url.toString(), place: `${host}:${url.searchParams.get('port') ?? (url.port || 5432)}` };
  };

  it('that there is not is told with the variable that names it', async () => {
    const { url, place } = wrong((its) => (its.pathname = '/nowhere'));
    const sentence = (variable: string): string =>
      `There is no such database at ${place} (${variable}): the URL must end with the name of one that is there.`;
    expect(await surety('migrate', [], { SURETY_MIGRATION_URL: url })).toEqual({
      code: 1,
      err: [`surety migrate: ${sentence('SURETY_MIGRATION_URL')}`],
    });
    const archive = await surety('archive', ['--older-than', '90d', '--dry-run'], {
      SURETY_ARCHIVE_URL: url,
    });
    expect(archive).toEqual({ code: 1, err: [`surety archive: ${sentence('SURETY_ARCHIVE_URL')}`] });
  });

  it('that refuses the login is told without it', async () => {
    const { url, place } = wrong((its) => (its.password = 'hunter2'));
    expect(await surety('restore', ['--dry-run'], { SURETY_DATABASE_URL: url })).toEqual({
      code: 1,
      err: [
        `surety restore: The database at ${place} (SURETY_DATABASE_URL) does not let the login in: the URL must have the user and password of one.`,
      ],
    });
  });
});

describe('surety bootstrap', () => {
  it('names everything that it needs', async () => {
    const { code, err } = await surety('bootstrap', []);
    expect(code).toBe(2);
    expect(err).toEqual([
      'surety bootstrap: --operator, --key, SURETY_MIGRATION_URL or SURETY_DATABASE_URL, SURETY_TLS_CERT_FILE, ' +
        'SURETY_TLS_KEY_FILE, SURETY_BUNDLES_DIR: must be given',
    ]);
  });

  it('names the options that are wrong, each with its rule', async () => {
    const { service, bundlesDir } = certificates;
    const env = {
      SURETY_DATABASE_URL: database.url,
      SURETY_TLS_CERT_FILE: service.cert,
      SURETY_TLS_KEY_FILE: service.key,
      SURETY_BUNDLES_DIR: bundlesDir,
    };
    const asked = ['--operator', 'root', '--key', '{}', '--domain', 'NOT A DOMAIN'];
    expect(await surety('bootstrap', asked, env)).toEqual({
      code: 2,
      err: [
        'surety bootstrap: --operator: must be a SPIFFE ID with a path',
        'surety bootstrap: --key: must be a public P-256 JWK; kty must be EC',
        'surety bootstrap: --domain: must be the name of a trust domain',
      ],
    });
    const missing = ['--operator', 'spiffe://surety.test/operator/root', '--key', '/absent.jwk'];
    expect((await surety('bootstrap', missing, env)).err).toEqual([
      'surety bootstrap: --key: /absent.jwk is not there',
    ]);
    const text = path.join(folder, 'text.pem');
    writeFileSync(text, 'text');
    expect((await surety('bootstrap', missing, { ...env, SURETY_TLS_CERT_FILE: text })).err).toEqual([
      `surety bootstrap: SURETY_TLS_CERT_FILE: ${text}: no CERTIFICATE in it`,
    ]);
  });

  it('says in a sentence what a decision refuses', async () => {
    const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    const refused = new Refused(
      refusal('ALREADY_BOOTSTRAPPED', 'The database has its first operator already.'),
    );
    expect(reportFailure('bootstrap', refused)).toBe(1);
    expect(written).toHaveBeenCalledWith(
      'surety bootstrap: ALREADY_BOOTSTRAPPED: The database has its first operator already.\n',
    );
  });
});

describe('arguments', () => {
  it.each([
    [
      'admin',
      ['create-grant', 'g', '--max-uses', '-1'],
      /^--max-uses: must have a value; .* is given as --max-uses=<value>$/,
    ],
    ['admin', ['create-grant', 'g', '--reason'], /^--reason: must have a value; /],
    ['admin', ['create-grant', 'g', '--dry-run=1'], /^--dry-run: takes no value$/],
    ['admin', ['create-grant', 'g', '--max-use', '1'], /^there is no option --max-use; surety admin --help /],
    ['admin', ['list-grants', 'g'], /^does not take "g"; surety admin --help /],
    ['health', ['--target', 'foo'], /^--target: must be host:port, an IPv6 address in brackets$/],
    ['health', ['--address', 'foo'], /^--address: must be host:port, /],
    ['audit', ['export', '--domain', 'a.test', '--address', '7480'], /^--address: must be host:port, /],
    [
      'audit',
      ['export', '--domain', 'a.test', '--address', 'a:1', '--target', 'b:1'],
      /^--target and --address are /,
    ],
    ['audit', ['verify', '/nonexist'], /^verify: \/nonexist is not there$/],
    ['worker', ['--provider', 'http://localhost', '--target', 'x'], /^--target: must be host:port, /],
    ['migrate', ['now'], /^does not take "now"; surety migrate --help /],
  ] as const)('of %s %j that are wrong are one sentence with their option', async (name, args, sentence) => {
    const { code, err } = await surety(name, args);
    expect({ code, lines: err.length }).toEqual({ code: 2, lines: 1 });
    expect(err[0]?.slice(`surety ${name}: `.length)).toMatch(sentence);
  });
});

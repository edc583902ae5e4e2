import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { certificateLayout } from '../../certs/layout.js';
import { AdminSession } from '../../src/cli/client/admin-session.js';
import { Channel } from '../../src/cli/client/service-client.js';
import { removeEmbeddedPostgres } from '../../src/embedded/embedded-postgres.js';
import { importSigningKey } from '../../src/identity/sign.js';
import { type CommandProcess, runCommand, startCommand, startProgram } from '../support/command-process.js';
import { AUDITOR, OPERATOR, refusedWith, SERVICE_DOMAIN } from '../support/e2e-world.js';
import { descendantsOf, type LivingProcess, livingProcesses, processesNaming } from '../support/processes.js';

// Issue "Effects end to end", 11: `npm start` on a machine that has nothing but the checkout.

const folder = mkdtempSync(path.join(tmpdir(), 'surety-start-'));
const state = path.join(folder, 'state');
afterAll(async () => {
  // Started as root, the data is not in the folder that was asked for.
  await removeEmbeddedPostgres(path.join(state, 'postgres'));
  rmSync(folder, { recursive: true, force: true });
});

const running = new Set<CommandProcess>();
afterEach(async () => {
  for (const { child, ended } of running) {
    child.kill('SIGKILL');
    await ended;
  }
  running.clear();
});

/** A start that says that it serves, and where. */
interface Started extends CommandProcess {
  readonly address: string;
  readonly admin: string;
  /** Where its Postgres has its data. */
  readonly data: string;
}

async function serving(command: CommandProcess): Promise<Started> {
  running.add(command);
  const told = (pattern: RegExp): string => pattern.exec(command.out())?.[1] ?? '';
  await expect
    .poll(() => (command.child.exitCode === null ? command.out() : command.err()), { timeout: 60_000 })
    .toContain('Ctrl-C ends it.');
  return {
    ...command,
    address: told(/gRPC +(\S+:\d+),/),
    admin: told(/admin +(http:\/\/\S+)\/readyz/),
    data: path.resolve(told(/an embedded Postgres, its data in (\S+)/)),
  };
}

const ENV: Readonly<Record<string, string>> = {
  SURETY_STATE_DIR: state,
  SURETY_LISTEN: '127.0.0.1:0',
  SURETY_ADMIN_LISTEN: '127.0.0.1:0',
  SURETY_LOG_LEVEL: 'warn',
};

async function start(...args: readonly string[]): Promise<Started> {
  return serving(startCommand(['start', ...args], ENV));
}

async function term(command: CommandProcess): Promise<number | string> {
  command.child.kill('SIGTERM');
  const { code } = await command.ended;
  running.delete(command);
  return code;
}

/** A signed command of the operator: makes a domain. What it made is found by the second one to ask for it. */
async function createDomain({ address }: Started, domainId: string): Promise<void> {
  const layout = certificateLayout(path.join(state, 'certs'));
  const files = layout.callers[OPERATOR];
  const channel = new Channel(address, {
    certificate: readFileSync(files?.cert ?? ''),
    key: readFileSync(files?.key ?? ''),
    roots: readFileSync(layout.serviceBundle),
  });
  const key = importSigningKey(readFileSync(layout.signingKeys[OPERATOR]?.pem ?? '', 'utf8'));
  try {
    await new AdminSession(channel, key).execute(SERVICE_DOMAIN, {
      case: 'createDomain',
      value: { domainId },
    });
  } finally {
    channel.close();
  }
}

/** The development auditor is a caller as soon as the start has said that it serves, and was made once. */
async function auditorReads({ address }: Started): Promise<void> {
  const layout = certificateLayout(path.join(state, 'certs'));
  const { cert = '', key = '' } = layout.callers[AUDITOR] ?? {};
  const env = { SURETY_STATE_DIR: state, SURETY_LISTEN: address };
  const exported = ['audit', 'export', '--domain', SERVICE_DOMAIN];
  const byAuditor = await runCommand([...exported, '--cert', cert, '--key', key], env);
  expect(byAuditor).toMatchObject({ code: 0, err: expect.stringMatching(/^\d+ entries of /) });
  // The commands that are printed need no more than what is printed.
  expect(await runCommand(exported, env)).toEqual(byAuditor);
  const commands = byAuditor.out.split('\n').flatMap((line) => {
    const { entry } = JSON.parse(line || '{}') as { entry?: string };
    return entry !== undefined && Buffer.from(entry, 'base64').includes(AUDITOR) ? [line] : [];
  });
  expect(commands).toHaveLength(1);
}

/** At once: whoever ended has waited for all that it started. */
function nothingIsLeft({ data }: Started, of: readonly LivingProcess[] = []): void {
  expect(processesNaming(data)).toEqual([]);
  expect(processesNaming(state)).toEqual([]);
  const names = new Set(of.map(({ pid, command }) => `${pid} ${command}`));
  expect(livingProcesses().filter(({ pid, command }) => names.has(`${pid} ${command}`))).toEqual([]);
}

/** For one test that starts it twice, on a machine that is busy. */
const PATIENCE_MS = 120_000;

describe('npm start', { timeout: PATIENCE_MS }, () => {
  test('serves, says where everything is and what to try, and SIGTERM to npm ends all of it', async () => {
    // Without the script before it, which builds: others are using what is built.
    const npm = startProgram('npm', ['start', '--ignore-scripts'], ENV);
    const first = await serving(npm);
    expect(first.out()).toContain(`certificates  ${path.join(state, 'certs')}`);
    expect(first.out()).toContain(
      `SURETY_LISTEN=${first.address} SURETY_STATE_DIR=${state} npx surety health\n`,
    );
    expect(first.out()).toContain('npx surety admin --help\n');
    expect(first.out()).not.toContain('copied');
    await auditorReads(first);
    expect(await (await fetch(`${first.admin}/readyz`)).text()).toBe('ready\n');
    expect(processesNaming(first.data).length).toBeGreaterThan(0);
    await createDomain(first, 'kept.test');
    const below = descendantsOf(npm.pid);
    expect(below.map(({ command }) => command).join('\n')).toContain('main.js start');
    await term(npm);
    nothingIsLeft(first, below);
  });

  test('again has what was there; killed with SIGKILL, the next one recovers', async () => {
    const certificate = readFileSync(certificateLayout(path.join(state, 'certs')).service.cert);
    const second = await start();
    await auditorReads(second);
    expect(await refusedWith(createDomain(second, 'kept.test'))).toMatchObject({ reason: 'RECORD_EXISTS' });
    await createDomain(second, 'kept-too.test');
    second.child.kill('SIGKILL');
    await second.ended;
    // At once: its Postgres may still be there.
    const third = await start();
    expect(third.data).toBe(second.data);
    expect(await refusedWith(createDomain(third, 'kept-too.test'))).toMatchObject({
      reason: 'RECORD_EXISTS',
    });
    expect(readFileSync(certificateLayout(path.join(state, 'certs')).service.cert)).toEqual(certificate);

    // Somebody who starts it twice is told, and harms nobody.
    const twice = await runCommand(['start'], ENV);
    expect(twice).toMatchObject({ code: 1, out: '' });
    expect(twice.err).toMatch(/^surety start: .+which is still there\.\n$/);
    expect(await refusedWith(createDomain(third, 'kept.test'))).toMatchObject({ reason: 'RECORD_EXISTS' });
    expect(await term(third)).toBe(0);
    nothingIsLeft(third);
  });

  test('--fresh begins anew', async () => {
    const fresh = await start('--fresh');
    await createDomain(fresh, 'kept.test');
    expect(await term(fresh)).toBe(0);
    nothingIsLeft(fresh);
  });
});

describe('a wrong configuration', () => {
  test('is told whole, each mistake with its variable, and nothing is started', async () => {
    const own = path.join(folder, 'nothing');
    const wrong = {
      SURETY_STATE_DIR: own,
      SURETY_LISTEN: '127.0.0.1:0',
      SURETY_ADMIN_LISTEN: '0.0.0.0:0',
      SURETY_TLS_CERT_FILE: path.join(folder, 'no-such.pem'),
      SURETY_DATABASE_URL: 'mysql://u:hunter2@h/d',
      SURETY_DATABASE_URL_FILE: path.join(folder, 'url'),
      SURETY_MIGRATION_URL: 'postgres://u:hunter3@h',
      SURETY_LANE_CONNECTIONS: '0',
      SURETY_POOL_SIZE: '8.5',
      SURETY_DRAIN_GRACE_MS: '-1',
      SURETY_REFLECTION: 'yes',
      SURETY_LOG_LEVEL: 'loud',
      SURETY_FAULT: 'before-lunch:crash',
      SURETY_LISEN: '127.0.0.1:1',
    };
    const { SURETY_STATE_DIR: _, SURETY_LISTEN: __, SURETY_DATABASE_URL_FILE: ___, ...mistaken } = wrong;
    const { code, out, err } = await runCommand(['start'], wrong);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    const lines = err.trim().split('\n');
    const named = new Set(lines.map((line) => /^surety start: (SURETY_\w+): /.exec(line)?.[1]));
    expect([...named].sort()).toEqual(
      [...Object.keys(mistaken), 'SURETY_TLS_KEY_FILE', 'SURETY_BUNDLES_DIR'].sort(),
    );
    expect(err).not.toMatch(/hunter/);
    expect(existsSync(own)).toBe(false);
    expect(processesNaming(own)).toEqual([]);
  });

  test('of a folder that cannot be one is a sentence, and leaves no process', async () => {
    const own = path.join(certificateLayout(path.join(state, 'certs')).serviceBundle, 'under-a-file');
    const { code, err } = await runCommand(['start'], { ...ENV, SURETY_STATE_DIR: own });
    expect({ code, err }).toEqual({
      code: 1,
      err: expect.stringMatching(/^surety start: SURETY_STATE_DIR: .+ cannot be made \(ENOTDIR\)\n$/),
    });
    expect(processesNaming(own)).toEqual([]);
    // Node's own recursive mkdir never comes back from here.
    const nowhere = await runCommand(['start'], { ...ENV, SURETY_STATE_DIR: '/proc/nowhere' });
    expect(nowhere).toMatchObject({
      code: 1,
      err: expect.stringContaining('/proc/nowhere cannot be made (ENOENT)'),
    });
  });
});

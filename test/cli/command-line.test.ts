import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:http2';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { certificateLayout } from '../../certs/layout.js';
import { COMMANDS } from '../../src/cli/commands.js';
import { removeEmbeddedPostgres } from '../../src/embedded/embedded-postgres.js';
import { createTestDatabase } from '../support/postgres.js';
import { startServiceProcess } from '../support/service-process.js';

const MAIN = path.resolve('dist/src/cli/main.js');
const state = mkdtempSync(path.join(tmpdir(), 'surety-cli-'));
afterAll(async () => {
  // Started as root, its data is not in the folder that it was asked for.
  await removeEmbeddedPostgres(path.join(state, 'postgres'));
  rmSync(state, { recursive: true, force: true });
});

interface Run {
  readonly code: number | string;
  readonly out: string;
  readonly err: string;
}

const running = new Set<ChildProcess>();
afterEach(() => {
  for (const child of running) child.kill('SIGKILL');
});

function launch(args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(SURETY_|NODE_OPTIONS|VITEST)/.test(name),
  );
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { ...Object.fromEntries(inherited), SURETY_STATE_DIR: state, ...env },
  });
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

function outcome(child: ChildProcess): Promise<Run> {
  let [out, err] = ['', ''];
  child.stdout?.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (err += chunk.toString()));
  return new Promise((resolve) =>
    child.once('close', (code, signal) => resolve({ code: code ?? signal ?? '', out, err })),
  );
}

const surety = (args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Run> =>
  outcome(launch(args, env));

describe('help', () => {
  it('lists every command, with exit 0', async () => {
    const { code, out, err } = await surety([]);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    for (const name of Object.keys(COMMANDS)) expect(out).toMatch(new RegExp(`^ {2}${name} `, 'm'));
    expect((await surety(['--help'])).out).toBe(out);
  });

  it('says more of each command, wherever --help stands', async () => {
    for (const name of Object.keys(COMMANDS)) {
      const { code, out } = await surety([name, '--anything', '--help']);
      expect(code).toBe(0);
      expect(out).toMatch(new RegExp(`^surety ${name}`));
    }
  }, 60_000);

  it('lists the variables, and the version', async () => {
    expect((await surety(['help', 'configuration'])).out).toContain(
      'SURETY_MIGRATION_URL (or SURETY_MIGRATION_URL_FILE)',
    );
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    expect((await surety(['--version'])).out).toBe(`${version}\n`);
  });

  it('is not given for what is not there: exit 2', async () => {
    for (const args of [
      ['strat'],
      ['help', 'strat'],
      ['start', '--fersh'],
      ['migrate', 'now'],
      ['audit'],
      ['toString'],
    ]) {
      const { code, out, err } = await surety(args);
      expect({ args, code, out }).toEqual({ args, code: 2, out: '' });
      expect(err).toMatch(/^surety/);
      expect(err).not.toMatch(/\n {4}at /);
    }
  }, 60_000);
});

describe('a wrong configuration', () => {
  it('is told whole, with exit 2, and nothing is started', async () => {
    const own = path.join(state, 'nothing');
    const env = {
      SURETY_STATE_DIR: own,
      SURETY_LISTEN: 'here',
      SURETY_POOL_SIZE: 'many',
      SURETY_DATABSE_URL: 'postgres://u:p@h/d',
    };
    const { code, out, err } = await surety(['start'], env);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    const names = err
      .trim()
      .split('\n')
      .map((line) => line.split(':')[1]?.trim());
    expect(names).toEqual(['SURETY_DATABSE_URL', 'SURETY_LISTEN', 'SURETY_POOL_SIZE']);
    expect(existsSync(own)).toBe(false);
  });

  it('of serve names all that must be set', async () => {
    const { code, err } = await surety(['serve']);
    expect(code).toBe(2);
    expect(err.match(/must be set/g)).toHaveLength(4);
  });

  it('of a database that does not answer is one sentence: exit 1', async () => {
    const env = { SURETY_DATABASE_URL: 'postgres://u:hunter2@127.0.0.1:1/d' };
    const { code, err } = await surety(['migrate'], env);
    const sentence = 'surety migrate: The database did not answer at 127.0.0.1:1 (SURETY_DATABASE_URL).';
    expect({ code, err }).toEqual({ code: 1, err: `${sentence}\n` });
  });

  it('of TLS is told with all the rest, before a database is tried', async () => {
    const env = {
      SURETY_DATABASE_URL: 'postgres://u:hunter2@127.0.0.1:1/d',
      SURETY_POOL_SIZE: 'many',
      SURETY_TLS_CERT_FILE: 'package.json',
      SURETY_TLS_KEY_FILE: '/absent.key',
      SURETY_BUNDLES_DIR: 'src',
    };
    const { code, err } = await surety(['serve'], env);
    expect({ code, lines: err.trim().split('\n') }).toEqual({
      code: 2,
      lines: [
        expect.stringMatching(/^surety serve: SURETY_POOL_SIZE: must be an integer/),
        'surety serve: SURETY_TLS_CERT_FILE: package.json: no CERTIFICATE in it',
        'surety serve: SURETY_TLS_KEY_FILE: ENOENT /absent.key',
        'surety serve: SURETY_BUNDLES_DIR: src has no <trust-domain>.pem in it',
      ],
    });
  });

  it('of the folder of the state is one sentence', async () => {
    const { code, err } = await surety(['start'], { SURETY_STATE_DIR: path.resolve('package.json') });
    expect({ code, err }).toEqual({
      code: 2,
      err: `surety start: SURETY_STATE_DIR: ${path.resolve('package.json')} is not a folder\n`,
    });
  });
});

describe('surety start', () => {
  it('brings everything, says where it is, and takes everything down again', async () => {
    const child = launch(['start'], { SURETY_LISTEN: '127.0.0.1:0', SURETY_ADMIN_LISTEN: '127.0.0.1:0' });
    let told = '';
    child.stdout?.on('data', (chunk: Buffer) => (told += chunk.toString()));
    const ending = outcome(child);
    await expect.poll(() => told, { timeout: 60_000 }).toContain('Ctrl-C ends it.');
    const address = /gRPC +(\S+:\d+),/.exec(told)?.[1] ?? '';
    const data = /an embedded Postgres, its data in (\S+)/.exec(told)?.[1] ?? '';
    expect(told).toContain(`SURETY_LISTEN=${address} SURETY_STATE_DIR=`);
    const healthy = await surety(['health', '--address', address]);
    expect(healthy).toEqual({ code: 0, out: 'SERVING\n', err: '' });
    const part = await surety([
      'health',
      '--address',
      address,
      '--service',
      'surety.effect.v1.EffectService',
    ]);
    expect(part.out).toBe('SERVING\n');

    const file = path.join(state, 'log.jsonl');
    const localhost = address.replace('127.0.0.1', 'localhost');
    const exported = await surety([
      ...['audit', 'export', '--domain', 'surety.test', '--address', localhost, '--out', file],
    ]);
    expect(exported).toEqual({ code: 0, out: '', err: '3 entries of surety.test\n' });
    expect(await surety(['audit', 'verify', file])).toMatchObject({
      code: 0,
      out: expect.stringMatching(/verified\n$/),
    });

    const postmaster = Number(readFileSync(path.join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);
    expect(() => process.kill(postmaster, 0)).not.toThrow();
    child.kill('SIGTERM');
    expect((await ending).code).toBe(0);
    expect(() => process.kill(postmaster, 0)).toThrow();
    const gone = await surety(['health', '--address', address, '--timeout', '2']);
    expect(gone).toMatchObject({ code: 1, out: expect.stringMatching(/^(UNAVAILABLE|DEADLINE_EXCEEDED)/) });
  }, 120_000);
});

describe('a service in production', () => {
  it('is migrated, bootstrapped and served by three commands; a second signal ends it at once', async () => {
    const database = await createTestDatabase();
    const layout = certificateLayout(path.join(state, 'certs'));
    expect((await surety(['certs'])).code).toBe(0);
    const { service, bundlesDir } = layout;
    const env = {
      SURETY_DATABASE_URL: database.url,
      SURETY_TLS_CERT_FILE: service.cert,
      SURETY_TLS_KEY_FILE: service.key,
      SURETY_BUNDLES_DIR: bundlesDir,
    };
    expect(await surety(['migrate'], env)).toMatchObject({
      code: 0,
      out: expect.stringContaining('nothing was to be done'),
    });
    const unready = await surety(['serve'], {
      ...env,
      SURETY_LISTEN: '127.0.0.1:0',
      SURETY_ADMIN_LISTEN: '127.0.0.1:0',
    });
    expect(unready).toMatchObject({ code: 1, err: expect.stringContaining('run surety bootstrap') });
    const operator = 'spiffe://surety.test/operator/root';
    const key = layout.signingKeys[operator]?.publicJwk ?? '';
    const first = await surety(['bootstrap', '--operator', operator, '--key', key], env);
    expect(first).toMatchObject({ code: 0, out: expect.stringContaining('surety.test') });
    const second = await surety(
      ['bootstrap', '--operator', operator, '--key', readFileSync(key, 'utf8')],
      env,
    );
    expect(second).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^surety bootstrap: ALREADY_BOOTSTRAPPED: [^\n]+\.\n$/),
    });
    const incomplete = await surety(['bootstrap', '--operator', 'root', '--key', '{}'], env);
    expect(incomplete.code).toBe(2);
    expect(incomplete.err.trim().split('\n')).toHaveLength(2);

    const running = await startServiceProcess({
      databaseUrl: database.url,
      tls: { cert: service.cert, key: service.key, bundlesDir },
      // Longer than any machine is slow: only a second signal ends it.
      env: { SURETY_DRAIN_GRACE_MS: '600000' },
    });
    // A call that never ends its request holds the drain for as long as its grace is.
    const caller = layout.callers[operator];
    const session = connect(`https://localhost:${running.target.split(':')[1]}`, {
      ca: readFileSync(layout.serviceBundle),
      cert: readFileSync(caller?.cert ?? ''),
      key: readFileSync(caller?.key ?? ''),
    });
    session.on('error', () => {});
    const stream = session.request({
      ':method': 'POST',
      ':path': '/surety.identity.v1.WorkloadService/WhoAmI',
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.on('error', () => {});
    // Behind the request: its answer says that the service has the call. Before the connection stands, none is sent.
    await once(session, 'connect');
    const ping = await new Promise((resolve) => session.ping(Buffer.alloc(8), resolve));
    expect(ping).toBeNull();
    process.kill(running.pid, 'SIGTERM');
    await expect.poll(() => running.log()).toContain('a second signal ends at once');
    const stillThere = await Promise.race([
      running.ended,
      new Promise((resolve) => setTimeout(resolve, 500, 'there')),
    ]);
    expect(stillThere).toBe('there');
    process.kill(running.pid, 'SIGTERM');
    expect(await running.ended).toBe(130);
    session.destroy();
    await database.drop();
  }, 120_000);

  it('says which port is taken', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const database = await createTestDatabase();
    const taken = {
      SURETY_DATABASE_URL: database.url,
      SURETY_ADMIN_LISTEN: `127.0.0.1:${port}`,
      SURETY_LISTEN: '127.0.0.1:0',
    };
    const { code, err } = await surety(['start'], taken);
    expect({ code, line: err.trim().split('\n').at(-1) }).toEqual({
      code: 1,
      line: `surety start: SURETY_ADMIN_LISTEN: 127.0.0.1:${port} is in use`,
    });
    server.close();
    await database.drop();
  }, 60_000);
});

import { type ChildProcess, spawn } from 'node:child_process';
import { createServer } from 'node:net';
import path from 'node:path';

/** A service in a process of its own. */
export interface ServiceProcess {
  /** `host:port` of gRPC. */
  readonly target: string;
  /** `http://host:port` of the admin port. */
  readonly admin: string;
  readonly pid: number;
  /** What it has logged so far. */
  log(): string;
  /** Resolves with the exit code, or the signal's name. */
  readonly ended: Promise<number | string>;
  /** SIGTERM, and waits until it is gone. */
  stop(): Promise<number | string>;
  /** SIGKILL, and waits until it is gone. */
  kill(): Promise<void>;
}

/** What a service is started with. */
export interface ServiceSettings {
  readonly databaseUrl: string;
  readonly tls: { readonly cert: string; readonly key: string; readonly bundlesDir: string };
  /** Further variables, or other values. */
  readonly env?: Readonly<Record<string, string>>;
  /** Commands of the program; `serve` unless given. */
  readonly args?: readonly string[];
  /** Whether to wait until it is ready; else the caller waits. */
  readonly wait?: boolean;
}

const READY_TIMEOUT_MS = 90_000;
const STOP_TIMEOUT_MS = 30_000;
const MAIN = path.resolve('dist/src/cli/main.js');

/** Starts `surety serve` as it is built in `dist/`, on free ports. */
export async function startServiceProcess(settings: ServiceSettings): Promise<ServiceProcess> {
  const [grpcPort, adminPort] = [await freePort(), await freePort()];
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(SURETY_|PG|NODE_OPTIONS|VITEST)/.test(name),
  );
  const child = spawn(process.execPath, [MAIN, ...(settings.args ?? ['serve'])], {
    env: {
      ...Object.fromEntries(inherited),
      SURETY_LISTEN: `127.0.0.1:${grpcPort}`,
      SURETY_ADMIN_LISTEN: `127.0.0.1:${adminPort}`,
      SURETY_DATABASE_URL: settings.databaseUrl,
      SURETY_TLS_CERT_FILE: settings.tls.cert,
      SURETY_TLS_KEY_FILE: settings.tls.key,
      SURETY_BUNDLES_DIR: settings.tls.bundlesDir,
      SURETY_TEST_CLOCK: '1',
      SURETY_SWEEP_INTERVAL_MS: '200',
      SURETY_LANE_CONNECTIONS: '3',
      SURETY_POOL_SIZE: '3',
      ...settings.env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const service = handleOf(child, `127.0.0.1:${grpcPort}`, `http://127.0.0.1:${adminPort}`);
  if (settings.wait !== false) await untilReady(service, child);
  return service;
}

function handleOf(child: ChildProcess, target: string, admin: string): ServiceProcess {
  let output = '';
  const keep = (chunk: Buffer): void => {
    output = (output + chunk.toString('utf8')).slice(-1_000_000);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  const ended = new Promise<number | string>((resolve) => {
    child.once('exit', (code, signal) => resolve(code ?? signal ?? 'unknown'));
  });
  return {
    target,
    admin,
    pid: child.pid ?? 0,
    log: () => output,
    ended,
    async stop() {
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
      const how = await ended;
      clearTimeout(timer);
      return how;
    },
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** Waits until the service says that it is ready. @throws where it ends, or takes too long */
export async function untilReady(service: ServiceProcess, child?: ChildProcess): Promise<void> {
  const until = Date.now() + READY_TIMEOUT_MS;
  while (Date.now() < until) {
    if (child && (child.exitCode !== null || child.signalCode !== null)) break;
    const ready = await fetch(`${service.admin}/readyz`).then(
      (response) => response.ok,
      () => false,
    );
    if (ready) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`the service did not become ready:\n${service.log()}`);
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

import { type ChildProcess, spawn } from 'node:child_process';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

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
}

const READY_TIMEOUT_MS = 90_000;
const STOP_TIMEOUT_MS = 30_000;
const MAIN = path.resolve('dist/src/cli/main.js');

/**
 * Starts `surety serve` as it is built in `dist/`, on ports that the system gives it, and waits until it is ready.
 *
 * @throws where it ends, or takes too long
 */
export async function startServiceProcess(settings: ServiceSettings): Promise<ServiceProcess> {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(SURETY_|PG|NODE_OPTIONS|VITEST)/.test(name),
  );
  const child = spawn(process.execPath, [MAIN, ...(settings.args ?? ['serve'])], {
    env: {
      ...Object.fromEntries(inherited),
      SURETY_LISTEN: '127.0.0.1:0',
      SURETY_ADMIN_LISTEN: '127.0.0.1:0',
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
  const log = logOf(child);
  const ended = new Promise<number | string>((resolve) => {
    child.once('exit', (code, signal) => resolve(code ?? signal ?? 'unknown'));
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), READY_TIMEOUT_MS);
  const endedTooSoon = ended.then((how) => {
    throw new Error(`the service ended with ${how} before it was ready:\n${log()}`);
  });
  endedTooSoon.catch(() => {});
  const { target, admin } = await Promise.race([whereItServes([child.stdout, child.stderr]), endedTooSoon]);
  await Promise.race([untilReady(admin, child), endedTooSoon]);
  clearTimeout(timer);
  return { target, admin, pid: child.pid ?? 0, log, ended, ...endings(child, ended) };
}

function logOf(child: ChildProcess): () => string {
  let output = '';
  const keep = (chunk: Buffer): void => {
    output = (output + chunk.toString('utf8')).slice(-1_000_000);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  return () => output;
}

/** The line that a service logs when both of its ports are open: only then it is known which they are. */
async function whereItServes(streams: readonly Readable[]): Promise<{ target: string; admin: string }> {
  const line = await new Promise<string>((resolve) => {
    for (const input of streams)
      createInterface({ input }).on('line', (each) => each.includes('"msg":"serving"') && resolve(each));
  });
  const { grpc, admin } = JSON.parse(line) as Record<'grpc' | 'admin', AddressInfo>;
  return { target: `${grpc.address}:${grpc.port}`, admin: `http://${admin.address}:${admin.port}` };
}

function endings(
  child: ChildProcess,
  ended: Promise<number | string>,
): Pick<ServiceProcess, 'stop' | 'kill'> {
  return {
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

async function untilReady(admin: string, child: ChildProcess): Promise<void> {
  const isReady = (): Promise<boolean> =>
    fetch(`${admin}/readyz`).then(
      (response) => response.ok,
      () => false,
    );
  while (child.exitCode === null && child.signalCode === null && !(await isReady()))
    await new Promise((resolve) => setTimeout(resolve, 50));
  // Of a child that has ended whoever waits is told by its end.
  if (child.exitCode !== null || child.signalCode !== null) await new Promise(() => {});
}

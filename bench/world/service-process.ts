import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../src/embedded/free-port.js';
import { profileArguments } from '../measure/child.js';
import type { BenchCertificates } from './certificates.js';

const READY_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 30_000;
const POLL_MS = 50;
const DAY_MS = 86_400_000;
const KIB_PER_MIB = 1024;

/** What differs from a service as anybody starts it. */
export const SERVICE_SETTINGS = {
  SURETY_LOG_LEVEL: 'warn',
  // A run may take longer than the hour after which a connection is asked to go.
  SURETY_CONNECTION_MAX_AGE_MS: String(DAY_MS),
} as const;

/** `surety serve` from `dist/`, in a process of its own. */
export class ServiceProcess {
  private constructor(
    private readonly child: ChildProcess,
    /** `host:port` of gRPC. */
    readonly target: string,
    /** `host:port` of the admin port. */
    readonly admin: string,
  ) {}

  static async start(
    databaseUrl: string,
    { service }: BenchCertificates,
    profile?: string,
  ): Promise<ServiceProcess> {
    const [target, admin] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
    const main = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));
    const inherited = Object.entries(process.env).filter(
      ([name]) => !/^(SURETY_|PG|NODE_OPTIONS)/.test(name),
    );
    const child = spawn(process.execPath, [...profileArguments(profile), main, 'serve'], {
      env: {
        ...Object.fromEntries(inherited),
        ...SERVICE_SETTINGS,
        SURETY_LISTEN: target,
        SURETY_ADMIN_LISTEN: admin,
        SURETY_DATABASE_URL: databaseUrl,
        SURETY_TLS_CERT_FILE: service.cert,
        SURETY_TLS_KEY_FILE: service.key,
        SURETY_BUNDLES_DIR: service.bundlesDir,
      },
      // Its log goes where the progress goes: standard output is the result's alone.
      stdio: ['ignore', process.stderr, process.stderr],
    });
    // Whatever ends the benchmark: nobody else would end it.
    const orphaned = (): void => void child.kill('SIGKILL');
    process.once('exit', orphaned);
    child.once('exit', () => process.off('exit', orphaned));
    const process_ = new ServiceProcess(child, target, admin);
    try {
      await process_.untilReady(admin);
    } catch (error) {
      await process_.stop();
      throw error;
    }
    return process_;
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** Resident memory in MiB; Linux alone says it. */
  residentMib(): number {
    const status = readFileSync(`/proc/${this.child.pid}/status`, 'utf8');
    const line = /^VmRSS:\s+(\d+) kB$/m.exec(status);
    if (!line) throw new Error('the resident memory of the service cannot be read');
    return Number(line[1]) / KIB_PER_MIB;
  }

  async stop(): Promise<void> {
    const { child } = this;
    if (this.hasEnded) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(timer);
  }

  private get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  private async untilReady(admin: string): Promise<void> {
    const until = Date.now() + READY_TIMEOUT_MS;
    while (Date.now() < until && !this.hasEnded) {
      const ready = await fetch(`http://${admin}/readyz`).then(
        (response) => response.ok,
        () => false,
      );
      if (ready) return;
      await sleep(POLL_MS);
    }
    throw new Error('the service did not become ready');
  }
}

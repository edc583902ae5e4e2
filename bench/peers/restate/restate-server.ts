import { type ChildProcess, fork, spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../../src/embedded/free-port.js';
import { processTimeMs } from '../../measure/processor-time.js';

const READY_TIMEOUT_MS = 60_000;
const POLL_MS = 100;

/** Completed without a failure. */
const DONE =
  "SELECT count(*) AS count FROM sys_invocation WHERE status = 'completed' AND completion_result = 'success'";

/** The server and the service that it calls, each a process of its own; they end with this one. */
export class RestateServer {
  private constructor(
    private readonly server: ChildProcess,
    private readonly service: ChildProcess,
    private readonly admin: string,
    /** Where callers call, an URL. */
    readonly ingress: string,
  ) {}

  /** @param folder where the server stores what it has to */
  static async start(packages: string, folder: string): Promise<RestateServer> {
    const [ingress, admin, port] = [await address(), await address(), await freePort()];
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('RESTATE_'));
    const environment = Object.fromEntries(inherited);
    const server = spawn(binaryOf(packages), ['--no-logo', '--base-dir', folder, '--listen-mode', 'tcp'], {
      env: { ...environment, ...serverSettings(await address(), ingress, admin) },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    server.once('error', () => undefined);
    const main = fileURLToPath(new URL('restate-service.js', import.meta.url));
    // At its default the SDK writes two lines for each call.
    const env = { ...environment, RESTATE_LOGGING: 'ERROR' };
    const service = fork(main, [packages, String(port)], { env });
    process.once('exit', () => {
      server.kill('SIGKILL');
      service.kill('SIGKILL');
    });
    const restate = new RestateServer(server, service, `http://${admin}`, `http://${ingress}`);
    await restate.untilReady();
    await restate.register(`http://127.0.0.1:${port}`);
    return restate;
  }

  /** How many calls are stored as completed. */
  async countDone(): Promise<number> {
    const { rows } = (await this.post('/query', { query: DONE })) as { rows: { count: number }[] };
    return Number(rows[0]?.count);
  }

  processorMs(): Readonly<Record<string, number | undefined>> {
    return {
      'restate-server': processTimeMs(this.server.pid ?? 0),
      'its service': processTimeMs(this.service.pid ?? 0),
    };
  }

  private async untilReady(): Promise<void> {
    const serviceReady = new Promise<void>((resolve, reject) => {
      this.service.once('message', () => resolve());
      this.service.once('exit', () => reject(new Error('the service of Restate ended')));
    });
    await serviceReady;
    const until = Date.now() + READY_TIMEOUT_MS;
    while (Date.now() < until && this.server.exitCode === null) {
      const answers = await Promise.all([
        isOk(`${this.admin}/health`),
        isOk(`${this.ingress}/restate/health`),
      ]);
      if (answers.every(Boolean)) return;
      await sleep(POLL_MS);
    }
    throw new Error('the server of Restate did not become ready');
  }

  private async register(uri: string): Promise<void> {
    await this.post('/deployments', { uri });
  }

  private async post(path_: string, body: object): Promise<unknown> {
    const response = await fetch(`${this.admin}${path_}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`Restate answered ${path_} with ${response.status}`);
    return response.json();
  }
}

/** What differs from a server as anybody starts it: places, and what it says. */
function serverSettings(node: string, ingress: string, admin: string): Record<string, string> {
  return {
    RESTATE_BIND_ADDRESS: node,
    RESTATE_INGRESS__BIND_ADDRESS: ingress,
    RESTATE_ADMIN__BIND_ADDRESS: admin,
    // It looks for a cluster manager and says at length that there is none.
    RESTATE_LOG_FILTER: 'error,octocrab=off',
    RESTATE_LOG_DISABLE_ANSI_CODES: 'true',
    RESTATE_DISABLE_TELEMETRY: 'true',
  };
}

async function address(): Promise<string> {
  return `127.0.0.1:${await freePort()}`;
}

function isOk(url: string): Promise<boolean> {
  return fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );
}

/** The binary itself: the package's own script would be one more process around it. */
function binaryOf(packages: string): string {
  const name = `@restatedev/restate-server-${process.platform}-${process.arch}`;
  const manifest = createRequire(path.join(packages, 'package.json')).resolve(`${name}/package.json`);
  return path.join(path.dirname(manifest), 'bin', 'restate-server');
}

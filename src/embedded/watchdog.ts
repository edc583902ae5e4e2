import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { postmasterPidFile } from './postmaster-pid.js';
import { postgresEnvironment } from './run-program.js';

/** A small process that outlives us for as long as it takes to stop the server. */
export interface Watchdog {
  /** Tells it which server to stop if we die. */
  watch(pid: number, data: string): void;
  /** The server has ended; there is nothing to stop. */
  forget(): void;
  /** Ends it. */
  release(): Promise<void>;
}

/**
 * Starts the process that notices our death by the end of its standard input, however we die, and then stops
 * the server and removes folders. Without it SIGKILL leaves a server behind until the next start with the same
 * data, and a test's data is never started again.
 *
 * @param folders - removed when we die
 */
export function startWatchdog(folders: readonly string[], log: (message: string) => void): Watchdog {
  const program = fileURLToPath(new URL('./watchdog-process.mjs', import.meta.url));
  const child = spawn(process.execPath, [program, ...folders], {
    // A session of its own: what is typed at a terminal, Ctrl-C above all, does not reach it.
    detached: true,
    cwd: '/',
    env: postgresEnvironment(),
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  child.on('error', () => log('the watchdog of the embedded Postgres could not be started'));
  child.stdin.on('error', () => log('the watchdog of the embedded Postgres has ended'));
  // Neither may keep us alive: that we end is what it waits for.
  child.unref();
  (child.stdin as Socket).unref();
  const tell = (order: object): void => {
    if (child.stdin.writable) child.stdin.write(`${JSON.stringify(order)}\n`);
  };
  return {
    watch: (pid, data) => tell({ watch: { pid, pidFile: postmasterPidFile(data) } }),
    forget: () => tell({ forget: true }),
    release: () => {
      tell({ release: true });
      return ended(child);
    },
  };
}

function ended(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null)
    return Promise.resolve();
  return new Promise((resolve) => {
    child.ref();
    child.once('exit', () => resolve());
    child.stdin?.end();
  });
}

import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { endPostmaster } from './end-postmaster.js';
import { readPostmasterPid } from './postmaster-pid.js';
import { spawnOptions } from './run-program.js';
import type { UnixUser } from './unix-user.js';

/** A server of ours, starting or started. */
export interface Postmaster {
  readonly pid: number;
  /** Settled when the process has ended, for whatever reason. Never rejects. */
  readonly exited: Promise<void>;
  /** If it has ended already. */
  hasEnded(): boolean;
  /** The last lines that it printed. */
  output(): string;
  /** Stops it (end-postmaster.ts). */
  stop(): Promise<void>;
}

/** pg_ctl's own patience; recovery after a crash is inside of it. */
const readyTimeoutMs = 60_000;

const pollMs = 10;

/** What an error shows: enough for Postgres' reason, not its whole life. */
const keptLines = 20;

/**
 * Starts `postgres`.
 *
 * @param args - see server-settings.ts
 * @param log - gets each line that the server prints
 * @returns undefined if the system did not let us start it
 */
export async function spawnPostmaster(
  program: string,
  args: readonly string[],
  user: UnixUser | undefined,
  log: (message: string) => void,
): Promise<Postmaster | undefined> {
  const child = spawn(program, args, {
    ...spawnOptions(user),
    // A session of its own: Ctrl-C at the terminal is for us, and we stop the server when we are done with it.
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  if (!(await hasStarted(child)) || child.pid === undefined) return undefined;

  const kept: string[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => {
    kept.push(line);
    if (kept.length > keptLines) kept.shift();
    log(line);
  });
  // `close` comes after the last line, `exit` may come before it.
  const exited = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const pid = child.pid;

  // A server alone is no reason for this process to go on; the watchdog stops it then.
  const stderr = child.stderr as Socket;
  child.unref();
  stderr.unref();
  return {
    pid,
    exited,
    hasEnded,
    output: () => kept.join('\n'),
    stop: async () => {
      child.ref();
      stderr.ref();
      await endPostmaster(pid, hasEnded);
    },
  };
}

/**
 * Waits until a server accepts connections.
 *
 * @returns false if it ended, or is not ready when the time is up
 */
export async function becomesReady(server: Postmaster, data: string): Promise<boolean> {
  for (
    const until = Date.now() + readyTimeoutMs;
    Date.now() < until && !server.hasEnded();
    await sleep(pollMs)
  ) {
    const lock = readPostmasterPid(data);
    if (lock?.pid === server.pid && lock.status === 'ready') return true;
  }
  return false;
}

function hasStarted(child: ChildProcess): Promise<boolean> {
  return new Promise((resolve) => {
    child.once('spawn', () => resolve(true));
    child.once('error', () => resolve(false));
  });
}

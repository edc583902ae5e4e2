import { setTimeout as sleep } from 'node:timers/promises';
import { EmbeddedPostgresError } from './embedded-error.js';

/** A signal, and how long to wait for what it does. */
export interface StopSignal {
  readonly signal: NodeJS.Signals;
  readonly waitMs: number;
}

/**
 * Postgres' own ways to stop, from the gentlest that does not wait for clients to the last. Fast shutdown ends
 * transactions and writes a checkpoint; immediate leaves that to the recovery of the next start.
 */
const gentlestFirst: readonly StopSignal[] = [
  { signal: 'SIGINT', waitMs: 15_000 },
  { signal: 'SIGQUIT', waitMs: 5_000 },
  { signal: 'SIGKILL', waitMs: 5_000 },
];

/** A fast shutdown of an idle server takes a few tens of milliseconds. */
const pollMs = 10;

/**
 * Stops a server and waits until it is gone: fast, after a bounded wait immediate, then killed.
 *
 * @param pid - of the postmaster
 * @param isGone - asked until it is true
 * @param signals - sent one after the other
 * @throws EmbeddedPostgresError STOP_FAILED
 */
export async function endPostmaster(
  pid: number,
  isGone: () => boolean,
  signals: readonly StopSignal[] = gentlestFirst,
): Promise<void> {
  for (const { signal, waitMs } of signals) {
    if (isGone()) return;
    try {
      process.kill(pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ESRCH') return;
      throw new EmbeddedPostgresError('STOP_FAILED', `Process ${pid} is not ours to stop.`);
    }
    for (const until = Date.now() + waitMs; Date.now() < until; await sleep(pollMs)) {
      if (isGone()) return;
    }
  }
  throw new EmbeddedPostgresError('STOP_FAILED', `The embedded Postgres (process ${pid}) did not end.`);
}

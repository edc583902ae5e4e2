import { readdirSync, readFileSync } from 'node:fs';

/** USER_HZ is 100 on every Linux. */
const MS_PER_TICK = 10;

interface Times {
  readonly parent: number;
  readonly ownMs: number;
  /** Of children that have ended and were waited for. */
  readonly endedMs: number;
}

/**
 * Processor time that a process has used so far, all of its threads, in milliseconds.
 *
 * @returns undefined where it cannot be read: it has ended, or this is no Linux
 */
export function processTimeMs(pid: number): number | undefined {
  return timesOf(pid)?.ownMs;
}

/** The same of a process with its children, those that have ended included: of a Postgres, the whole server. */
export function familyTimeMs(pid: number): number | undefined {
  const own = timesOf(pid);
  if (!own) return undefined;
  let sum = own.ownMs + own.endedMs;
  for (const name of readdirSync('/proc')) {
    const child = /^\d+$/.test(name) ? timesOf(Number(name)) : undefined;
    if (child?.parent === pid) sum += child.ownMs;
  }
  return sum;
}

/** proc_pid_stat(5). */
function timesOf(pid: number): Times | undefined {
  let text;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return undefined;
  }
  // The second field is a name in brackets, which may hold anything; the state, the third, comes behind the last of them.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = (field: number): number => Number(fields[field - 3]) * MS_PER_TICK;
  return { parent: Number(fields[4 - 3]), ownMs: ticks(14) + ticks(15), endedMs: ticks(16) + ticks(17) };
}

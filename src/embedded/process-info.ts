import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

/** A living process, as the system tells it. */
export interface ProcessInfo {
  readonly parentPid: number;
  /** Its arguments, joined by spaces. */
  readonly command: string;
}

/** `ps` answers at once; a system that is too busy for that is not asked again. */
const psTimeoutMs = 5_000;

/**
 * What a pid is now. One that has ended and only waits to be reaped counts as gone: nothing of it is left but
 * its number, and in a container without an init process it waits for ever.
 *
 * @returns undefined if it is gone
 */
export function processInfo(pid: number): ProcessInfo | undefined {
  return existsSync('/proc/self/stat') ? fromProc(pid) : fromPs(pid);
}

function fromProc(pid: number): ProcessInfo | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is the program's name in parentheses, and may itself hold spaces and parentheses.
    const [state, parentPid] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === 'Z' || state === 'X') return undefined;
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').join(' ').trim();
    return { parentPid: Number(parentPid), command };
  } catch {
    return undefined;
  }
}

function fromPs(pid: number): ProcessInfo | undefined {
  try {
    const line = execFileSync('ps', ['-ww', '-o', 'state=,ppid=,command=', '-p', String(pid)], {
      encoding: 'utf8',
      timeout: psTimeoutMs,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const [, state = '', parentPid, command = ''] = /^\s*(\S+)\s+(\d+)\s+(.*)$/m.exec(line) ?? [];
    return state === '' || state.startsWith('Z') ? undefined : { parentPid: Number(parentPid), command };
  } catch {
    return undefined;
  }
}

import { readFileSync } from 'node:fs';
import path from 'node:path';

/** What a server writes into `postmaster.pid` (miscadmin.h, LOCK_FILE_LINE_*). */
export interface PostmasterPid {
  readonly pid: number;
  /** When the server started, in seconds since the epoch. */
  readonly startedAtSeconds: number;
  /** `starting`, `ready`, `stopping`; empty before the server has come that far. */
  readonly status: string;
}

/** The path of the file in a data folder. */
export const postmasterPidFile = (data: string): string => path.join(data, 'postmaster.pid');

/** Reads the file, or undefined if there is none, or none that names a process. */
export function readPostmasterPid(data: string): PostmasterPid | undefined {
  let text: string;
  try {
    text = readFileSync(postmasterPidFile(data), 'utf8');
  } catch {
    return undefined;
  }
  const lines = text.split('\n').map((line) => line.trim());
  const pid = Number(lines[0]);
  if (!Number.isSafeInteger(pid) || pid <= 1) return undefined;
  return { pid, startedAtSeconds: Number(lines[2] ?? 0), status: lines[7] ?? '' };
}

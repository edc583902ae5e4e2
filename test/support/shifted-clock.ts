import { pathToFileURL } from 'node:url';

const PRELOAD = pathToFileURL('test/support/shifted-clock.mjs').href;

/**
 * The environment of a process whose wall clock is off, and of all that it starts.
 *
 * @param shiftMs how far ahead it is, in milliseconds
 * @param only a word among the arguments of those that it is for; all unless given
 */
export function shiftedClock(shiftMs: number, only?: string): Record<string, string> {
  return {
    NODE_OPTIONS: `--import=${PRELOAD}`,
    CLOCK_SHIFT_MS: String(shiftMs),
    ...(only === undefined ? {} : { CLOCK_SHIFT_ONLY: only }),
  };
}

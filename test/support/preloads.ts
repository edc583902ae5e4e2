import { pathToFileURL } from 'node:url';

/** The environment of a process that loads modules of `test/support` first, and of all that it starts. */
export type Preload = Readonly<Record<string, string>>;

/**
 * A process whose wall clock is off.
 *
 * @param shiftMs how far ahead it is, in milliseconds
 * @param only a word among the arguments of those that it is for; all unless given
 */
export function shiftedClock(shiftMs: number, only?: string): Preload {
  return {
    NODE_OPTIONS: importing('shifted-clock.mjs'),
    CLOCK_SHIFT_MS: String(shiftMs),
    ...(only === undefined ? {} : { CLOCK_SHIFT_ONLY: only }),
  };
}

/**
 * A process that waits before it begins.
 *
 * @param naming a text in the arguments of those that wait
 * @param file they wait for as long as it exists
 */
export function heldProcess(naming: string, file: string): Preload {
  return { NODE_OPTIONS: importing('held-process.mjs'), HELD_NAMING: naming, HELD_WHILE: file };
}

/** Several at once. */
export function preloads(...each: readonly Preload[]): Preload {
  return {
    ...Object.assign({}, ...each),
    NODE_OPTIONS: each.map(({ NODE_OPTIONS: options }) => options).join(' '),
  };
}

function importing(module: string): string {
  return `--import=${pathToFileURL(`test/support/${module}`).href}`;
}

import { constants } from 'node:os';

/** Signals that ask a process to end. */
export type StopSignal = 'SIGHUP' | 'SIGINT' | 'SIGTERM';

/**
 * A second signal counts from so long after the first on, in milliseconds. One Ctrl-C under npm comes twice, from the terminal,
 * which sends it to everybody in front of it, and from npm, which passes it on: a few milliseconds apart, more where the machine
 * is busy. Nobody presses it again, on purpose, sooner.
 */
export const SECOND_SIGNAL_AFTER_MS = 1_000;

/** What a shell says of a program that a signal ended: this and the signal's number. */
const SHELL_SIGNAL_BASE = 128;

/** The exit code of a process that ends because of a signal. */
export function exitCodeOf(signal: StopSignal): number {
  return SHELL_SIGNAL_BASE + constants.signals[signal];
}

/** What somebody does who is asked to end. */
export interface StopHandlers<Signal extends StopSignal> {
  readonly signals: readonly Signal[];
  /** The second one: ends the process, now. */
  readonly endAtOnce: (signal: Signal) => void;
  /** Told once a second signal would count. */
  readonly onSecondCounts?: () => void;
}

/** A process that can be asked to end. */
export interface StopRequest<Signal extends StopSignal> {
  /** Resolves with the first signal. */
  readonly asked: Promise<Signal>;
  /** From now on signals do what they do without us. */
  release(): void;
}

/** Listens for the first signal that asks this process to end, and for a second one that is meant. */
export function awaitStop<Signal extends StopSignal>(
  { signals, endAtOnce, onSecondCounts }: StopHandlers<Signal>,
  emitter: Pick<NodeJS.Process, 'on' | 'off'> = process,
): StopRequest<Signal> {
  let [wasAsked, secondCounts] = [false, false];
  let timer: NodeJS.Timeout | undefined;
  let resolveAsked: (signal: Signal) => void = () => {};
  const asked = new Promise<Signal>((resolve) => {
    resolveAsked = resolve;
  });
  const onSignal = (signal: NodeJS.Signals): void => {
    if (secondCounts) endAtOnce(signal as Signal);
    if (wasAsked) return;
    wasAsked = true;
    timer = setTimeout(() => {
      secondCounts = true;
      onSecondCounts?.();
    }, SECOND_SIGNAL_AFTER_MS);
    // What is still to be done keeps the process; this does not.
    timer.unref();
    resolveAsked(signal as Signal);
  };
  for (const signal of signals) emitter.on(signal, onSignal);
  return {
    asked,
    release: () => {
      clearTimeout(timer);
      for (const signal of signals) emitter.off(signal, onSignal);
    },
  };
}

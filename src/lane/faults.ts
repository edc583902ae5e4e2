import type { Seam } from '../store/batch-transaction.js';

/** What a fault does: ends the process as SIGKILL would, fails the batch, or holds it up. */
export type FaultAction = 'crash' | 'error' | 'delay';

/** A fault ordered by `SURETY_FAULT`. */
export interface FaultOrder {
  readonly seam: Seam;
  readonly action: FaultAction;
  /** Only batches that hold a command of this kind; undefined: any. */
  readonly kind?: string;
}

/** How long `delay` holds a batch up, in milliseconds: longer than it takes to kill a process, shorter than the timeouts. */
const DELAY_MS = 3_000;

const PATTERN =
  /^(after-gather|after-decide|in-commit-[1-9]\d?|before-commit|after-commit):(crash|error|delay)(?:@([a-z_.]+))?$/;

/** Thrown by the fault `error`. */
export class InjectedFault extends Error {
  constructor(seam: Seam) {
    super(`injected fault ${seam}`);
    this.name = 'InjectedFault';
  }
}

/** `<seam>:<crash|error|delay>`, optionally with `@<command kind>`. Undefined where it is not of that form. */
export function parseFault(text: string): FaultOrder | undefined {
  const match = PATTERN.exec(text);
  if (!match) return undefined;
  const [, seam, action, kind] = match;
  return { seam: seam as Seam, action: action as FaultAction, ...(kind === undefined ? {} : { kind }) };
}

/** Strikes once per process: the first batch that comes to the seam. */
export class Faults {
  private armed: FaultOrder | undefined;

  constructor(order: FaultOrder | undefined) {
    this.armed = order;
  }

  /** Undefined where nothing is ordered for this seam, so that the hot path does not wait. */
  hit(seam: Seam, kinds: readonly string[]): Promise<void> | undefined {
    const order = this.armed;
    if (order?.seam !== seam) return undefined;
    if (order.kind !== undefined && !kinds.includes(order.kind)) return undefined;
    this.armed = undefined;
    return strike(order);
  }
}

async function strike(order: FaultOrder): Promise<void> {
  // On its own turn of the loop: whoever is to be cut off has its bytes on the wire.
  await new Promise((resolve) => setImmediate(resolve));
  if (order.action === 'crash') process.kill(process.pid, 'SIGKILL');
  if (order.action === 'error') throw new InjectedFault(order.seam);
  await new Promise((resolve) => setTimeout(resolve, DELAY_MS));
}

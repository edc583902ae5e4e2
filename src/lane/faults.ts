import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Seam } from '../store/batch-transaction.js';

/** What a fault does: ends the process as SIGKILL would, fails the batch, holds it up for a while, or for as long as wanted. */
export type FaultAction = 'crash' | 'error' | 'delay' | 'hold';

/** A fault ordered by `SURETY_FAULT`. */
export interface FaultOrder {
  readonly seam: Seam;
  readonly action: FaultAction;
  /** Only batches that hold a command of this kind; undefined: any. */
  readonly kind?: string;
  /** Of `hold`: the batch is held while this file is there; undefined: for as long as the process lives. */
  readonly whileFile?: string;
}

/** How long `delay` holds a batch up, in milliseconds: longer than it takes to kill a process, shorter than the timeouts. */
const DELAY_MS = 3_000;
/** How often `hold` looks whether its file is still there, in milliseconds. */
const HOLD_LOOK_MS = 20;

const PATTERN =
  /^(after-gather|after-decide|in-commit-[1-9]\d?|before-commit|after-commit):(crash|error|delay|hold)(?:@([a-z_.]+))?(?:=(.+))?$/;

/** Thrown by the fault `error`. */
export class InjectedFault extends Error {
  constructor(seam: Seam) {
    super(`injected fault ${seam}`);
    this.name = 'InjectedFault';
  }
}

/**
 * `<seam>:<crash|error|delay|hold>`, optionally with `@<command kind>`, and for `hold` with `=<file>`. Undefined where it is
 * not of that form. The store ends a transaction that is held for longer than its connection's timeouts say: a test that
 * holds one gives a URL that sets them.
 */
export function parseFault(text: string): FaultOrder | undefined {
  const match = PATTERN.exec(text);
  if (!match) return undefined;
  const [, seam, action, kind, whileFile] = match;
  if (whileFile !== undefined && action !== 'hold') return undefined;
  return {
    seam: seam as Seam,
    action: action as FaultAction,
    ...(kind === undefined ? {} : { kind }),
    ...(whileFile === undefined ? {} : { whileFile }),
  };
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
  if (order.action === 'delay') await sleep(DELAY_MS);
  if (order.action === 'hold') await heldWhile(order.whileFile);
}

async function heldWhile(file: string | undefined): Promise<void> {
  const isHeld = (): boolean => file === undefined || existsSync(file);
  while (isHeld()) await sleep(HOLD_LOOK_MS);
}

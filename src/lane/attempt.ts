import type { Outcome } from '../ledger/decision.js';
import type { RowChange, WorkingSet } from '../ledger/working-set.js';
import { StoreError } from '../store/store-error.js';
import type { Pending } from './lane.js';

/** A command and what it is to be answered, once the batch's COMMIT is known. */
export interface Verdict {
  readonly item: Pending;
  readonly outcome: Outcome<unknown>;
}

/** What one try of a batch came to. */
export type Attempt =
  | { readonly kind: 'done'; readonly verdicts: Verdict[]; readonly healthy: boolean }
  /** Nothing was done; trying again may help. */
  | { readonly kind: 'again' }
  /** Nothing was done, for want of a connection. */
  | { readonly kind: 'away' }
  /** Nothing was done, and trying again will not help: a bug, or a row that the database refuses. */
  | { readonly kind: 'permanent'; readonly error: unknown };

/** COMMIT was sent and got no answer: what the batch would answer if it took effect. */
export interface Unanswered {
  readonly kind: 'unanswered';
  /** The lane's number of the batch. */
  readonly number: bigint;
  readonly verdicts: Verdict[];
  readonly set: WorkingSet;
  /** What it would have changed. */
  readonly rows: readonly RowChange[];
}

/** The batch has its answers; `healthy`: its connection can carry another. */
export function done(verdicts: Verdict[], healthy: boolean): Attempt {
  return { kind: 'done', verdicts, healthy };
}

/**
 * What an error before COMMIT was sent means for the batch.
 *
 * @param transient what a failure that may pass is: one of the try, or of reaching the store at all
 */
export function failedAttempt(error: unknown, transient: 'again' | 'away'): Attempt {
  const passes = error instanceof StoreError ? error.transient : isInjected(error);
  return passes ? { kind: transient } : { kind: 'permanent', error };
}

function isInjected(error: unknown): boolean {
  return error instanceof Error && error.name === 'InjectedFault';
}

/** The fault between COMMIT and reply: what it hits is committed, but nobody was told. */
export function isAfterCommit(error: unknown): boolean {
  return isInjected(error) && (error as Error).message.endsWith('after-commit');
}

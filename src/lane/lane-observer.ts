import type { AdmittedCalls } from '../ledger/admission/admit-call.js';
import type { Outcome } from '../ledger/decision.js';
import type { RowChange } from '../ledger/working-set.js';

/** What a batch changed. */
export interface Committed {
  readonly domainId: string;
  readonly rows: readonly RowChange[];
  /** What its commands counted for. */
  readonly admitted: AdmittedCalls;
}

/** What the lanes tell whoever keeps metrics and the log; none of it may throw. */
export interface LaneObserver {
  /** A command's batch begins. @param ms since it was queued */
  commandTaken(ms: number): void;
  /** @param ms from taking the batch to releasing its replies */
  batchDone(size: number, ms: number): void;
  /** A batch has its domain's lock. @param ms since it asked for it */
  headLocked(ms: number): void;
  /** The parts of one successful attempt, in milliseconds. */
  phases(gatherMs: number, decideMs: number, commitMs: number): void;
  /** @param ms from queueing to release */
  commandDone(kind: string, ms: number, outcome: Outcome<unknown>): void;
  /** What a batch changed, once its COMMIT is known to have taken effect. */
  committed(batch: Committed): void;
  retried(): void;
  commitUnknown(): void;
  regressed(domainId: string): void;
}

/** Observes nothing. */
export const SILENT_OBSERVER: LaneObserver = {
  commandTaken: () => undefined,
  batchDone: () => undefined,
  headLocked: () => undefined,
  phases: () => undefined,
  commandDone: () => undefined,
  committed: () => undefined,
  retried: () => undefined,
  commitUnknown: () => undefined,
  regressed: () => undefined,
};

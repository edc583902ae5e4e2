import type { CommandBase, Decision, Outcome } from '../ledger/decision.js';

/** How a call wants to be run. */
export interface SubmitOptions {
  /** `performance.now()` value after which the command is no longer begun; checked before its batch starts, never after. */
  readonly deadline?: number;
}

/** Where every mutation goes: the lane of its domain (architecture.md). */
export interface CommandRunner {
  /**
   * Runs a command and answers when its batch's COMMIT is known. Refusals are answers. A missing domain, a full queue, a
   * store that is away or an outcome that is not known yet are refusals too (`BACKPRESSURE`, `STORE_UNAVAILABLE`,
   * `OUTCOME_UNKNOWN`, `STORE_REGRESSED`, `DEADLINE_PASSED`, `DRAINING`). Rejects only on a bug.
   */
  submit<Command extends CommandBase, Reply>(
    decision: Decision<Command, Reply>,
    command: Command,
    options?: SubmitOptions,
  ): Promise<Outcome<Reply>>;
}

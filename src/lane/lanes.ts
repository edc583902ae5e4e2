import type { CommandBase, Decision, Outcome } from '../ledger/decision.js';
import { refusal } from '../ledger/refusal.js';
import { Lane, type LaneParts, type Pending } from './lane.js';

/** How a call wants to be run. */
export interface SubmitOptions {
  /** Value of the lanes' clock (`performance.now()`) after which the command is no longer begun; checked before its batch starts, never after. */
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

/** The lanes of one process. */
export class Lanes implements CommandRunner {
  private readonly lanes = new Map<string, Lane>();
  private draining = false;
  private made = 0;
  private readonly now: () => number;

  constructor(private readonly parts: LaneParts) {
    this.now = parts.monotonicMs ?? (() => performance.now());
  }

  submit<Command extends CommandBase, Reply>(
    decision: Decision<Command, Reply>,
    command: Command,
    options: SubmitOptions = {},
  ): Promise<Outcome<Reply>> {
    if (this.draining) {
      const draining = refusal('DRAINING', 'The service is shutting down.', { retryAfter: 1_000_000n });
      return Promise.resolve({ ok: false, refusal: draining, recorded: false });
    }
    return new Promise<Outcome<Reply>>((resolve, reject) => {
      const item: Pending = {
        decision: decision as unknown as Pending['decision'],
        command,
        deadline: options.deadline,
        enqueuedAt: this.now(),
        resolve: resolve as Pending['resolve'],
        reject,
      };
      this.laneOf(command.domainId).submit(item);
    });
  }

  /** How many commands wait, over all domains. */
  get queued(): number {
    let queued = 0;
    for (const lane of this.lanes.values()) queued += lane.queueLength;
    return queued;
  }

  /** Takes nothing new and waits for what is under way. */
  async drain(): Promise<void> {
    this.draining = true;
    await Promise.all([...this.lanes.values()].map((lane) => lane.whenIdle()));
  }

  private laneOf(domainId: string): Lane {
    let lane = this.lanes.get(domainId);
    if (!lane) {
      // Its own name each time: batch numbers begin anew, and must never meet those of an earlier lane.
      this.made += 1;
      lane = new Lane(domainId, { ...this.parts, laneId: `${this.parts.laneId}/${this.made}` }, (absent) => {
        if (this.lanes.get(domainId) === absent) this.lanes.delete(domainId);
      });
      this.lanes.set(domainId, lane);
    }
    return lane;
  }
}

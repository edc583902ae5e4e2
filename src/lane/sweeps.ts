import { expireProposal } from '../ledger/action/expire-proposal.js';
import { reapLease } from '../ledger/action/reap-lease.js';
import type { CommandBase, Decision } from '../ledger/decision.js';
import { expireEffect } from '../ledger/effect/expire-effect.js';
import { loseExecutor } from '../ledger/effect/lose-executor.js';
import type { Reader } from '../store/reader.js';
import { EndedGrantWalk } from './ended-grants.js';
import type { CommandRunner } from './lanes.js';

/** So many candidates per kind and domain at once: the queue is shared with the callers. */
const CANDIDATES_PER_PAGE = 200n;
/**
 * So many pages per kind in one round: seconds of work at most, in which the other kinds wait. Where more is due, or comes as fast
 * as it is moved, the next round goes on with it.
 */
export const PAGES_PER_ROUND = 10;

/** What is found outside: all that a command of the sweep names. */
type Candidate<Command extends CommandBase> = Omit<Command, 'commandId'>;

/** What one round did. */
export interface SweepRound {
  readonly changed: number;
}

/** What became of one page of candidates. */
interface SweptPage {
  readonly moved: number;
  readonly failures: readonly unknown[];
  /** Whether it is worth asking for another one. */
  readonly more: boolean;
}

/** What became of candidates. */
interface Swept {
  readonly moved: number;
  readonly failures: readonly unknown[];
  /** The domain of each that is where it was: its row is corrupt, say, or another replica was first. */
  readonly left: readonly string[];
}

/** What the sweeps need. */
export interface SweepParts {
  readonly commands: CommandRunner;
  readonly reader: Reader;
  readonly newId: (prefix: string) => string;
  /** Housekeeping that decides nothing, by a name: expired nonces and the like. Each is done in every round. */
  readonly housekeeping: Readonly<Record<string, () => Promise<unknown>>>;
  /** Told of each sweep that failed in a round, by its name; the next round tries again. */
  readonly onError: (error: unknown, sweep: string) => void;
}

/**
 * Moves what time alone moves: PREPARED past its start, executions that were lost (effects.md), proposals that nobody approved,
 * leases that ran out (actions.md). Candidates are found outside of the lanes and judged again inside, as ordinary commands; any
 * number of replicas may sweep at once.
 */
export class Sweeps {
  private timer: NodeJS.Timeout | undefined;
  private round: Promise<SweepRound> | undefined;
  private stopped = false;
  private readonly walk: EndedGrantWalk;

  constructor(private readonly parts: SweepParts) {
    this.walk = new EndedGrantWalk(parts.reader);
  }

  /** Sweeps until `stop`, with this pause between rounds, in milliseconds. */
  start(pauseMs: number): void {
    const next = (): void => {
      if (this.stopped) return;
      this.timer = setTimeout(() => {
        // Each failure was told already.
        this.sweepOnce()
          .catch(() => undefined)
          .finally(next);
      }, pauseMs);
    };
    next();
  }

  /**
   * Resolves after a whole round that began after the call.
   *
   * @throws the first failure of the round, once all of it has been done
   */
  async sweepOnce(): Promise<SweepRound> {
    while (this.round) await this.round.catch(() => undefined);
    const round = this.sweep();
    this.round = round;
    try {
      return await round;
    } finally {
      this.round = undefined;
    }
  }

  /** Ends the sweeps; a round under way is waited for. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.round?.catch(() => undefined);
  }

  /** Each sweep on its own: one that fails, or takes too long, holds up no other. */
  private async sweep(): Promise<SweepRound> {
    const failures: unknown[] = [];
    let changed = 0;
    const attempt = async (name: string, work: (name: string) => Promise<number>): Promise<void> => {
      try {
        changed += await work(name);
      } catch (error) {
        failures.push(error);
        this.parts.onError(error, name);
      }
    };
    await attempt('late_prepared_effects', (query) => this.run(query, expireEffect));
    await attempt('ended_grants', () => this.endedGrants());
    await attempt('lost_executions', (query) => this.run(query, loseExecutor));
    await attempt('expired_proposals', (query) => this.run(query, expireProposal));
    await attempt('expired_action_leases', (query) => this.run(query, reapLease));
    await attempt('unobservable_actions', (query) => this.run(query, reapLease));
    for (const [name, keep] of Object.entries(this.parts.housekeeping)) {
      await attempt(name, async () => {
        await keep();
        return 0;
      });
    }
    if (failures.length > 0) throw failures[0];
    return { changed };
  }

  private run<Command extends CommandBase, Reply extends { readonly changed: boolean }>(
    query: string,
    decision: Decision<Command, Reply>,
  ): Promise<number> {
    // What cannot be moved stays first in its domain: the next page begins behind it, else nothing else would have its turn.
    let passed = 0;
    return this.pageByPage(async () => {
      const values = [CANDIDATES_PER_PAGE, BigInt(passed)];
      const candidates = await this.parts.reader.query<Candidate<Command>>(query, values);
      const { moved, failures, left } = await this.submitAll(candidates, decision);
      passed += mostOfOne(left);
      const full = mostOfOne(candidates.map(({ domainId }) => domainId)) >= Number(CANDIDATES_PER_PAGE);
      return { moved, failures, more: moved > 0 || full };
    });
  }

  /** One page in a round, and further ones as long as they hold something: a revoked grant's effects lie together. */
  private endedGrants(): Promise<number> {
    return this.pageByPage(async () => {
      const { candidates, last } = await this.walk.next();
      const pages: Swept[] = [];
      for (let at = 0; at < candidates.length; at += Number(CANDIDATES_PER_PAGE)) {
        pages.push(
          await this.submitAll(candidates.slice(at, at + Number(CANDIDATES_PER_PAGE)), expireEffect),
        );
      }
      const moved = pages.reduce((sum, page) => sum + page.moved, 0);
      return { moved, failures: pages.flatMap(({ failures }) => failures), more: moved > 0 && !last };
    });
  }

  /**
   * Goes on as long as it is worth it, or until the round's share is done. What is refused now is tried in the next round.
   *
   * @throws the first failure of a candidate, once all the others have been tried
   */
  private async pageByPage(next: () => Promise<SweptPage>): Promise<number> {
    const failures: unknown[] = [];
    let changed = 0;
    for (let pages = 1; ; pages += 1) {
      const page = await next();
      failures.push(...page.failures);
      changed += page.moved;
      if (!page.more || pages === PAGES_PER_ROUND || this.stopped) break;
    }
    if (failures.length > 0) throw failures[0];
    return changed;
  }

  /** All at once: whoever has no answer, or a bad one, keeps no other. */
  private async submitAll<Command extends CommandBase, Reply extends { readonly changed: boolean }>(
    candidates: readonly Candidate<Command>[],
    decision: Decision<Command, Reply>,
  ): Promise<Swept> {
    const outcomes = await Promise.allSettled(
      candidates.map(async (candidate) => {
        const command = { ...candidate, commandId: this.parts.newId('sweep') } as Command;
        const outcome = await this.parts.commands.submit(decision, command);
        return outcome.ok && outcome.reply.changed;
      }),
    );
    const left = candidates.filter((_, i) => {
      const outcome = outcomes[i];
      return outcome?.status !== 'fulfilled' || !outcome.value;
    });
    return {
      moved: candidates.length - left.length,
      failures: outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : [])),
      left: left.map(({ domainId }) => domainId),
    };
  }
}

/** How often the most frequent one is named. */
function mostOfOne(domainIds: readonly string[]): number {
  const counts = new Map<string, number>();
  for (const domainId of domainIds) counts.set(domainId, (counts.get(domainId) ?? 0) + 1);
  return Math.max(0, ...counts.values());
}

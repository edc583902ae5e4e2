import { admittedBetween } from '../ledger/admission/admit-call.js';
import type { AuditCodec } from '../ledger/audit/records.js';
import type { CommandBase, Decision, Outcome } from '../ledger/decision.js';
import { type Refusal, refusal } from '../ledger/refusal.js';
import { runDecision } from '../ledger/run-decision.js';
import type { RowChange, WorkingSet } from '../ledger/working-set.js';
import {
  commitBatch,
  didCommit,
  gatherBatch,
  lockDomain,
  type SeenHead,
} from '../store/batch-transaction.js';
import type { PipelineConnection } from '../store/connection.js';
import type { ConnectionPool } from '../store/connection-pool.js';
import { StoreError } from '../store/store-error.js';
import { laneStatement, writeStatements } from '../store/write-statements.js';
import {
  type Attempt,
  done,
  failedAttempt,
  isAfterCommit,
  type Unanswered,
  type Verdict,
} from './attempt.js';
import type { Faults } from './faults.js';
import type { LaneObserver } from './lane-observer.js';
import { outcomeUnknown, queueFull, refused, unavailable } from './lane-refusals.js';

/** A command in the queue, with the caller that waits for it. */
export interface Pending {
  readonly decision: Decision<CommandBase, unknown>;
  readonly command: CommandBase;
  readonly deadline: number | undefined;
  readonly enqueuedAt: number;
  readonly resolve: (outcome: Outcome<unknown>) => void;
  readonly reject: (error: unknown) => void;
}

/** What a lane is made of. */
export interface LaneParts {
  readonly pool: ConnectionPool;
  readonly codec: AuditCodec;
  readonly faults: Faults;
  readonly observer: LaneObserver;
  /** Names this process's lanes in the store. */
  readonly laneId: string;
  readonly queueLimit: number;
  readonly batchLimit: number;
  /** Milliseconds that only go forward; `performance.now` unless a test brings its own. */
  readonly monotonicMs?: () => number;
}

/** How often a batch is gathered and decided anew after a conflict or a lost connection, before its commands go one by one. */
const BATCH_ATTEMPTS = 4;
/** Pause between attempts, in milliseconds: doubled each time, with jitter, so that replicas do not meet again. */
const RETRY_BASE_MS = 20;
/** How long a lost answer to COMMIT is looked into before the callers are told that it is not known, in milliseconds. */
const RECOVERY_MS = 20_000;
const RECOVERY_PAUSE_MS = 200;

/**
 * Serves one domain, one transaction at a time (architecture.md): while a batch commits, the next commands queue up and
 * are then taken together.
 */
export class Lane {
  private readonly queue: Pending[] = [];
  private running = false;
  private batch = 0n;
  private seen: SeenHead | undefined;
  private regressed = false;
  /** Other replicas hold the domain for most of the time that a batch of this one gathers. */
  private contended = false;
  private idle: (() => void)[] = [];
  /** Batches that are done and whose callers are not told yet. */
  private unanswered = 0;
  private readonly now: () => number;

  constructor(
    private readonly domainId: string,
    private readonly parts: LaneParts,
    /** Told when the domain turned out not to exist: no lane is kept for it. */
    private readonly onAbsent: (lane: Lane) => void,
  ) {
    this.now = parts.monotonicMs ?? (() => performance.now());
  }

  /** Whether nothing waits and nothing runs, and everybody has been answered. */
  get isIdle(): boolean {
    return !this.running && this.queue.length === 0 && this.unanswered === 0;
  }

  get queueLength(): number {
    return this.queue.length;
  }

  /** Queues a command. */
  submit(item: Pending): void {
    if (this.queue.length >= this.parts.queueLimit) {
      return item.resolve(refused(queueFull()));
    }
    this.queue.push(item);
    if (!this.running) void this.run();
  }

  /** Resolves when nothing is left to do. */
  whenIdle(): Promise<void> {
    return this.isIdle ? Promise.resolve() : new Promise((resolve) => this.idle.push(resolve));
  }

  private async run(): Promise<void> {
    this.running = true;
    // A lone command goes at once, but commands of the same turn of the loop go together.
    await Promise.resolve();
    while (this.queue.length > 0) {
      const batch: Pending[] = [];
      this.fill(batch);
      if (batch.length > 0) await this.serve(batch, true);
    }
    this.running = false;
    this.tellIdle();
  }

  /** Takes what comes next into a batch: in order, bounded, at most one command per serialization key. */
  private fill(batch: Pending[]): void {
    const now = this.now();
    const keys = new Set(batch.map(keyOf));
    if (batch.some(({ decision }) => decision.exclusive === true)) return;
    while (this.queue.length > 0 && batch.length < this.parts.batchLimit) {
      const item = this.queue[0] as Pending;
      if (lapsed(item, now)) {
        this.queue.shift();
        continue;
      }
      if (item.decision.exclusive === true && batch.length > 0) break;
      const key = keyOf(item);
      if (key !== undefined && keys.has(key)) break;
      keys.add(key);
      batch.push(item);
      this.queue.shift();
      this.parts.observer.commandTaken(now - item.enqueuedAt);
      if (item.decision.exclusive === true) break;
    }
  }

  /**
   * Answers whether the store could be reached.
   *
   * @param grows what is queued while it waits for a connection, or for a replica that holds the domain, joins the batch
   */
  private async serve(batch: Pending[], grows: boolean): Promise<boolean> {
    const started = this.now();
    let reached = true;
    try {
      const end = await this.attempt(batch, grows);
      reached = end !== 'away';
      if (typeof end === 'object') this.release(end);
      else if (end === 'split') await this.serveEach(batch);
      else this.release(this.failAll(batch, unavailable()));
    } catch (error) {
      // A bug: it hits whoever was in the batch, not the lane.
      for (const item of batch) item.reject(error);
    } finally {
      this.parts.observer.batchDone(batch.length, this.now() - started);
    }
    return reached;
  }

  /** One by one, so that a command that cannot be done fails alone. */
  private async serveEach(batch: readonly Pending[]): Promise<void> {
    for (const [i, item] of batch.entries()) {
      if (lapsed(item, this.now()) || (await this.serve([item], false))) continue;
      // To wait out a store that is away once per command would hold up the lane for minutes.
      return this.release(this.failAll(batch.slice(i + 1), unavailable()));
    }
  }

  /**
   * The verdicts, or why there are none, though nothing was done: the store cannot be reached, the commands are to go
   * one by one, or every attempt of a lone one failed.
   */
  private async attempt(batch: Pending[], grows: boolean): Promise<Verdict[] | 'away' | 'split' | 'failed'> {
    let away = false;
    for (let attempt = 0; attempt < BATCH_ATTEMPTS; attempt += 1) {
      if (attempt > 0) {
        this.parts.observer.retried();
        await pause(RETRY_BASE_MS * 2 ** attempt * (0.5 + Math.random()));
      }
      const result = await this.tryOnce(batch, grows && attempt === 0);
      if (result.kind === 'done') return result.verdicts;
      if (result.kind === 'permanent') {
        // One of them is to blame: alone, it fails alone.
        if (batch.length > 1) return 'split';
        throw result.error;
      }
      away = result.kind === 'away';
    }
    return away ? 'away' : batch.length > 1 ? 'split' : 'failed';
  }

  private async tryOnce(batch: Pending[], grows: boolean): Promise<Attempt> {
    let connection: PipelineConnection;
    try {
      connection = await this.parts.pool.acquire();
    } catch (error) {
      return failedAttempt(error, 'away');
    }
    let healthy = false;
    let attempt: Attempt | Unanswered;
    try {
      if (grows) this.fill(batch);
      attempt = await this.transact(connection, batch, grows && this.contended);
      healthy = attempt.kind === 'done' && attempt.healthy;
    } catch (error) {
      attempt = failedAttempt(error, 'again');
    } finally {
      this.parts.pool.release(connection, healthy);
    }
    // Only now: who asks what became of a COMMIT needs a connection, and must not hold on to a lost one meanwhile.
    return attempt.kind === 'unanswered' ? this.settle(batch, attempt) : attempt;
  }

  private async transact(
    connection: PipelineConnection,
    batch: Pending[],
    lockFirst: boolean,
  ): Promise<Attempt | Unanswered> {
    const lockStart = this.now();
    let lockWaitMs: number | undefined;
    if (lockFirst) {
      await lockDomain(connection, this.domainId);
      lockWaitMs = this.now() - lockStart;
      this.fill(batch);
    }
    const kinds = batch.map((item) => item.decision.kind);
    const gathered = await gatherBatch(connection, {
      domainId: this.domainId,
      reads: batch.map((item) => item.decision.reads(item.command)),
      codec: this.parts.codec,
      seen: this.seen,
      isLocked: lockFirst,
    });
    if (gathered.kind === 'absent') {
      this.onAbsent(this);
      return done(this.failAll(batch, refusal('DOMAIN_INACTIVE', 'There is no such domain.')), false);
    }
    if (gathered.kind === 'regressed') return done(this.failAll(batch, this.stop()), false);
    this.regressed = false;
    lockWaitMs ??= Number(gathered.lockWait) / 1000;
    this.parts.observer.headLocked(lockWaitMs);
    await this.parts.faults.hit('after-gather', kinds);
    const decideStart = this.now();
    // Another replica was in between, and was waited for: what comes meanwhile is to go with the next batch.
    this.contended =
      this.seen !== undefined &&
      this.seen.seq !== gathered.set.head.seq &&
      lockWaitMs > decideStart - lockStart - lockWaitMs;
    const verdicts = decideAll(gathered.set, batch);
    const changes = gathered.set.changes();
    await this.parts.faults.hit('after-decide', kinds);
    const commitStart = this.now();
    const writes = changes.rows.length > 0 || changes.head !== undefined || changes.domain !== undefined;
    const number = this.batch + 1n;
    const statements = writes
      ? [
          ...writeStatements(this.domainId, changes),
          laneStatement(this.domainId, this.parts.laneId, number, gathered.set.now),
        ]
      : [];
    if (writes) this.batch = number;
    if (!(await this.commit(connection, statements, kinds))) {
      return { kind: 'unanswered', number, verdicts, set: gathered.set, rows: changes.rows };
    }
    this.remember(gathered.set, changes.rows);
    this.parts.observer.phases(decideStart - lockStart, commitStart - decideStart, this.now() - commitStart);
    return done(verdicts, true);
  }

  /**
   * Whether COMMIT is known to have taken effect; false: it got no answer.
   *
   * @throws StoreError `not_done`
   */
  private async commit(
    connection: PipelineConnection,
    statements: Parameters<typeof commitBatch>[1],
    kinds: readonly string[],
  ): Promise<boolean> {
    try {
      await commitBatch(connection, statements, (seam) => this.parts.faults.hit(seam, kinds));
      await this.parts.faults.hit('after-commit', kinds);
      return true;
    } catch (error) {
      const uncertain = error instanceof StoreError ? error.failure === 'unknown' : isAfterCommit(error);
      if (!uncertain) throw error;
      // Nothing was written: whatever became of that COMMIT, the batch may be decided anew.
      if (statements.length === 0) throw new StoreError('not_done', true, 'nothing to commit');
      return false;
    }
  }

  /** A COMMIT whose answer is lost is unknown, never failed: the lane's own row says what became of it. */
  private async settle(batch: readonly Pending[], lost: Unanswered): Promise<Attempt> {
    this.parts.observer.commitUnknown();
    const until = this.now() + RECOVERY_MS;
    while (this.now() < until) {
      const committed = await this.askOnce(lost.number);
      if (committed === true) {
        this.remember(lost.set, lost.rows);
        return done(lost.verdicts, true);
      }
      if (committed === false) return { kind: 'again' };
      await pause(RECOVERY_PAUSE_MS);
    }
    return done(this.failAll(batch, outcomeUnknown()), false);
  }

  private async askOnce(batch: bigint): Promise<boolean | undefined> {
    let connection: PipelineConnection | undefined;
    let healthy = false;
    try {
      connection = await this.parts.pool.acquire();
      const committed = await didCommit(connection, this.domainId, this.parts.laneId, batch);
      healthy = true;
      return committed;
    } catch (error) {
      if (error instanceof StoreError) return undefined;
      throw error;
    } finally {
      if (connection) this.parts.pool.release(connection, healthy);
    }
  }

  /** A batch took effect. */
  private remember(set: WorkingSet, rows: readonly RowChange[]): void {
    const admitted = admittedBetween(set.originalHead.counters, set.head.counters);
    this.parts.observer.committed({ domainId: this.domainId, rows, admitted });
    this.seen = {
      incarnation: set.facts.incarnation,
      seq: set.head.seq,
      chainHash: set.head.chainHash,
      time: set.now,
    };
  }

  /**
   * The store went back behind what this process has seen: the domain stops until `surety restore` has raised the
   * incarnation, or the clock has come up again. Each batch looks anew, so that nobody has to restart the service then.
   */
  private stop(): Refusal {
    if (!this.regressed) this.parts.observer.regressed(this.domainId);
    this.regressed = true;
    return refusal('STORE_REGRESSED', 'The store went back behind what this service has seen.');
  }

  private failAll(batch: readonly Pending[], reason: Refusal): Verdict[] {
    return batch.map((item) => ({ item, outcome: refused(reason) }));
  }

  /** Where the next batch waits already it leaves first: the answers to this one are made while the store reads. */
  private release(verdicts: readonly Verdict[]): void {
    if (this.queue.length === 0) return this.answer(verdicts);
    this.unanswered += 1;
    setImmediate(() => {
      this.unanswered -= 1;
      this.answer(verdicts);
      this.tellIdle();
    });
  }

  private answer(verdicts: readonly Verdict[]): void {
    const now = this.now();
    for (const { item, outcome } of verdicts) {
      this.parts.observer.commandDone(item.decision.kind, now - item.enqueuedAt, outcome);
      item.resolve(outcome);
    }
  }

  private tellIdle(): void {
    if (this.isIdle) for (const resolve of this.idle.splice(0)) resolve();
  }
}

/**
 * Decides the commands in order, each seeing what those before it made. Throws where one of them looked at a row that
 * another one brought in: alone, it reads all that it names.
 */
function decideAll(set: WorkingSet, batch: readonly Pending[]): Verdict[] {
  return batch.map((item) => ({ item, outcome: runDecision(set, item.decision, item.command) }));
}

function keyOf({ decision, command }: Pending): string | undefined {
  return decision.serializeBy?.(command);
}

/** Whether the deadline passed before anything was begun; the caller is told so. */
function lapsed(item: Pending, now: number): boolean {
  if (item.deadline === undefined || item.deadline > now) return false;
  item.resolve(refused(refusal('DEADLINE_PASSED', 'The deadline passed before the call was begun.')));
  return true;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

import type { AuditCodec, DomainHead } from '../ledger/audit/records.js';
import type { Reads } from '../ledger/reads.js';
import type { Micros } from '../ledger/types.js';
import { WorkingSet } from '../ledger/working-set.js';
import type { Answer, PipelineConnection, Statement } from './connection.js';
import { DOMAIN_COLUMNS, domainOf, HEAD_COLUMNS, headOf } from './domain-rows.js';
import { UnsendableError } from './flight.js';
import { planGather } from './gather.js';
import type { GatherPlan } from './gather-planner.js';
import { detailOf, isTransient, StoreError, sqlState } from './store-error.js';

/** Where in the life of a batch a test may make it fail (architecture.md, Time and faults in tests). */
export type Seam = 'after-gather' | 'after-decide' | `in-commit-${number}` | 'before-commit' | 'after-commit';

/** Runs what a test ordered for a seam; does nothing in production. */
export type FaultHook = (seam: Seam) => Promise<void> | undefined;

/** What the process remembers of a domain's head, to notice a store that went back. */
export interface SeenHead {
  readonly incarnation: bigint;
  readonly seq: bigint;
  readonly chainHash: Buffer;
  readonly time: Micros;
}

/** What the gather flight found. */
export type Gathered =
  | {
      readonly kind: 'gathered';
      readonly set: WorkingSet;
      readonly clock: Micros;
      /** From the transaction's beginning to having the lock, as the store saw it. */
      readonly lockWait: Micros;
    }
  /** There is no such domain. */
  | { readonly kind: 'absent' }
  /** The head does not extend what this process has seen. */
  | { readonly kind: 'regressed' };

const BEGIN: Statement = { name: 'begin', text: 'BEGIN ISOLATION LEVEL READ COMMITTED' };
const COMMIT: Statement = { name: 'commit', text: 'COMMIT' };
const ROLLBACK: Statement = { name: 'rollback', text: 'ROLLBACK' };
const LOCK_HEAD = `SELECT ${HEAD_COLUMNS} FROM domain_heads WHERE domain_id = $1 FOR NO KEY UPDATE`;
/**
 * The service's state with the clock, the domain, and the entry that this process saw last. A statement of its own after the
 * lock: within the locking one the clock would be as old as the wait. How long that was is told by the store, since an answer
 * in between, for this process to look at its own clock, costs both of them a system call.
 */
const READ_STATE = `SELECT s.incarnation AS service_incarnation, s.audience, s.service_domain_id,
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + s.clock_offset AS now,
  (extract(epoch FROM clock_timestamp() - transaction_timestamp()) * 1000000)::bigint AS lock_wait,
  d.*, e.chain_hash AS seen_hash
  FROM service_state AS s CROSS JOIN (SELECT ${DOMAIN_COLUMNS} FROM domains WHERE domain_id = $1) AS d
  LEFT JOIN (SELECT chain_hash FROM audit_entries WHERE domain_id = $1 AND seq = $2) AS e ON true`;
/** What a batch reads before the rows that its commands name: head, state. */
const HEAD_READS = 2;

/** The clock may not stand further back than this behind the domain's last time. */
export const MAX_CLOCK_REGRESSION: Micros = 60_000_000n;

/**
 * Begins a transaction with the domain's lock, for a lane that other replicas keep waiting: what it gathers is chosen when it
 * has the lock, and not before.
 *
 * @throws StoreError `not_done`; the connection is then to be thrown away
 */
export async function lockDomain(connection: PipelineConnection, domainId: string): Promise<void> {
  await answersOf(connection, [BEGIN, { name: 'lock_head', text: LOCK_HEAD, values: [domainId] }]);
}

/**
 * The first flight of a batch: locks the domain, reads the clock behind the lock, and all rows that the commands name.
 *
 * @throws StoreError `not_done`; the connection is then to be thrown away
 */
export async function gatherBatch(
  connection: PipelineConnection,
  input: {
    domainId: string;
    reads: readonly Reads[];
    codec: AuditCodec;
    seen: SeenHead | undefined;
    /** `lockDomain` has begun the transaction. */
    isLocked?: boolean;
  },
): Promise<Gathered> {
  const { domainId, seen } = input;
  const plan = planGather(domainId, input.reads, { lock: true });
  const head: Statement[] = [
    ...(input.isLocked === true ? [] : [BEGIN]),
    { name: 'lock_head', text: LOCK_HEAD, values: [domainId] },
    { name: 'read_state', text: READ_STATE, values: [domainId, String(seen?.seq ?? 0n)] },
  ];
  const answers = await answersOf(connection, [...head, ...plan.statements]);
  return interpretGather(answers.slice(head.length - HEAD_READS), plan, input);
}

function interpretGather(
  /** From the head's on. */
  answers: readonly Answer[],
  plan: GatherPlan,
  input: { domainId: string; codec: AuditCodec; seen: SeenHead | undefined },
): Gathered {
  const headRow = answers[0]?.rows[0];
  const state = answers[1]?.rows[0];
  if (!headRow || !state) return { kind: 'absent' };
  const head = headOf(headRow);
  const clock = state['now'] as bigint;
  const seenHash = state['seen_hash'] as Buffer | null;
  const incarnation = state['service_incarnation'] as bigint;
  if (input.seen && !extendsSeen(head, incarnation, seenHash, input.seen)) return { kind: 'regressed' };
  // What was seen before a restore binds its time as little as its head.
  const seenTime = input.seen?.incarnation === incarnation ? input.seen.time : 0n;
  const floor = seenTime > head.lastTime ? seenTime : head.lastTime;
  if (floor - clock > MAX_CLOCK_REGRESSION) return { kind: 'regressed' };
  const set = new WorkingSet({
    domainId: input.domainId,
    codec: input.codec,
    now: clock > floor ? clock : floor,
    head,
    domain: domainOf(state),
    facts: {
      incarnation,
      audience: (state['audience'] as string | null) ?? '',
      serviceDomainId: (state['service_domain_id'] as string | null) ?? '',
    },
  });
  plan.fill(set, answers.slice(HEAD_READS));
  return { kind: 'gathered', set, clock, lockWait: state['lock_wait'] as bigint };
}

/** A restore raises the incarnation, and is then a new beginning; else what was seen must still be there. */
function extendsSeen(
  head: DomainHead,
  incarnation: bigint,
  seenHash: Buffer | null,
  seen: SeenHead,
): boolean {
  if (incarnation > seen.incarnation) return true;
  if (incarnation < seen.incarnation || head.seq < seen.seq) return false;
  if (seen.seq === 0n) return true;
  return seenHash !== null && Buffer.compare(seenHash, seen.chainHash) === 0;
}

async function answersOf(
  connection: PipelineConnection,
  statements: readonly Statement[],
): Promise<Answer[]> {
  const settled = await connection.flight(statements);
  return settled.map((result) => {
    if (result.status === 'fulfilled') return result.value;
    throw new StoreError('not_done', isTransient(result.reason), detailOf(result.reason), {
      cause: result.reason,
    });
  });
}

/**
 * The second flight: the writes and COMMIT. Returns when COMMIT is known to have taken effect.
 *
 * @throws StoreError `not_done` or `unknown`; the connection is then to be thrown away
 */
export async function commitBatch(
  connection: PipelineConnection,
  statements: readonly Statement[],
  fault: FaultHook,
): Promise<void> {
  if (connection.transactionStatus() !== 'T') throw new StoreError('not_done', true, 'no transaction');
  connection.clearWarning();
  let part: Statement[] = [];
  for (const [i, statement] of statements.entries()) {
    const ordered = i > 0 ? fault(`in-commit-${i}`) : undefined;
    if (ordered) part = await between(connection, part, ordered);
    part.push(statement);
  }
  const ordered = fault('before-commit');
  if (ordered) part = await between(connection, part, ordered);
  const settled = await connection.flight([...part, COMMIT]);
  await judge(connection, settled, true);
}

/**
 * Lets what was there so far reach the server and be answered, before a test's fault strikes.
 *
 * @returns the statements of the next part: none
 */
async function between(
  connection: PipelineConnection,
  part: readonly Statement[],
  ordered: Promise<void>,
): Promise<Statement[]> {
  // Together: a fault that rejects while the answers are still awaited must not end the process.
  const [answered] = await Promise.allSettled([connection.flight(part), ordered]);
  await ordered;
  const settled = answered.status === 'fulfilled' ? answered.value : [];
  if (settled.some(({ status }) => status === 'rejected')) await judge(connection, settled, false);
  return [];
}

/**
 * What became of the batch, by how a flight of it was answered.
 *
 * @param committing whether COMMIT is the flight's last statement; else the flight has failed
 * @throws StoreError unless COMMIT took effect
 */
async function judge(
  connection: PipelineConnection,
  settled: readonly PromiseSettledResult<Answer>[],
  committing: boolean,
): Promise<void> {
  const place = settled.findIndex(({ status }) => status === 'rejected');
  const failed = settled[place];
  if (failed?.status !== 'rejected') {
    const last = settled.at(-1);
    if (last?.status !== 'fulfilled' || last.value.command !== 'COMMIT') {
      throw new StoreError('not_done', true, 'rolled back');
    }
    if (connection.sawWarning) throw new StoreError('unknown', true, 'warning at commit');
    return;
  }
  const { reason } = failed;
  if (reason instanceof UnsendableError) {
    // Nothing was sent; nobody is to wait for the lock.
    await connection.flight([ROLLBACK]);
    throw new StoreError('not_done', false, 'unsendable', { cause: reason });
  }
  // The database's refusal, of a statement or of COMMIT itself, is its word that nothing was done: it passes over all
  // that comes behind. A broken connection or a dying server says nothing.
  if (sqlState(reason) === undefined || endsSession(reason)) {
    throw new StoreError('unknown', true, detailOf(reason), { cause: reason });
  }
  const atCommit = committing && place === settled.length - 1;
  throw new StoreError('not_done', atCommit || isTransient(reason), detailOf(reason), { cause: reason });
}

/** Whether the error took the session with it (57P01 and the like, class 08): then COMMIT may or may not have run before. */
function endsSession(error: unknown): boolean {
  const state = sqlState(error) ?? '';
  return state.startsWith('57P') || state.startsWith('08');
}

/**
 * Whether a batch whose COMMIT got no answer took effect: waits for the domain's lock, so that the lost transaction is
 * over, and reads the lane's row behind it.
 *
 * @throws StoreError where the store cannot be asked
 */
export async function didCommit(
  connection: PipelineConnection,
  domainId: string,
  laneId: string,
  batch: bigint,
): Promise<boolean> {
  const answers = await answersOf(connection, [
    BEGIN,
    { name: 'lock_head', text: LOCK_HEAD, values: [domainId] },
    {
      name: 'read_lane',
      text: 'SELECT last_batch FROM lanes WHERE domain_id = $1 AND lane_id = $2',
      values: [domainId, laneId],
    },
    ROLLBACK,
  ]);
  return answers[2]?.rows[0]?.['last_batch'] === batch;
}

import { refusal } from '../../ledger/refusal.js';
import { Refused } from '../../ledger/run-decision.js';
import { SECOND } from '../../ledger/types.js';
import type { CallContext } from '../handler.js';
import type { PositionPoller } from './position-poller.js';

/** How long a watcher hears nothing at most: shorter than what proxies and NATs give an idle stream. */
const HEARTBEAT_MS = 10_000;
/** How long a stream goes on after its caller has lost the right to it (identity.md, Callers: 5 s). */
const RECHECK_MS = 5_000;
/** When a watcher that a drain has ended should come back. */
const RESUME_AFTER = SECOND;

/** What a page of the log gave a watcher. */
export interface LogPage<Message> {
  /** For the watcher, in order; entries that it does not get are simply left out. */
  readonly messages: readonly Message[];
  /** The position that the page reached: where the next one begins. */
  readonly position: bigint;
  /** Whether more entries may be there already. */
  readonly more: boolean;
  /** What ends the watch once the messages were taken: the entry behind them cannot be told. */
  readonly broken?: Refused | undefined;
}

/**
 * What is told of a page's entries, in order, up to the first that cannot be: good steps are not withheld because of a bad
 * one behind them, and nothing behind it is told as if it were not there.
 *
 * @param tell the message of an entry; throws `Refused` where it contradicts what is stored
 */
export function messagesUpToFault<Entry, Message>(
  entries: readonly Entry[],
  tell: (entry: Entry) => Message | undefined,
): Pick<LogPage<Message>, 'messages' | 'broken'> {
  const messages: Message[] = [];
  for (const entry of entries) {
    try {
      const message = tell(entry);
      if (message !== undefined) messages.push(message);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { messages, broken: error };
    }
  }
  return { messages };
}

/** A log and one who watches it. */
export interface FollowOptions<Message> {
  readonly context: CallContext;
  readonly positions: PositionPoller;
  /** The last position that the watcher has. */
  readonly afterPosition: bigint;
  /** The next entries, at most one page of them; throws `Refused` where the caller may read no more. */
  readonly readPage: (afterPosition: bigint) => Promise<LogPage<Message>>;
  /** Whether the caller may still read, thrown as `Refused` where not. Asked at most every 5 s. */
  readonly recheck: () => Promise<void>;
  readonly heartbeat: (position: bigint) => Message;
  /** Milliseconds, for tests. */
  readonly heartbeatMs?: number;
  readonly recheckMs?: number;
}

/**
 * The messages of a watch: what is in the log, then what comes, with heartbeats in between (effects.md, WatchEffects;
 * provenance-audit-replay.md, WatchEntries). Holds one page at most and reads the next only when the last message of the
 * page was taken, so that a slow reader costs nothing but time.
 *
 * @throws Refused DRAINING when the service drains, and what `readPage` and `recheck` throw. Ends quietly when the caller
 *   is gone.
 */
export async function* followLog<Message>(options: FollowOptions<Message>): AsyncGenerator<Message> {
  const { context, positions, heartbeat, heartbeatMs = HEARTBEAT_MS, recheckMs = RECHECK_MS } = options;
  const { signal, domainId } = context;
  let position = options.afterPosition;
  let checkedAt = performance.now();
  let saidAt = checkedAt;
  await options.recheck();
  // The first heartbeat says at once that the stream stands and where it is.
  yield heartbeat(position);
  while (!signal.aborted) {
    if (performance.now() - checkedAt >= recheckMs) {
      await options.recheck();
      checkedAt = performance.now();
    }
    const page = await options.readPage(position);
    for (const message of page.messages) {
      if (signal.aborted) return;
      yield message;
      saidAt = performance.now();
    }
    if (page.broken) throw page.broken;
    position = page.position;
    // Also where the log grows all the time and nothing of it is for this watcher.
    if (performance.now() - saidAt >= heartbeatMs) {
      yield heartbeat(position);
      saidAt = performance.now();
    }
    if (page.more) continue;
    const untilHeartbeat = saidAt + heartbeatMs - performance.now();
    const untilRecheck = checkedAt + recheckMs - performance.now();
    const timeoutMs = Math.max(Math.min(untilHeartbeat, untilRecheck), 0);
    const result = await positions.waitBeyond(domainId, position, { timeoutMs, signal });
    if (result === 'closed') throw draining();
  }
}

function draining(): Refused {
  return new Refused(
    refusal('DRAINING', 'The service is shutting down; resume from the last position.', {
      retryAfter: RESUME_AFTER,
    }),
  );
}

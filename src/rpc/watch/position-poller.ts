import type { Reader } from '../../store/reader.js';

/** How often the heads of watched domains are read: what a watcher waits at most for an entry that is committed. */
const POLL_INTERVAL_MS = 100;
/** After a failed read: the store is in trouble, and watchers lose nothing by waiting. */
const POLL_BACKOFF_MS = 1_000;

/** Why a wait ended. */
export type WaitResult =
  /** The log has entries after the position. */
  | 'moved'
  /** The time was over: send a heartbeat. */
  | 'timeout'
  /** The watcher is gone. */
  | 'aborted'
  /** The service drains. */
  | 'closed';

interface Waiter {
  readonly domainId: string;
  readonly position: bigint;
  readonly end: (result: WaitResult) => void;
}

/**
 * Tells watchers when a domain's log has grown. However many watchers of however many domains there are, one small
 * statement per interval reads the heads of all; without a waiter nothing is read. Positions are given out under the
 * domain's lock (provenance-audit-replay.md, Audit), so whoever reads on from its last position misses nothing.
 */
export class PositionPoller {
  private readonly waiters = new Set<Waiter>();
  private timer: NodeJS.Timeout | undefined;
  private polling = false;
  private closed = false;

  constructor(
    private readonly reader: Pick<Reader, 'query'>,
    private readonly intervalMs: number = POLL_INTERVAL_MS,
  ) {}

  /** How many watchers wait now. */
  get waiting(): number {
    return this.waiters.size;
  }

  /**
   * Waits until the domain's log has an entry after `position`, for at most `timeoutMs` milliseconds. Never rejects: a
   * store that cannot be read looks like a log that does not grow, and the watcher's next own read says what is wrong.
   */
  waitBeyond(
    domainId: string,
    position: bigint,
    options: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<WaitResult> {
    const { timeoutMs, signal } = options;
    if (this.closed) return Promise.resolve('closed');
    if (signal.aborted) return Promise.resolve('aborted');
    return new Promise((resolve) => {
      const end = (result: WaitResult): void => {
        clearTimeout(timeout);
        signal.removeEventListener('abort', onAbort);
        this.waiters.delete(waiter);
        if (this.waiters.size === 0) this.stopTimer();
        resolve(result);
      };
      const waiter: Waiter = { domainId, position, end };
      const timeout = setTimeout(() => end('timeout'), timeoutMs);
      const onAbort = (): void => end('aborted');
      signal.addEventListener('abort', onAbort, { once: true });
      this.waiters.add(waiter);
      this.schedule(this.intervalMs);
    });
  }

  /** Ends every wait, now and from now on: the service drains. */
  close(): void {
    this.closed = true;
    this.stopTimer();
    for (const waiter of [...this.waiters]) waiter.end('closed');
  }

  private schedule(delayMs: number): void {
    if (this.closed || this.polling || this.timer !== undefined || this.waiters.size === 0) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.poll();
    }, delayMs);
  }

  private stopTimer(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private async poll(): Promise<void> {
    this.polling = true;
    let delayMs = this.intervalMs;
    try {
      const domainIds = [...new Set([...this.waiters].map((waiter) => waiter.domainId))];
      const rows = await this.reader.query<{ domainId: string; seq: bigint }>('watched_heads', [domainIds]);
      const heads = new Map(rows.map((row) => [row.domainId, row.seq]));
      for (const waiter of [...this.waiters]) {
        const head = heads.get(waiter.domainId);
        if (head !== undefined && head > waiter.position) waiter.end('moved');
      }
    } catch {
      delayMs = Math.max(delayMs, POLL_BACKOFF_MS);
    } finally {
      this.polling = false;
      this.schedule(delayMs);
    }
  }
}

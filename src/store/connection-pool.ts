import { type ConnectionSettings, PipelineConnection } from './connection.js';
import { detailOf, StoreError } from './store-error.js';

/** How long a lane waits for a free connection before it says that the store is away, in milliseconds. */
const ACQUIRE_TIMEOUT_MS = 10_000;

interface Waiter {
  readonly resolve: () => void;
  readonly timer: NodeJS.Timeout;
}

/** A bounded number of pipelined connections that the lanes share. */
export class ConnectionPool {
  private readonly idle: PipelineConnection[] = [];
  private readonly waiters: Waiter[] = [];
  private inUse = 0;
  private closed = false;

  constructor(
    private readonly settings: ConnectionSettings,
    private readonly size: number,
    /** Told how long each was waited for, in milliseconds. */
    private readonly onWait: (ms: number) => void = () => undefined,
  ) {}

  /** @throws StoreError `not_done` where none could be had */
  async acquire(): Promise<PipelineConnection> {
    const asked = performance.now();
    const connection = await this.connection();
    this.onWait(performance.now() - asked);
    return connection;
  }

  private async connection(): Promise<PipelineConnection> {
    await this.slot();
    try {
      for (let connection = this.idle.pop(); connection; connection = this.idle.pop()) {
        if (connection.usable) return connection;
        connection.destroy();
      }
      return await PipelineConnection.open(this.settings);
    } catch (error) {
      this.free();
      throw new StoreError('not_done', true, detailOf(error), { cause: error });
    }
  }

  /** Gives a connection back. One that anything went wrong on is thrown away. */
  release(connection: PipelineConnection, healthy: boolean): void {
    // What cut off one may have cut off those that lie idle: each would cost a timeout to find out.
    if (!connection.usable) for (const idle of this.idle.splice(0)) idle.destroy();
    if (healthy && connection.usable && !this.closed) this.idle.push(connection);
    else connection.destroy();
    this.free();
  }

  /** How many are in use, and how many wait, for metrics. */
  get load(): { readonly inUse: number; readonly waiting: number } {
    return { inUse: this.inUse, waiting: this.waiters.length };
  }

  /** Ends the idle ones; those in use end when they come back. */
  async close(): Promise<void> {
    this.closed = true;
    await Promise.all(this.idle.splice(0).map((connection) => connection.end()));
  }

  private slot(): Promise<void> {
    if (this.closed) return Promise.reject(new StoreError('not_done', false, 'pool closed'));
    if (this.inUse < this.size) {
      this.inUse += 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.waiters.splice(this.waiters.indexOf(waiter), 1);
        reject(new StoreError('not_done', true, 'no free connection'));
      }, ACQUIRE_TIMEOUT_MS);
      const waiter: Waiter = { resolve, timer };
      this.waiters.push(waiter);
    });
  }

  private free(): void {
    const next = this.waiters.shift();
    if (!next) {
      this.inUse -= 1;
      return;
    }
    clearTimeout(next.timer);
    next.resolve();
  }
}

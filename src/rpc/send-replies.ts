import type { Writable } from 'node:stream';
import { refusal } from '../ledger/refusal.js';
import { Refused } from '../ledger/run-decision.js';

/**
 * What may wait for a reader before the next reply is asked for: a few pages of a watch, so that the network never idles,
 * and little enough that a hundred readers that never read cost nothing to speak of.
 */
const MAX_WAITING_BYTES = 256 * 1024;

/**
 * Sends replies as fast as their reader takes them: the next one is asked for only when what waits is little.
 *
 * @param signal ends it between two replies, and while one is awaited; what it was aborted with is thrown
 * @param stallMs how long the reader may take nothing at all
 * @throws {ReaderStalled} when the reader stalls; whatever the replies or `encode` throw
 */
export async function sendReplies<Reply>(
  call: Writable,
  replies: AsyncIterable<Reply>,
  encode: (reply: Reply) => Buffer,
  signal: AbortSignal,
  stallMs: number,
): Promise<void> {
  const source = replies[Symbol.asyncIterator]();
  const reader = new Reader(call, stallMs);
  const patience = new Patience(signal);
  try {
    for (;;) {
      const next = await patience.wait(source.next());
      if (next.done === true) return;
      await patience.wait(reader.take(encode(next.value)));
    }
  } finally {
    patience.end();
    // A generator that is waiting ends when its wait does; it sees the signal. Nobody waits for that here.
    source.return?.().then(undefined, () => {});
  }
}

/** The reader took nothing for too long. It may not take its status either. */
export class ReaderStalled extends Refused {
  constructor() {
    super(refusal('BACKPRESSURE', 'The reader is too slow; resume from the last position received.'));
  }
}

/** The reader's side: what was sent and not yet taken. */
class Reader {
  #waitingBytes = 0;
  #wake: (() => void) | undefined;

  constructor(
    private readonly call: Writable,
    private readonly stallMs: number,
  ) {}

  /** Sends, and resolves when little waits. */
  async take(bytes: Buffer): Promise<void> {
    this.#waitingBytes += bytes.length;
    this.call.write(bytes, () => {
      this.#waitingBytes -= bytes.length;
      this.#wake?.();
    });
    while (this.#isBehind()) await this.#progress();
  }

  #isBehind(): boolean {
    return this.#waitingBytes > MAX_WAITING_BYTES || this.call.writableNeedDrain;
  }

  #progress(): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new ReaderStalled());
      }, this.stallMs);
      timer.unref();
      const wake = (): void => {
        clearTimeout(timer);
        this.call.off('drain', wake);
        this.#wake = undefined;
        resolve();
      };
      this.#wake = wake;
      this.call.on('drain', wake);
    });
  }
}

/**
 * Waits for one thing after the other, or for the signal. (`Promise.race` against one promise that lives as long as the
 * stream would keep something of every wait.)
 */
class Patience {
  #giveUp: ((reason: unknown) => void) | undefined;
  readonly #abort = (): void => this.#giveUp?.(this.signal.reason);

  constructor(private readonly signal: AbortSignal) {
    signal.addEventListener('abort', this.#abort);
  }

  wait<T>(thing: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#giveUp = reject;
      thing.then(resolve, reject);
      if (this.signal.aborted) this.#abort();
    });
  }

  end(): void {
    this.signal.removeEventListener('abort', this.#abort);
    this.#giveUp = undefined;
  }
}

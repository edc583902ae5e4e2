/** The part of a pino logger that the server needs. */
export interface ServerLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

const WINDOW_MS = 1_000;

/** Lines a second: a stranger who is refused a thousand times a second must not fill the disk. */
const MAX_LINES_PER_WINDOW = 20;

/** Logs refused connections, a bounded number of lines a second, and counts them all by reason. */
export class RefusalLog {
  readonly #counts = new Map<string, number>();
  #lines = 0;
  #suppressed = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly log: ServerLog) {}

  /** @param reason stable; `detail` is a fixed name of OpenSSL's, never the peer's text. */
  note(reason: string, remoteAddress: string | undefined, detail?: string): void {
    this.#counts.set(reason, (this.#counts.get(reason) ?? 0) + 1);
    this.#timer ??= setTimeout(() => this.#endWindow(), WINDOW_MS).unref();
    this.#lines += 1;
    if (this.#lines > MAX_LINES_PER_WINDOW) this.#suppressed += 1;
    else this.log.warn({ reason, remoteAddress, detail }, 'connection refused');
  }

  /** Refusals since the start, by reason. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  /** Writes what was held back and ends its timer. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#endWindow();
  }

  #endWindow(): void {
    this.#timer = undefined;
    this.#lines = 0;
    if (this.#suppressed > 0) this.log.warn({ count: this.#suppressed }, 'more connections were refused');
    this.#suppressed = 0;
  }
}

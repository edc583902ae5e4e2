import type { EventEmitter } from 'node:events';
import { CertificateRejected } from '../identity/certificate-rejected.js';
import { ConnectionEnded } from '../identity/connection-peer.js';

/** The streams that are open, and every way to end one. */
export class LiveStreams {
  readonly #open = new Set<StreamLife>();

  get size(): number {
    return this.#open.size;
  }

  /**
   * Begins the life of a stream.
   *
   * @param call the server's side of it
   * @param connectionClosed aborts when the connection ends
   */
  begin(call: EventEmitter & { readonly cancelled: boolean }, connectionClosed: AbortSignal): StreamLife {
    const life = new StreamLife(call, connectionClosed, () => this.#open.delete(life));
    this.#open.add(life);
    return life;
  }

  /** Ends them all for a cause that each tells its caller. */
  endAll(cause: Error): void {
    for (const life of this.#open) life.abort(cause);
  }
}

/**
 * One stream's life: it ends when its caller goes, when its connection's identity ends, when its caller is no longer what
 * it was admitted as, or when the service drains (identity.md, Living connections: streams end too).
 */
export class StreamLife {
  readonly #controller = new AbortController();
  readonly #stop: () => void;
  #cause: Error | undefined;
  #callerGone = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    call: EventEmitter & { readonly cancelled: boolean },
    connectionClosed: AbortSignal,
    private readonly onEnd: () => void,
  ) {
    const gone = (): void => {
      this.#callerGone = true;
      this.#controller.abort();
    };
    const closed = (): void => {
      const { reason } = connectionClosed;
      const rejection = reason instanceof ConnectionEnded ? reason.rejection : undefined;
      if (rejection === undefined) gone();
      else this.abort(new CertificateRejected(rejection));
    };
    call.once('cancelled', gone);
    connectionClosed.addEventListener('abort', closed);
    this.#stop = () => {
      call.off('cancelled', gone);
      connectionClosed.removeEventListener('abort', closed);
    };
    if (call.cancelled) gone();
    else if (connectionClosed.aborted) closed();
  }

  /** Aborted when the stream is to end, for whatever reason. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether nobody is there any more to be told anything. */
  get callerGone(): boolean {
    return this.#callerGone;
  }

  /** Why it is to end, where that is ours to tell. */
  get cause(): Error | undefined {
    return this.#cause;
  }

  /** Ends it for a cause that its caller is told. The first cause counts. */
  abort(cause: Error): void {
    if (this.#controller.signal.aborted) return;
    this.#cause = cause;
    this.#controller.abort(cause);
  }

  /** Asks every so often whether the caller still is what it was; what that throws ends the stream. */
  readmitEvery(ms: number, readmit: () => Promise<void>): void {
    if (this.#controller.signal.aborted) return;
    this.#timer = setTimeout(() => {
      readmit().then(
        () => this.readmitEvery(ms, readmit),
        (error: unknown) => this.abort(error instanceof Error ? error : new Error('readmission failed')),
      );
    }, ms);
    this.#timer.unref();
  }

  /** It has ended; nothing is watched any more. */
  end(): void {
    clearTimeout(this.#timer);
    this.#stop();
    // Whoever still waits for the signal (a handler that is being closed) must not wait for ever.
    this.#controller.abort();
    this.onEnd();
  }
}

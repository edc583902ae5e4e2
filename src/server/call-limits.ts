import {
  type ServerInterceptingCallInterface,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  ResponderBuilder,
  status,
} from '@grpc/grpc-js';
import { DEADLINE_CEILING_MS, REQUEST_TIMEOUT_MS } from './limits.js';

/** Milliseconds; the constants of limits.ts unless a test wants them shorter. */
export interface CallTimeouts {
  readonly requestTimeoutMs: number;
  readonly deadlineCeilingMs: number;
}

/**
 * An interceptor that bounds the time of each call.
 *
 * A client that sends headers and never the rest of its message holds a stream; one that sets no deadline
 * holds a handler. Both end with DEADLINE_EXCEEDED, which never means "not done" (api.md). Streams of replies
 * have no ceiling: they live as long as their connection may.
 */
export function callLimits(
  timeouts: CallTimeouts = { requestTimeoutMs: REQUEST_TIMEOUT_MS, deadlineCeilingMs: DEADLINE_CEILING_MS },
): ServerInterceptor {
  return (method, call) => {
    const ceiling = method.responseStream ? undefined : Date.now() + timeouts.deadlineCeilingMs;
    return new LimitedCall(call, method.requestStream ? undefined : timeouts.requestTimeoutMs, ceiling);
  };
}

class LimitedCall extends ServerInterceptingCall {
  readonly #inner: ServerInterceptingCallInterface;
  readonly #ceiling: number | undefined;

  constructor(
    inner: ServerInterceptingCallInterface,
    requestTimeoutMs: number | undefined,
    ceiling: number | undefined,
  ) {
    const timers = new Set<NodeJS.Timeout>();
    const clearAll = (): void => {
      for (const timer of timers) clearTimeout(timer);
    };
    const endAfter = (ms: number, details: string): NodeJS.Timeout => {
      const timer = setTimeout(() => {
        clearAll();
        inner.sendStatus({ code: status.DEADLINE_EXCEEDED, details });
      }, ms);
      timers.add(timer);
      return timer;
    };
    const request =
      requestTimeoutMs === undefined
        ? undefined
        : endAfter(requestTimeoutMs, 'the request was not sent in time');
    if (ceiling !== undefined) endAfter(ceiling - Date.now(), 'no call may take this long');
    const listener = new ServerListenerBuilder()
      .withOnReceiveHalfClose((next) => {
        clearTimeout(request);
        next();
      })
      .withOnCancel(() => clearAll())
      .build();
    const responder = new ResponderBuilder()
      .withStart((next) => next(listener))
      .withSendStatus((value, next) => {
        clearAll();
        next(value);
      })
      .build();
    super(inner, responder);
    this.#inner = inner;
    this.#ceiling = ceiling;
  }

  /** What the handler may rely on: the client's deadline or the ceiling, whichever is earlier. */
  override getDeadline(): number {
    const deadline = this.#inner.getDeadline();
    const own = deadline instanceof Date ? deadline.getTime() : deadline;
    return this.#ceiling === undefined ? own : Math.min(own, this.#ceiling);
  }
}

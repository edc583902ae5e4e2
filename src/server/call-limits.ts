import { constants } from 'node:http2';
import {
  ResponderBuilder,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  ServerListenerBuilder,
  status,
} from '@grpc/grpc-js';
import { type CallInternals, internalsOf } from './grpc-internals.js';
import { DEADLINE_CEILING_MS, REQUEST_TIMEOUT_MS } from './limits.js';

/** Milliseconds; the constants of limits.ts unless a test wants them shorter. */
export interface CallTimeouts {
  readonly requestTimeoutMs: number;
  readonly deadlineCeilingMs: number;
}

/**
 * An interceptor that bounds what one call may cost. It belongs in front of every method.
 *
 * - A client that sends headers and never the rest of its message would hold a stream, one that sets no
 *   deadline a handler: both end with DEADLINE_EXCEEDED, which never means "not done" (api.md). Streams of
 *   replies have no ceiling: they live as long as their connection may.
 * - grpc-js decompresses every message of a chunk at once, and sixteen messages of a kilobyte each, which fit
 *   into one, become a megabyte each: with a hundred streams a connection cost a gigabyte (tried). No method
 *   takes a second message, so a second one ends the call before anything is decompressed.
 * - A call that was answered before its request had ended would hold its place among the connection's streams
 *   for as long as the client likes; it is reset as HTTP/2 provides (RFC 9113, 8.1).
 */
export function callLimits(
  timeouts: CallTimeouts = { requestTimeoutMs: REQUEST_TIMEOUT_MS, deadlineCeilingMs: DEADLINE_CEILING_MS },
): ServerInterceptor {
  return (method, call) => {
    const internals = internalsOf(call);
    if (internals !== undefined && !method.requestStream) allowOneMessage(internals);
    return new LimitedCall(call, internals, {
      requestTimeoutMs: method.requestStream ? undefined : timeouts.requestTimeoutMs,
      ceilingMs: method.responseStream ? undefined : Date.now() + timeouts.deadlineCeilingMs,
    });
  };
}

function allowOneMessage({ decoder }: CallInternals): void {
  const write = decoder.write.bind(decoder);
  let received = 0;
  decoder.write = (data) => {
    const messages = write(data);
    received += messages.length;
    if (received > 1) throw new Error('more than one request message');
    return messages;
  };
}

interface Bounds {
  /** From the headers to the end of the request. */
  readonly requestTimeoutMs: number | undefined;
  /** Milliseconds since the epoch. */
  readonly ceilingMs: number | undefined;
}

class LimitedCall extends ServerInterceptingCall {
  readonly #inner: ServerInterceptingCallInterface;
  readonly #ceilingMs: number | undefined;

  constructor(
    inner: ServerInterceptingCallInterface,
    internals: CallInternals | undefined,
    { requestTimeoutMs, ceilingMs }: Bounds,
  ) {
    const timers = new Timers();
    let requestEnded = false;
    const finish = (): void => {
      timers.clear();
      if (!requestEnded) resetSoon(internals);
    };
    const giveUp = (details: string): void => {
      timers.clear();
      inner.sendStatus({ code: status.DEADLINE_EXCEEDED, details });
    };
    const listener = new ServerListenerBuilder()
      .withOnReceiveHalfClose((next) => {
        requestEnded = true;
        timers.clear('request');
        next();
      })
      // Also the end of every call, those included that grpc-js answers by itself (a message too large).
      .withOnCancel(finish)
      .build();
    const responder = new ResponderBuilder()
      .withStart((next) => next(listener))
      .withSendStatus((value, next) => {
        finish();
        next(value);
      })
      .build();
    super(inner, responder);
    this.#inner = inner;
    this.#ceilingMs = ceilingMs;
    timers.set('request', requestTimeoutMs, () => giveUp('the request was not sent in time'));
    const left = ceilingMs === undefined ? undefined : ceilingMs - Date.now();
    timers.set('ceiling', left, () => giveUp('no call may take this long'));
  }

  /** What the handler may rely on: the client's deadline or the ceiling, whichever is earlier. */
  override getDeadline(): number {
    const deadline = this.#inner.getDeadline();
    const own = deadline instanceof Date ? deadline.getTime() : deadline;
    return this.#ceilingMs === undefined ? own : Math.min(own, this.#ceilingMs);
  }
}

class Timers {
  readonly #running = new Map<string, NodeJS.Timeout>();

  set(name: string, ms: number | undefined, end: () => void): void {
    if (ms !== undefined) this.#running.set(name, setTimeout(end, ms));
  }

  clear(name?: string): void {
    for (const [key, timer] of this.#running) {
      if (name === undefined || name === key) clearTimeout(timer);
    }
  }
}

/** Lets the status go first: Node closes the stream when what was written has been sent. */
function resetSoon(internals: CallInternals | undefined): void {
  setImmediate(() => {
    const stream = internals?.stream;
    if (stream === undefined || stream.destroyed || stream.closed) return;
    if (stream.state.remoteClose !== 1) stream.close(constants.NGHTTP2_NO_ERROR);
  });
}

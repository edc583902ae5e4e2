import { constants } from 'node:http2';
import type { ServerInterceptingCallInterface, ServerInterceptor } from '@grpc/grpc-js';
import {
  type CallListener,
  type CallStatus,
  ForwardingCall,
  ForwardingListener,
} from '../rpc/interceptors/forwarding-call.js';
import { ceilingReached, explainStatuses, requestNotSent, SECOND_MESSAGE } from './explain-status.js';
import { type CallInternals, internalsOf } from './grpc-internals.js';
import { DEADLINE_CEILING_MS, REQUEST_TIMEOUT_MS } from './limits.js';

/** Milliseconds; the constants of limits.ts unless a test wants them shorter. */
export interface CallTimeouts {
  /** Less than the ceiling. */
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
 * - What grpc-js refuses by itself gets a reason, as every refusal has one (explain-status.ts).
 * - grpc-js sends the status of a unary call when its reply has been written: two encryptions and two system calls, and
 *   a turn of the event loop between them. Here the status follows at once, and both leave together.
 */
export function callLimits(
  timeouts: CallTimeouts = { requestTimeoutMs: REQUEST_TIMEOUT_MS, deadlineCeilingMs: DEADLINE_CEILING_MS },
): ServerInterceptor {
  return (method, call) => {
    const internals = internalsOf(call);
    if (internals !== undefined) {
      explainStatuses(internals);
      if (!method.requestStream) allowOneMessage(internals);
    }
    return new LimitedCall(call, internals, {
      requestTimeoutMs: method.requestStream ? undefined : timeouts.requestTimeoutMs,
      ceilingMs: method.responseStream ? undefined : Date.now() + timeouts.deadlineCeilingMs,
      isUnary: !method.requestStream && !method.responseStream,
    });
  };
}

function allowOneMessage({ decoder }: CallInternals): void {
  const write = decoder.write.bind(decoder);
  let received = 0;
  decoder.write = (data) => {
    const messages = write(data);
    received += messages.length;
    if (received > 1) throw new Error(SECOND_MESSAGE);
    return messages;
  };
}

interface Bounds {
  /** From the headers to the end of the request. */
  readonly requestTimeoutMs: number | undefined;
  /** Milliseconds since the epoch. */
  readonly ceilingMs: number | undefined;
  /** Whether one message is all that is answered. */
  readonly isUnary: boolean;
}

class LimitedCall extends ForwardingCall {
  readonly #internals: CallInternals | undefined;
  readonly #ceilingMs: number | undefined;
  readonly #isUnary: boolean;
  /** One for both limits: most calls are over long before either. */
  #timer: NodeJS.Timeout | undefined;
  #requestEnded = false;

  constructor(
    inner: ServerInterceptingCallInterface,
    internals: CallInternals | undefined,
    { requestTimeoutMs, ceilingMs, isUnary }: Bounds,
  ) {
    super(inner);
    this.#internals = internals;
    this.#ceilingMs = ceilingMs;
    this.#isUnary = isUnary;
    if (requestTimeoutMs !== undefined) {
      this.#timer = setTimeout(requestIsLate, requestTimeoutMs, this);
    } else {
      this.#waitForCeiling();
    }
  }

  override start(listener: CallListener): void {
    this.inner.start(new LimitedListener(listener, this));
  }

  override sendMessage(message: unknown, callback: () => void): void {
    const stream = this.#internals?.stream;
    // Of a call that is over nothing may be said to have been sent; grpc-js sees to that.
    if (!this.#isUnary || stream === undefined || stream.destroyed || stream.closed) {
      this.inner.sendMessage(message, callback);
    } else {
      this.inner.sendMessage(message, nothing);
      callback();
    }
  }

  override sendStatus(status: CallStatus): void {
    this.finish();
    this.inner.sendStatus(status);
  }

  /** What the handler may rely on: the client's deadline or the ceiling, whichever is earlier. */
  override getDeadline(): number {
    const deadline = this.inner.getDeadline();
    const own = deadline instanceof Date ? deadline.getTime() : deadline;
    return this.#ceilingMs === undefined ? own : Math.min(own, this.#ceilingMs);
  }

  requestEnded(): void {
    this.#requestEnded = true;
  }

  /** The time for the request is over. */
  requestTimeUp(): void {
    if (this.#requestEnded) this.#waitForCeiling();
    else this.giveUp(requestNotSent());
  }

  /** Also at the end of every call, those included that grpc-js answers by itself (a message too large). */
  finish(): void {
    clearTimeout(this.#timer);
    if (!this.#requestEnded) resetSoon(this.#internals);
  }

  giveUp(sent: CallStatus): void {
    clearTimeout(this.#timer);
    this.inner.sendStatus(sent);
  }

  #waitForCeiling(): void {
    if (this.#ceilingMs !== undefined) {
      this.#timer = setTimeout(callIsLate, this.#ceilingMs - Date.now(), this);
    }
  }
}

class LimitedListener extends ForwardingListener {
  constructor(
    next: CallListener,
    private readonly call: LimitedCall,
  ) {
    super(next);
  }

  override onReceiveHalfClose(): void {
    this.call.requestEnded();
    super.onReceiveHalfClose();
  }

  override onCancel(): void {
    this.call.finish();
    super.onCancel();
  }
}

function requestIsLate(call: LimitedCall): void {
  call.requestTimeUp();
}

function callIsLate(call: LimitedCall): void {
  call.giveUp(ceilingReached());
}

function nothing(): void {}

/** Lets the status go first: Node closes the stream when what was written has been sent. */
function resetSoon(internals: CallInternals | undefined): void {
  setImmediate(() => {
    const stream = internals?.stream;
    if (stream === undefined || stream.destroyed || stream.closed) return;
    if (stream.state.remoteClose !== 1) stream.close(constants.NGHTTP2_NO_ERROR);
  });
}

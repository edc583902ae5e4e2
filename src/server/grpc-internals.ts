import type { ServerHttp2Stream } from 'node:http2';
import type { ServerInterceptingCallInterface } from '@grpc/grpc-js';
import type { CallStatus } from '../rpc/interceptors/forwarding-call.js';

/**
 * The one place that reaches behind the public interface of grpc-js (1.14.7, pinned exactly), because two
 * limits cannot be set in front of it, and what it answers by itself passes no interceptor. A test of ours fails when another
 * version looks different inside.
 */
export interface CallInternals {
  /** The HTTP/2 stream under the call. */
  readonly stream: ServerHttp2Stream;
  /** The innermost call; grpc-js sends its own statuses with this method. */
  readonly base: { sendStatus(status: CallStatus): void };
  /** Cuts the received bytes into messages; what `write` throws ends the call with RESOURCE_EXHAUSTED. */
  readonly decoder: { write(data: Buffer): Buffer[] };
}

interface Layer {
  readonly stream?: ServerHttp2Stream;
  readonly decoder?: { write(data: Buffer): Buffer[] };
  readonly nextCall?: object;
  sendStatus?(status: CallStatus): void;
}

/** Interceptors around a call; more of them than this is a loop. */
const MAX_LAYERS = 32;

/** What is under all interceptors, or undefined where grpc-js is built otherwise. */
export function internalsOf(call: ServerInterceptingCallInterface): CallInternals | undefined {
  let layer: Layer | undefined = call;
  for (let depth = 0; layer !== undefined && depth < MAX_LAYERS; depth += 1) {
    const { stream, decoder, nextCall }: Layer = layer;
    if (typeof stream?.close === 'function' && typeof decoder?.write === 'function')
      return { stream, decoder, base: layer as CallInternals['base'] };
    layer = nextCall;
  }
  return undefined;
}

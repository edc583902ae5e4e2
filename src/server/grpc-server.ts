import { constants } from 'node:http2';
import { Server, type ServerInterceptor } from '@grpc/grpc-js';
import type { CallObserver } from '../rpc/call-record.js';
import type { GrpcService } from '../rpc/grpc-adapter.js';
import { observeCalls } from '../rpc/interceptors/observe-calls.js';
import { callLimits, type CallTimeouts } from './call-limits.js';
import { internalsOf } from './grpc-internals.js';
import { GRPC_SERVER_OPTIONS } from './limits.js';

export interface GrpcServerOptions {
  readonly services: readonly GrpcService[];
  /** Told of every call when it has ended: the log and the metrics. */
  readonly observers: readonly CallObserver[];
  /** Milliseconds; the limits' own unless it is given. */
  readonly connectionMaxAgeMs?: number;
  readonly callTimeouts?: CallTimeouts;
}

/** The grpc-js server behind the listener: it is never bound to a port of its own. */
export function grpcServer(options: GrpcServerOptions): Server {
  const server = new Server({
    ...GRPC_SERVER_OPTIONS,
    ...(options.connectionMaxAgeMs === undefined
      ? {}
      : { 'grpc.max_connection_age_ms': options.connectionMaxAgeMs }),
    // The first is the nearest to the wire, so that the observers see what the limits answer.
    interceptors: [observeCalls(options.observers, cutStream), callLimits(options.callTimeouts)],
  });
  for (const { definition, implementation } of options.services)
    server.addService(definition, implementation);
  return server;
}

/** Ends a call's HTTP/2 stream without waiting for its reader to take anything. */
function cutStream(call: Parameters<ServerInterceptor>[1]): void {
  const stream = internalsOf(call)?.stream;
  if (stream !== undefined && !stream.destroyed) stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
}

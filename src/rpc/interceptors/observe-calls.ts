import {
  type Metadata,
  ResponderBuilder,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  type ServerMethodDefinition,
  status,
} from '@grpc/grpc-js';
import { peerOf } from '../../identity/connection-peer.js';
import { attachRecord, type CallObserver, type CallRecord } from '../call-record.js';
import { newId } from '../new-id.js';

/** What a caller may call its request; anything else is not worth a line in our log. */
const CLIENT_REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

const CLIENT_REQUEST_ID_KEY = 'x-request-id';

/**
 * An interceptor that makes a record of each call and tells the observers how it ended. It must be the first of the
 * list: the nearest to the wire, it sees what every other one answers, and also calls that never reach a handler.
 *
 * @param cut ends the HTTP/2 stream of a call at once
 */
export function observeCalls(
  observers: readonly CallObserver[],
  cut: (call: Parameters<ServerInterceptor>[1]) => void,
): ServerInterceptor {
  return (method: ServerMethodDefinition<unknown, unknown>, call) => {
    const record: CallRecord = {
      requestId: newId('req'),
      method: method.path.slice(1),
      streams: method.responseStream,
      // Asked when the call begins: a session that ends later has no peer any more.
      peer: peerOf(call),
      startedAtMs: performance.now(),
      cut: () => cut(call),
    };
    let ended = false;
    const end = (code: status): void => {
      if (ended) return;
      ended = true;
      const durationMs = performance.now() - record.startedAtMs;
      for (const observer of observers) observer.ended(record, code, durationMs);
    };
    const listener = new ServerListenerBuilder()
      .withOnReceiveMetadata((metadata, next) => {
        const clientRequestId = clientRequestIdOf(metadata);
        if (clientRequestId !== undefined) record.clientRequestId = clientRequestId;
        attachRecord(metadata, record);
        next(metadata);
      })
      // Also comes after a status that grpc-js sent by itself, and after ours, when it says nothing new.
      .withOnCancel(() => end(isPast(call.getDeadline()) ? status.DEADLINE_EXCEEDED : status.CANCELLED))
      .build();
    const responder = new ResponderBuilder()
      .withStart((next) => next(listener))
      .withSendStatus((sent, next) => {
        end(sent.code ?? status.UNKNOWN);
        next(sent);
      })
      .build();
    return new ServerInterceptingCall(call, responder);
  };
}

function clientRequestIdOf(metadata: Metadata): string | undefined {
  const [value] = metadata.get(CLIENT_REQUEST_ID_KEY);
  return typeof value === 'string' && CLIENT_REQUEST_ID.test(value) ? value : undefined;
}

function isPast(deadline: Date | number): boolean {
  return Number(deadline) <= Date.now();
}

import {
  type Metadata,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  type ServerMethodDefinition,
  status,
} from '@grpc/grpc-js';
import { peerOf } from '../../identity/connection-peer.js';
import { attachRecord, type CallObserver, type CallRecord } from '../call-record.js';
import { newId } from '../new-id.js';
import { type CallListener, type CallStatus, ForwardingCall, ForwardingListener } from './forwarding-call.js';

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
      clientRequestId: undefined,
      kind: undefined,
      domainId: undefined,
      reason: undefined,
    };
    return new ObservedCall(call, record, observers);
  };
}

class ObservedCall extends ForwardingCall {
  readonly #record: CallRecord;
  readonly #observers: readonly CallObserver[];
  #ended = false;

  constructor(
    inner: ServerInterceptingCallInterface,
    record: CallRecord,
    observers: readonly CallObserver[],
  ) {
    super(inner);
    this.#record = record;
    this.#observers = observers;
  }

  override start(listener: CallListener): void {
    this.inner.start(new ObservedListener(listener, this.#record, this));
  }

  override sendStatus(sent: CallStatus): void {
    this.end(sent.code ?? status.UNKNOWN);
    this.inner.sendStatus(sent);
  }

  /** Also comes after a status that grpc-js sent by itself, and after ours, when it says nothing new. */
  cancelled(): void {
    this.end(Number(this.getDeadline()) <= Date.now() ? status.DEADLINE_EXCEEDED : status.CANCELLED);
  }

  private end(code: status): void {
    if (this.#ended) return;
    this.#ended = true;
    const durationMs = performance.now() - this.#record.startedAtMs;
    for (const observer of this.#observers) observer.ended(this.#record, code, durationMs);
  }
}

class ObservedListener extends ForwardingListener {
  constructor(
    next: CallListener,
    private readonly record: CallRecord,
    private readonly call: ObservedCall,
  ) {
    super(next);
  }

  override onReceiveMetadata(metadata: Metadata): void {
    const { record } = this;
    record.clientRequestId = clientRequestIdOf(metadata);
    attachRecord(metadata, record);
    super.onReceiveMetadata(metadata);
  }

  override onCancel(): void {
    this.call.cancelled();
    super.onCancel();
  }
}

function clientRequestIdOf(metadata: Metadata): string | undefined {
  const [value] = metadata.get(CLIENT_REQUEST_ID_KEY);
  return typeof value === 'string' && CLIENT_REQUEST_ID.test(value) ? value : undefined;
}

import { type Metadata, ServerInterceptingCall, type ServerInterceptingCallInterface } from '@grpc/grpc-js';

/** Who is told what a caller sends. */
export type CallListener = Parameters<ServerInterceptingCallInterface['start']>[0];

/** The status that ends a call. */
export type CallStatus = Parameters<ServerInterceptingCallInterface['sendStatus']>[0];

/**
 * A call that hands everything on as it is; an interceptor overrides what it is about. The builders of grpc-js make the
 * same of closures that may answer later, which costs each call a dozen objects for every interceptor.
 */
export class ForwardingCall extends ServerInterceptingCall {
  protected readonly inner: ServerInterceptingCallInterface;

  /** @param inner the next one towards the wire */
  constructor(inner: ServerInterceptingCallInterface) {
    super(inner);
    this.inner = inner;
  }

  override start(listener: CallListener): void {
    this.inner.start(listener);
  }

  override sendMetadata(metadata: Metadata): void {
    this.inner.sendMetadata(metadata);
  }

  override sendMessage(message: unknown, callback: () => void): void {
    this.inner.sendMessage(message, callback);
  }

  override sendStatus(status: CallStatus): void {
    this.inner.sendStatus(status);
  }
}

/**
 * A listener that hands everything on, and nothing more once the call was cancelled: grpc-js still tells of the end of a
 * request whose call it has ended, and no handler may begin then.
 */
export class ForwardingListener implements CallListener {
  #cancelled = false;

  /** @param next the next one towards the handler */
  constructor(protected readonly next: CallListener) {}

  onReceiveMetadata(metadata: Metadata): void {
    if (!this.#cancelled) this.next.onReceiveMetadata(metadata);
  }

  onReceiveMessage(message: unknown): void {
    if (!this.#cancelled) this.next.onReceiveMessage(message);
  }

  onReceiveHalfClose(): void {
    if (!this.#cancelled) this.next.onReceiveHalfClose();
  }

  onCancel(): void {
    this.#cancelled = true;
    this.next.onCancel();
  }
}

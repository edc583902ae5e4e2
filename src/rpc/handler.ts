import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import type { GenService, GenServiceMethods } from '@bufbuild/protobuf/codegenv2';
import type { ProofKeyCache } from '../identity/proof-key-cache.js';
import type { CommandRunner } from '../lane/lanes.js';
import type { Caller, CallerKind } from '../ledger/types.js';
import type { Reader } from '../store/reader.js';

/** What a handler knows of its call besides the request. */
export interface CallContext {
  /** The authenticated peer. */
  readonly caller: Caller;
  /** What the method table took the caller for; the transaction reads the row again and decides. */
  readonly kind: CallerKind;
  /** The domain that the call acts in. */
  readonly domainId: string;
  /** Minted per call; also the command id, and in every log line of the call. */
  readonly requestId: string;
  /** `performance.now()` value of the caller's deadline. */
  readonly deadline?: number | undefined;
  /** Aborted when the caller is gone or the connection's identity ends. */
  readonly signal: AbortSignal;
}

/** What handlers are built from. */
export interface HandlerTools {
  readonly commands: CommandRunner;
  readonly reader: Reader;
  /** A fresh id: the prefix, `_`, the time and 85 random bits in lower-case base32. */
  readonly newId: (prefix: string) => string;
  /** Public keys of workloads, by domain and thumbprint (`src/rpc/proof-keys.ts`); who stores a key forgets its miss. */
  readonly proofKeys: ProofKeyCache;
}

/** Answers one request; refuses by throwing `Refused`. */
export type UnaryHandler<I extends DescMessage, O extends DescMessage> = (
  request: MessageShape<I>,
  context: CallContext,
) => Promise<MessageInitShape<O>>;

/** Answers one request with a stream; refuses by throwing `Refused`. */
export type StreamHandler<I extends DescMessage, O extends DescMessage> = (
  request: MessageShape<I>,
  context: CallContext,
) => AsyncIterable<MessageInitShape<O>>;

/** Answers a stream of requests with a stream; refuses by throwing `Refused`. */
export type BidiHandler<I extends DescMessage, O extends DescMessage> = (
  requests: AsyncIterable<MessageShape<I>>,
  context: CallContext,
) => AsyncIterable<MessageInitShape<O>>;

/** One handler per method of a service, by the method's local name. */
export type ServiceHandlers<Methods extends GenServiceMethods> = {
  readonly [Name in keyof Methods]: Methods[Name]['methodKind'] extends 'server_streaming'
    ? StreamHandler<Methods[Name]['input'], Methods[Name]['output']>
    : Methods[Name]['methodKind'] extends 'bidi_streaming'
      ? BidiHandler<Methods[Name]['input'], Methods[Name]['output']>
      : UnaryHandler<Methods[Name]['input'], Methods[Name]['output']>;
};

/** A service with its handlers, ready to be served. */
export interface ServiceBinding {
  readonly service: GenService<GenServiceMethods>;
  readonly handlers: ServiceHandlers<GenServiceMethods>;
}

/** Ties handlers to their service; the types hold them against each other. */
export function bind<Methods extends GenServiceMethods>(
  service: GenService<Methods>,
  handlers: ServiceHandlers<Methods>,
): ServiceBinding {
  return { service, handlers };
}

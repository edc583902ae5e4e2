import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import type { GenService, GenServiceMethods } from '@bufbuild/protobuf/codegenv2';
import {
  Client,
  credentials,
  type Metadata,
  Metadata as MetadataClass,
  type ServiceError,
} from '@grpc/grpc-js';
import { checkClientIdentity, type ClientIdentity } from './client-identity.js';
import { suretyError } from './surety-error.js';

export type { ClientIdentity } from './client-identity.js';

/** How one call is made. */
export interface CallOptions {
  /** In milliseconds. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly metadata?: Metadata;
}

/** After so long a call is given up where its caller says nothing, in milliseconds; it may then still have been done. */
const DEFAULT_TIMEOUT_MS = 30_000;

const LOOPBACK = /^(?:127\.0\.0\.1|\[::1\]):/;

/** One function per method: unary ones answer a promise, streaming ones an async iterable. */
export type ServiceClient<Methods extends GenServiceMethods> = {
  readonly [Name in keyof Methods]: Methods[Name]['methodKind'] extends 'server_streaming'
    ? (
        request: MessageInitShape<Methods[Name]['input']>,
        options?: CallOptions,
      ) => AsyncIterable<MessageShape<Methods[Name]['output']>>
    : (
        request: MessageInitShape<Methods[Name]['input']>,
        options?: CallOptions,
      ) => Promise<MessageShape<Methods[Name]['output']>>;
};

/** Who shows no certificate finds out at the service that there is no such mode. */
export type Anonymous = Pick<ClientIdentity, 'roots'>;

/** A connection to the service over mutual TLS. */
export class Channel {
  private readonly client: Client;

  /**
   * @param target `host:port`
   * @throws {ClientIdentityInvalid}
   */
  constructor(
    private readonly target: string,
    identity: ClientIdentity | Anonymous,
  ) {
    const shown = 'certificate' in identity ? identity : undefined;
    if (shown) checkClientIdentity(shown);
    this.client = new Client(
      target,
      credentials.createSsl(identity.roots, shown?.key ?? null, shown?.certificate ?? null),
      {
        // Each channel its own connection: two identities never share one.
        'grpc.use_local_subchannel_pool': 1,
        // RFC 6066 knows no addresses as server names; the development certificate names localhost.
        ...(LOOPBACK.test(target) ? { 'grpc.ssl_target_name_override': 'localhost' } : {}),
      },
    );
  }

  /** The typed methods of one service. */
  service<Methods extends GenServiceMethods>(service: GenService<Methods>): ServiceClient<Methods> {
    const methods: Record<string, unknown> = {};
    for (const method of service.methods) {
      methods[method.localName] =
        method.methodKind === 'server_streaming'
          ? (request: object, options: CallOptions = {}) => this.stream(method, request, options)
          : (request: object, options: CallOptions = {}) => this.unary(method, request, options);
    }
    return methods as ServiceClient<Methods>;
  }

  close(): void {
    this.client.close();
  }

  private unary(method: DescMethod, request: object, options: CallOptions): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const call = this.client.makeUnaryRequest(
        pathOf(method),
        (message: object) => encode(method.input, message),
        (bytes: Buffer) => fromBinary(method.output, bytes),
        request,
        options.metadata ?? new MetadataClass(),
        { deadline: Date.now() + (options.timeoutMs ?? DEFAULT_TIMEOUT_MS) },
        (error: ServiceError | null, reply?: unknown) =>
          error ? reject(suretyError(error, this.target)) : resolve(reply),
      );
      options.signal?.addEventListener('abort', () => call.cancel(), { once: true });
    });
  }

  private async *stream(method: DescMethod, request: object, options: CallOptions): AsyncGenerator<unknown> {
    const call = this.client.makeServerStreamRequest(
      pathOf(method),
      (message: object) => encode(method.input, message),
      (bytes: Buffer) => fromBinary(method.output, bytes),
      request,
      options.metadata ?? new MetadataClass(),
      options.timeoutMs === undefined ? {} : { deadline: Date.now() + options.timeoutMs },
    );
    options.signal?.addEventListener('abort', () => call.cancel(), { once: true });
    try {
      yield* call as AsyncIterable<unknown>;
    } catch (error) {
      throw suretyError(error as ServiceError, this.target);
    } finally {
      call.cancel();
    }
  }
}

function pathOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

function encode(schema: DescMessage, init: object): Buffer {
  return Buffer.from(toBinary(schema, create(schema, init as never)));
}

import {
  create,
  type DescMessage,
  type DescMethod,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import type {
  handleBidiStreamingCall,
  handleServerStreamingCall,
  handleUnaryCall,
  MethodDefinition,
  sendUnaryData,
  ServerDuplexStream,
  ServerUnaryCall,
  ServerWritableStream,
  ServiceDefinition,
  StatusObject,
  UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { METHOD_TABLE, type MethodRow } from '../identity/method-table.js';
import { type Refusal, refusal } from '../ledger/refusal.js';
import { Refused } from '../ledger/run-decision.js';
import type { Admission, Admitted, CallGate } from './call-gate.js';
import { type CallRecord, recordOf } from './call-record.js';
import { decodeRequest } from './decode-request.js';
import type { BidiHandler, CallContext, ServiceBinding, StreamHandler, UnaryHandler } from './handler.js';
import { domainFinder, type DomainFinder } from './request-domain.js';
import { ReaderStalled, sendReplies } from './send-replies.js';
import { grpcStatus, internalRefusal, ProtocolRefused, refusalOf } from './status.js';
import { LiveStreams, type StreamLife } from './stream-life.js';

type Request = MessageShape<DescMessage>;
type Reply = MessageInitShape<DescMessage>;
type UnaryCall = ServerUnaryCall<Buffer, Buffer>;
type StreamingCall = ServerWritableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>;

/** The part of a pino logger that the adapter needs. */
export interface ErrorLog {
  error(fields: object, message: string): void;
}

export interface AdapterOptions {
  readonly gate: CallGate;
  readonly log: ErrorLog;
  /** Bytes of one reply, below what grpc-js would refuse without a reason. */
  readonly maxReplyBytes: number;
  /** How often a long call is asked again who it is, in milliseconds. */
  readonly readmitMs?: number;
  /** How long a reader may take for what was sent, in milliseconds. */
  readonly stallMs?: number;
}

/** What grpc-js takes: `server.addService(service.definition, service.implementation)`. */
export interface GrpcService {
  readonly definition: ServiceDefinition;
  readonly implementation: UntypedServiceImplementation;
}

/** As often as the registry is asked for other calls (identity.md, Callers). */
const READMIT_MS = 5_000;

/** Longer than a healthy network's worst pause; what waits meanwhile is bounded. */
const STALL_MS = 60_000;

/**
 * Serves bindings with grpc-js. Bytes go in and come out of grpc-js; decoding, admission, the deadline, the end of the
 * caller and every error are handled here, alike for all methods (architecture.md, grpc-js).
 */
export class GrpcAdapter {
  readonly #options: AdapterOptions;
  readonly #streams = new LiveStreams();
  #unary = 0;

  constructor(options: AdapterOptions) {
    this.#options = options;
  }

  /** Calls that are being answered. */
  get activeCalls(): number {
    return this.#unary + this.#streams.size;
  }

  /** Ends every stream with a refusal: the watches of a service that drains. */
  endStreams(refused: Refusal): void {
    this.#streams.endAll(new Refused(refused));
  }

  /** @throws when a method of the service has no row in the method table */
  serve({ service, handlers }: ServiceBinding): GrpcService {
    const definition: Record<string, MethodDefinition<Buffer, Buffer>> = {};
    const implementation: UntypedServiceImplementation = {};
    for (const method of service.methods) {
      definition[method.name] = methodDefinition(method);
      const served = servedMethod(method, (handlers as Readonly<Record<string, unknown>>)[method.localName]);
      implementation[method.name] = this.#implementation(served);
    }
    return { definition, implementation };
  }

  #implementation(
    method: ServedMethod,
  ):
    | handleUnaryCall<Buffer, Buffer>
    | handleServerStreamingCall<Buffer, Buffer>
    | handleBidiStreamingCall<Buffer, Buffer> {
    if (method.kind === 'unary') {
      return (call: UnaryCall, callback) => void this.#answer(method, call, callback);
    }
    return (call: StreamingCall) => void this.#stream(method, call, recordOf(call.metadata));
  }

  async #answer(method: ServedMethod, call: UnaryCall, callback: sendUnaryData<Buffer>): Promise<void> {
    const record = recordOf(call.metadata);
    let reply: Buffer | null = null;
    let failure: (StatusObject & Error) | null = null;
    this.#unary += 1;
    try {
      reply = await this.#unaryReply(method, call, record);
    } catch (error) {
      failure = this.#failure(record, error);
    }
    this.#unary -= 1;
    callback(failure, reply);
  }

  async #unaryReply(method: ServedMethod, call: UnaryCall, record: CallRecord): Promise<Buffer> {
    const decoded = decodeRequest(method.input, call.request);
    const admission = admissionOf(method, record, decoded);
    const { gate } = this.#options;
    const admitted = gate.admitRemembered(admission) ?? (await gate.admit(admission));
    note(record, admitted);
    const handler = method.handler as UnaryHandler<DescMessage, DescMessage>;
    const context = new UnaryContext(record, admitted, call);
    return this.#encode(method, await handler((decoded as { request: Request }).request, context));
  }

  async #stream(method: ServedMethod, call: StreamingCall, record: CallRecord): Promise<void> {
    const life = this.#streams.begin(call, record.peer.closed);
    try {
      const replies = await this.#streamReplies(method, call, record, life);
      const encode = (reply: Reply): Buffer => this.#encode(method, reply);
      await sendReplies(call, replies, encode, life.signal, this.#options.stallMs ?? STALL_MS);
      call.end();
    } catch (error) {
      // Somebody who is gone is told nothing, and whatever his handler threw because of it is no bug.
      if (!life.callerGone) call.emit('error', this.#failure(record, life.cause ?? error));
      if (error instanceof ReaderStalled) record.cut();
    } finally {
      life.end();
    }
  }

  async #streamReplies(
    method: ServedMethod,
    call: StreamingCall,
    record: CallRecord,
    life: StreamLife,
  ): Promise<AsyncIterable<Reply>> {
    const decoded =
      method.kind === 'server_streaming' ? decodeRequest(method.input, requestOf(call)) : undefined;
    const admitted = await this.#options.gate.admit(admissionOf(method, record, decoded));
    note(record, admitted);
    life.readmitEvery(this.#options.readmitMs ?? READMIT_MS, () =>
      this.#options.gate.readmit(record.peer, method.row, admitted),
    );
    const { requestId } = record;
    const context: CallContext = { ...admitted, requestId, deadline: deadlineOf(call), signal: life.signal };
    if (decoded === undefined) {
      const handler = method.handler as BidiHandler<DescMessage, DescMessage>;
      return handler(decodeAll(method.input, call as ServerDuplexStream<Buffer, Buffer>), context);
    }
    const handler = method.handler as StreamHandler<DescMessage, DescMessage>;
    return handler((decoded as { request: Request }).request, context);
  }

  #encode({ output, input }: ServedMethod, reply: Reply): Buffer {
    const bytes = toBinary(output, create(output, reply));
    if (bytes.length > this.#options.maxReplyBytes) throw tooLarge(input);
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  #failure(record: CallRecord, error: unknown): StatusObject & Error {
    if (error instanceof ProtocolRefused) return serviceError(error.status);
    let refused = refusalOf(error);
    if (refused === undefined) {
      refused = internalRefusal(record.requestId);
      this.#options.log.error(
        { requestId: record.requestId, method: record.method, error: describe(error) },
        'internal error',
      );
    }
    record.reason = refused.reason;
    return serviceError(grpcStatus(refused, { 'x-request-id': record.requestId }));
  }
}

function serviceError(status: StatusObject): StatusObject & Error {
  return Object.assign(status, { name: 'ServiceError', message: status.details });
}

interface ServedMethod {
  /** `package.Service/Method`. */
  readonly path: string;
  readonly kind: DescMethod['methodKind'];
  readonly input: DescMessage;
  readonly output: DescMessage;
  readonly row: MethodRow;
  readonly findDomain: DomainFinder;
  readonly handler: unknown;
}

function servedMethod(method: DescMethod, handler: unknown): ServedMethod {
  const path = `${method.parent.typeName}/${method.name}`;
  const row = METHOD_TABLE.get(path);
  if (row === undefined) throw new Error(`${path} has no row in the method table`);
  if (typeof handler !== 'function') throw new Error(`${path} has no handler`);
  const { methodKind: kind, input, output } = method;
  return { path, kind, input, output, row, findDomain: domainFinder(method, row), handler };
}

function admissionOf(
  { path, row, findDomain }: ServedMethod,
  { peer }: CallRecord,
  decoded: ReturnType<typeof decodeRequest> | undefined,
): Admission {
  const request = decoded !== undefined && 'request' in decoded ? decoded.request : undefined;
  const violation = decoded !== undefined && 'violation' in decoded ? decoded.violation : undefined;
  return { method: path, row, peer, domain: findDomain(request), violation };
}

function note(record: CallRecord, { kind, domainId }: Admitted): void {
  record.kind = kind;
  record.domainId = domainId;
}

const asIs = (bytes: Buffer): Buffer => bytes;

function methodDefinition(method: DescMethod): MethodDefinition<Buffer, Buffer> {
  const { methodKind: kind } = method;
  return {
    path: `/${method.parent.typeName}/${method.name}`,
    requestStream: kind === 'bidi_streaming' || kind === 'client_streaming',
    responseStream: kind === 'bidi_streaming' || kind === 'server_streaming',
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
}

function requestOf(call: StreamingCall): Buffer {
  return (call as ServerWritableStream<Buffer, Buffer>).request;
}

async function* decodeAll(
  schema: DescMessage,
  call: ServerDuplexStream<Buffer, Buffer>,
): AsyncIterable<Request> {
  for await (const bytes of messagesOf(call)) {
    const decoded = decodeRequest(schema, bytes);
    if ('violation' in decoded) {
      throw new Refused(
        refusal('FIELD_INVALID', 'The request breaks a rule of its fields.', {
          violations: [decoded.violation],
        }),
      );
    }
    yield decoded.request;
  }
}

/** Node's own iterator destroys a stream at its end or error, and with it the way back, before the status is sent. */
async function* messagesOf(call: ServerDuplexStream<Buffer, Buffer>): AsyncIterable<Buffer> {
  let wake = (): void => {};
  for (const event of ['readable', 'end', 'close']) call.on(event, () => wake());
  for (;;) {
    const bytes = call.read() as Buffer | null;
    if (bytes !== null) yield bytes;
    else if (call.readableEnded || call.destroyed) return;
    else await new Promise<void>((resolve) => (wake = resolve));
  }
}

/** As `performance.now()` counts. */
function deadlineOf(call: UnaryCall | StreamingCall): number | undefined {
  const left = Number(call.getDeadline()) - Date.now();
  return Number.isFinite(left) ? performance.now() + left : undefined;
}

/** Makes the signal only for the handler that asks for it; most never do. */
class UnaryContext implements CallContext {
  readonly caller: CallContext['caller'];
  readonly kind: CallContext['kind'];
  readonly domainId: string;
  readonly requestId: string;
  readonly deadline: number | undefined;
  readonly #call: UnaryCall;
  #signal: AbortSignal | undefined;

  constructor({ requestId }: CallRecord, { caller, kind, domainId }: Admitted, call: UnaryCall) {
    this.caller = caller;
    this.kind = kind;
    this.domainId = domainId;
    this.requestId = requestId;
    this.deadline = deadlineOf(call);
    this.#call = call;
  }

  get signal(): AbortSignal {
    if (this.#signal === undefined) {
      const controller = new AbortController();
      // grpc-js tells of the end of a unary call once, whoever ended it.
      if (this.#call.cancelled) controller.abort();
      else this.#call.once('cancelled', () => controller.abort());
      this.#signal = controller.signal;
    }
    return this.#signal;
  }
}

/** grpc-js would say RESOURCE_EXHAUSTED without a word on what to do about it. */
function tooLarge(input: DescMessage): Error {
  const paged = input.fields.some(({ name }) => name === 'page_size');
  if (!paged) return new Error(`a reply to ${input.typeName} is larger than a message may be`);
  const violations = [
    { field: 'page_size', rule: 'must be smaller: the page is larger than a message may be' },
  ];
  return new Refused(refusal('FIELD_INVALID', 'The page is larger than a message may be.', { violations }));
}

/** For the log: where it was thrown. Of what was thrown only its own text, never the rows or values that came with it. */
function describe(error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error };
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {};
  const cause = error.cause instanceof Error ? { cause: describe(error.cause) } : {};
  return { type: error.name, stack: error.stack, ...code, ...cause };
}

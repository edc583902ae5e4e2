import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf';
import { anyUnpack } from '@bufbuild/protobuf/wkt';
import {
  Client,
  type ClientOptions,
  type ClientReadableStream,
  credentials,
  Metadata,
  type ServiceError,
  status,
  type status as StatusCode,
} from '@grpc/grpc-js';
import { BadRequestSchema, ErrorInfoSchema } from '../../src/gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../src/gen/google/rpc/status_pb.js';
import { readTrustBundles } from '../../src/identity/trust-bundles.js';
import type { OperatorRow, OwnerRow } from '../../src/ledger/authority/records.js';
import type { Reads } from '../../src/ledger/reads.js';
import type { CallerKind, Micros } from '../../src/ledger/types.js';
import type { WorkingSet } from '../../src/ledger/working-set.js';
import { CallGate } from '../../src/rpc/call-gate.js';
import type { CallObserver, CallRecord } from '../../src/rpc/call-record.js';
import { CallerRegistry } from '../../src/rpc/caller-registry.js';
import { type AdapterOptions, GrpcAdapter } from '../../src/rpc/grpc-adapter.js';
import type { ServiceBinding } from '../../src/rpc/handler.js';
import type { Reader } from '../../src/store/reader.js';
import type { CallTimeouts } from '../../src/server/call-limits.js';
import { grpcServer } from '../../src/server/grpc-server.js';
import { MAX_REPLY_BYTES } from '../../src/server/limits.js';
import { grpcProtocol, Listener } from '../../src/server/listener.js';
import { workingSet } from '../support/ledger-fixture.js';
import { Authority, BundleFolder, type Certificate } from '../support/pki.js';

export const SERVICE_DOMAIN = 'surety.test';
export const SERVICE_ID = 'spiffe://surety.test/surety';

export const CALLERS = {
  harness: 'spiffe://acme.test/harness/planner',
  executor: 'spiffe://acme.test/executor/payments-a',
  reconciler: 'spiffe://acme.test/reconciler/bank',
  worker: 'spiffe://acme.test/worker/mailer',
  owner: 'spiffe://acme.test/owner/olga',
  operator: 'spiffe://surety.test/operator/root',
  auditor: 'spiffe://surety.test/auditor/ann',
} as const satisfies Record<CallerKind, string>;

const OPERATOR: OperatorRow = {
  spiffeId: CALLERS.operator,
  signingKeyJwk: null,
  signingKeyThumbprint: null,
  roles: ['ADMIN', 'AUDITOR'],
  scopeDomainId: null,
  status: 'active',
  revision: 1n,
};

/** A store in memory that knows who is who; as much of a `Reader` as the registry uses. */
export class FakeRegistry implements Reader {
  readonly kinds = new Map<string, Map<string, CallerKind>>([
    [
      SERVICE_DOMAIN,
      new Map([
        [CALLERS.operator, 'operator'],
        [CALLERS.auditor, 'auditor'],
      ] as const),
    ],
    [
      'acme.test',
      new Map<string, CallerKind>([
        [CALLERS.harness, 'harness'],
        [CALLERS.executor, 'executor'],
        [CALLERS.reconciler, 'reconciler'],
        [CALLERS.worker, 'worker'],
        [CALLERS.owner, 'owner'],
      ]),
    ],
    ['globex.test', new Map()],
  ]);
  readonly operators = new Map<string, OperatorRow>([
    [CALLERS.operator, OPERATOR],
    [CALLERS.auditor, { ...OPERATOR, spiffeId: CALLERS.auditor, roles: ['AUDITOR'] }],
  ]);
  /** Rows of acme.test's own. */
  readonly operatorsOfAcme = new Map<string, OperatorRow>();
  readonly owners = new Map<string, OwnerRow>([
    [
      CALLERS.owner,
      {
        spiffeId: CALLERS.owner,
        signingKeyJwk: '{}',
        signingKeyThumbprint: 'x',
        sourceScopes: [],
        typeScopes: [],
        status: 'active',
        revision: 1n,
      },
    ],
  ]);
  /** Domains that were read, in order. */
  readonly read: string[] = [];
  failure: Error | undefined;
  now: Micros = BigInt(Date.now()) * 1000n;

  async gather(domainId: string, reads: Reads): Promise<WorkingSet | undefined> {
    this.read.push(domainId);
    await new Promise((resolve) => setImmediate(resolve));
    if (this.failure !== undefined) throw this.failure;
    const kinds = this.kinds.get(domainId);
    if (kinds === undefined) return undefined;
    const ids = [...(reads.callers ?? reads.operators ?? [])];
    const here = domainId === SERVICE_DOMAIN ? this.operators : this.operatorsOfAcme;
    return workingSet({
      domainId,
      now: this.now,
      rows: {
        callers: ids.flatMap((spiffeId) => {
          const kind = kinds.get(spiffeId);
          return kind === undefined ? [] : [{ spiffeId, kind, refId: spiffeId }];
        }),
        operators: ids.flatMap((id) => here.get(id) ?? []),
        owners: ids.flatMap((id) => (domainId === SERVICE_DOMAIN ? [] : (this.owners.get(id) ?? []))),
      },
      absent: {
        callers: ids.map((id) => [id]),
        operators: ids.map((id) => [id]),
        owners: ids.map((id) => [id]),
      },
      platformOperators: Object.fromEntries(ids.map((id) => [id, this.operators.get(id)])),
    });
  }

  query(): Promise<never> {
    return Promise.reject(new Error('not used here'));
  }
}

/** A call as the observers saw it end. */
export interface Ended extends CallRecord {
  readonly code: StatusCode;
  readonly durationMs: number;
}

export interface RpcHarness {
  readonly registry: FakeRegistry;
  readonly gate: CallGate;
  readonly adapter: GrpcAdapter;
  readonly listener: Listener;
  readonly port: number;
  readonly ended: Ended[];
  readonly errors: { fields: Record<string, unknown>; message: string }[];
  /** Added to the store's clock, in microseconds. */
  readonly clock: { offset: Micros };
  readonly authorities: Readonly<Record<string, Authority>>;
  certificate(spiffeId: string): Certificate;
  client(spiffeId: string, options?: ClientOptions): TestClient;
  stop(): Promise<void>;
}

export interface RpcHarnessOptions {
  readonly adapter?: Partial<AdapterOptions>;
  readonly callTimeouts?: CallTimeouts;
}

/** Bindings behind the real adapter, gate, interceptors and TLS listener. Only the store is a fake. */
export async function startRpc(
  bindings: readonly ServiceBinding[],
  options: RpcHarnessOptions = {},
): Promise<RpcHarness> {
  const authorities: Record<string, Authority> = Object.fromEntries(
    ['surety.test', 'acme.test', 'globex.test'].map((domain) => [
      domain,
      Authority.root(`${domain} authority`),
    ]),
  );
  const folder = new BundleFolder();
  for (const [domain, authority] of Object.entries(authorities)) folder.bundle(domain, authority);
  const registry = new FakeRegistry();
  const clock = { offset: 0n };
  const storeNow = (): bigint => BigInt(Date.now()) * 1000n + clock.offset;
  const gate = new CallGate({
    registry: new CallerRegistry({ reader: registry, serviceDomainId: SERVICE_DOMAIN }),
    storeNow,
    serviceSpiffeId: SERVICE_ID,
  });
  const errors: RpcHarness['errors'] = [];
  const log = {
    error: (fields: object, message: string) => void errors.push({ fields: { ...fields }, message }),
  };
  const adapter = new GrpcAdapter({ gate, log, maxReplyBytes: MAX_REPLY_BYTES, ...options.adapter });
  const ended: Ended[] = [];
  const observer: CallObserver = {
    ended: (record, code, durationMs) => void ended.push({ ...record, code, durationMs }),
  };
  const server = grpcServer({
    services: bindings.map((binding) => adapter.serve(binding)),
    observers: [observer],
    ...(options.callTimeouts === undefined ? {} : { callTimeouts: options.callTimeouts }),
  });
  const certificates = new Map<string, Certificate>();
  const certificate = (spiffeId: string): Certificate => {
    const authority = authorities[new URL(spiffeId).host] as Authority;
    const names = spiffeId === SERVICE_ID ? { dnsNames: ['localhost'] } : {};
    const found = certificates.get(spiffeId) ?? authority.leaf(spiffeId, names);
    certificates.set(spiffeId, found);
    return found;
  };
  const own = certificate(SERVICE_ID);
  const listener = new Listener({
    host: '127.0.0.1',
    port: 0,
    certificate: { certificatePem: own.pem, keyPem: own.keyPem },
    bundles: (await readTrustBundles(folder.path)).bundles,
    protocol: grpcProtocol(server),
    log: { info: () => {}, warn: () => {}, error: () => {} },
    now: storeNow,
  });
  const { port } = await listener.listen();
  const clients: TestClient[] = [];
  return {
    registry,
    gate,
    adapter,
    listener,
    port,
    ended,
    errors,
    clock,
    authorities,
    certificate,
    client: (spiffeId, clientOptions) => {
      const root = (authorities[SERVICE_DOMAIN] as Authority).pem;
      const client = new TestClient(port, root, certificate(spiffeId), clientOptions);
      clients.push(client);
      return client;
    },
    stop: async () => {
      for (const client of clients) client.close();
      await listener.drain(0);
      folder.remove();
    },
  };
}

/** What a call came to. */
export interface CallResult {
  readonly code: string;
  readonly details: string;
  readonly reply: Buffer | undefined;
  readonly reason: string | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly { readonly field: string; readonly description: string }[];
  readonly trailers: Metadata;
}

const asIs = (value: Buffer): Buffer => value;

/** A gRPC client of bytes. */
export class TestClient {
  readonly client: Client;

  constructor(port: number, root: string, certificate: Certificate, options: ClientOptions = {}) {
    const channel = credentials.createSsl(
      Buffer.from(root),
      Buffer.from(certificate.keyPem),
      Buffer.from(certificate.pem),
    );
    this.client = new Client(`localhost:${port}`, channel, {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.enable_retries': 0,
      'grpc.max_receive_message_length': -1,
      ...options,
    });
  }

  call<I extends DescMessage>(
    method: DescMethod & { input: I },
    request: MessageInitShape<I> | Buffer = {} as MessageInitShape<I>,
    options: { headers?: Record<string, string>; timeoutMs?: number } = {},
  ): Promise<CallResult> {
    return new Promise((resolve) => {
      this.client.makeUnaryRequest(
        pathOf(method),
        asIs,
        asIs,
        encode(method.input, request),
        metadataOf(options.headers),
        { deadline: Date.now() + (options.timeoutMs ?? 20_000) },
        (error, reply) => resolve(resultOf(error, reply)),
      );
    });
  }

  stream<I extends DescMessage>(
    method: DescMethod & { input: I },
    request: MessageInitShape<I> | Buffer = {} as MessageInitShape<I>,
  ): ClientReadableStream<Buffer> {
    return this.client.makeServerStreamRequest(pathOf(method), asIs, asIs, encode(method.input, request));
  }

  close(): void {
    this.client.close();
  }
}

/** Reads a stream to its end. */
export function readAll(
  stream: ClientReadableStream<Buffer>,
): Promise<{ messages: Buffer[]; end: CallResult }> {
  const messages: Buffer[] = [];
  return new Promise((resolve) => {
    stream.on('data', (message: Buffer) => messages.push(message));
    stream.on('error', (error: ServiceError) => resolve({ messages, end: resultOf(error, undefined) }));
    stream.on('end', () => resolve({ messages, end: resultOf(null, undefined) }));
  });
}

/** A reader of a stream that takes nothing, over HTTP/2 itself: grpc-js's client reads ahead. */
export function slowReader(
  rpc: RpcHarness,
  spiffeId: string,
  method: DescMethod,
  request: Buffer,
): { readonly session: ClientHttp2Session; readonly stream: ClientHttp2Stream } {
  const { pem: cert, keyPem: key } = rpc.certificate(spiffeId);
  const ca = (rpc.authorities[SERVICE_DOMAIN] as Authority).pem;
  const session = connect(`https://localhost:${rpc.port}`, { ca, cert, key });
  session.on('error', () => {});
  const headers = { 'content-type': 'application/grpc', te: 'trailers' };
  const stream = session.request({ ':method': 'POST', ':path': pathOf(method), ...headers });
  stream.on('error', () => {});
  const frame = Buffer.alloc(5 + request.length);
  frame.writeUInt32BE(request.length, 1);
  request.copy(frame, 5);
  stream.end(frame);
  return { session, stream };
}

export function pathOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

function encode(schema: DescMessage, request: MessageInitShape<DescMessage> | Buffer): Buffer {
  return Buffer.isBuffer(request) ? request : Buffer.from(toBinary(schema, create(schema, request)));
}

function metadataOf(headers: Record<string, string> = {}): Metadata {
  const metadata = new Metadata();
  for (const [key, value] of Object.entries(headers)) metadata.set(key, value);
  return metadata;
}

export function resultOf(error: ServiceError | null, reply: Buffer | undefined): CallResult {
  if (error === null) {
    return {
      code: 'OK',
      details: '',
      reply,
      reason: undefined,
      metadata: {},
      violations: [],
      trailers: new Metadata(),
    };
  }
  const [bytes] = error.metadata?.get('grpc-status-details-bin') ?? [];
  const details = bytes === undefined ? [] : fromBinary(StatusSchema, bytes as Buffer).details;
  const [info] = details.flatMap((any) => anyUnpack(any, ErrorInfoSchema) ?? []);
  const [bad] = details.flatMap((any) => anyUnpack(any, BadRequestSchema) ?? []);
  return {
    code: status[error.code] ?? String(error.code),
    details: error.details,
    reply: undefined,
    reason: info?.reason,
    metadata: info?.metadata ?? {},
    violations: (bad?.fieldViolations ?? []).map(({ field, description }) => ({ field, description })),
    trailers: error.metadata,
  };
}

/** Polls until it holds. */
export async function until(holds: () => boolean, what: string, timeoutMs = 60_000): Promise<void> {
  const end = Date.now() + timeoutMs;
  while (!holds()) {
    if (Date.now() > end) throw new Error(`did not come: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import {
  Client,
  type ClientOptions,
  type ClientReadableStream,
  connectivityState,
  credentials,
  Metadata,
  Server,
  type ServerInterceptor,
  type ServerOptions,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type ServiceError,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { type ConnectionPeer, peerOf } from '../../src/identity/connection-peer.js';
import { readTrustBundles } from '../../src/identity/trust-bundles.js';
import { GRPC_SERVER_OPTIONS } from '../../src/server/limits.js';
import { grpcProtocol, Listener, type ListenerOptions } from '../../src/server/listener.js';
import type { ServerLog } from '../../src/server/refusal-log.js';
import { Authority, BundleFolder, type Certificate } from '../support/pki.js';

/** A service of bytes on the real listener, and clients for it. */

const bytes = (value: Buffer): Buffer => value;

function method(path: string, responseStream: boolean): ServiceDefinition[string] {
  return {
    path,
    requestStream: false,
    responseStream,
    requestSerialize: bytes,
    requestDeserialize: bytes,
    responseSerialize: bytes,
    responseDeserialize: bytes,
  };
}

export const SERVICE = {
  /** Answers with the peer as JSON, UNAUTHENTICATED where it is rejected. */
  WhoAmI: method('/test.Bytes/WhoAmI', false),
  /** Answers with the size of the request. */
  Size: method('/test.Bytes/Size', false),
  /** Never answers. */
  Hang: method('/test.Bytes/Hang', false),
  /** Sends one message, then stays open until the connection ends. */
  Watch: method('/test.Bytes/Watch', true),
  /** Sends messages for as long as they are taken. */
  Flood: method('/test.Bytes/Flood', true),
} satisfies ServiceDefinition;

type Unary = ServerUnaryCall<Buffer, Buffer>;
type Stream = ServerWritableStream<Buffer, Buffer>;
type Reply = (error: Partial<ServiceError> | null, value?: Buffer) => void;

export const FLOOD_MESSAGE_BYTES = 64 * 1024;

function implementation(seen: ConnectionPeer[], flood: { sent: number }): UntypedServiceImplementation {
  return {
    WhoAmI: (call: Unary, reply: Reply) => {
      const peer = peerOf(call);
      seen.push(peer);
      if (peer.rejected !== undefined) reply({ code: status.UNAUTHENTICATED, details: peer.rejected });
      else reply(null, Buffer.from(`${peer.spiffeId} ${call.metadata.get('x-spiffe-id').join()}`.trim()));
    },
    Size: (call: Unary, reply: Reply) => reply(null, Buffer.from(String(call.request.length))),
    Hang: () => {},
    Watch: (call: Stream) => {
      const peer = peerOf(call);
      call.write(Buffer.from('first'));
      peer.closed.addEventListener('abort', () => {
        const { rejection } = peer.closed.reason as { rejection?: string };
        call.emit('error', { code: status.UNAUTHENTICATED, details: rejection ?? 'closed' });
      });
    },
    Flood: (call: Stream) => {
      const message = Buffer.alloc(FLOOD_MESSAGE_BYTES, 7);
      const fill = (): void => {
        if (call.cancelled) return;
        flood.sent += 1;
        if (call.write(message)) setImmediate(fill);
        else call.once('drain', fill);
      };
      fill();
    },
  };
}

/** Keeps what was logged. */
export class Logged implements ServerLog {
  readonly lines: { level: string; fields: Record<string, unknown>; message: string }[] = [];
  info(fields: object, message: string): void {
    this.lines.push({ level: 'info', fields: { ...fields }, message });
  }
  warn(fields: object, message: string): void {
    this.lines.push({ level: 'warn', fields: { ...fields }, message });
  }
  error(fields: object, message: string): void {
    this.lines.push({ level: 'error', fields: { ...fields }, message });
  }
  get reasons(): unknown[] {
    return this.lines.flatMap(({ fields }) => (fields['reason'] === undefined ? [] : [fields['reason']]));
  }
}

export const SERVICE_ID = 'spiffe://surety.test/surety';
export const CALLER_ID = 'spiffe://acme.test/executor/payments-a';

export interface Harness {
  readonly listener: Listener;
  readonly port: number;
  readonly folder: BundleFolder;
  readonly log: Logged;
  /** Peers that WhoAmI saw, in order. */
  readonly seen: ConnectionPeer[];
  readonly flood: { sent: number };
  readonly authorities: { surety: Authority; acme: Authority; globex: Authority };
  readonly service: Certificate;
  stop(): Promise<void>;
}

export interface HarnessOptions {
  readonly listener?: Partial<ListenerOptions>;
  readonly server?: ServerOptions;
  readonly interceptors?: ServerInterceptor[];
}

export async function startHarness(options: HarnessOptions = {}): Promise<Harness> {
  const authorities = {
    surety: Authority.root('surety authority'),
    acme: Authority.root('acme authority'),
    globex: Authority.root('globex authority'),
  };
  const folder = new BundleFolder()
    .bundle('surety.test', authorities.surety)
    .bundle('acme.test', authorities.acme)
    .bundle('globex.test', authorities.globex);
  const service = authorities.surety.leaf(SERVICE_ID, {
    dnsNames: ['localhost'],
    ipAddresses: ['127.0.0.1'],
  });
  const seen: ConnectionPeer[] = [];
  const flood = { sent: 0 };
  const server = new Server({
    ...GRPC_SERVER_OPTIONS,
    ...options.server,
    interceptors: options.interceptors ?? [],
  });
  server.addService(SERVICE, implementation(seen, flood));
  const log = new Logged();
  const listener = new Listener({
    host: '127.0.0.1',
    port: 0,
    certificate: { certificatePem: service.pem, keyPem: service.keyPem },
    bundles: (await readTrustBundles(folder.path)).bundles,
    protocol: grpcProtocol(server),
    log,
    now: () => BigInt(Date.now()) * 1000n,
    ...options.listener,
  });
  const { port } = await listener.listen();
  let stopped: Promise<void> | undefined;
  return {
    listener,
    port,
    folder,
    log,
    seen,
    flood,
    authorities,
    service,
    stop: () => {
      stopped ??= listener.drain(0).then(() => folder.remove());
      return stopped;
    },
  };
}

/** What a call came to: the answer's text, or the code's name and the details. */
export interface Outcome {
  readonly code: string;
  readonly text: string;
}

/** A gRPC client of one certificate. */
export class Caller {
  readonly client: Client;

  /** @param chain what it presents; undefined presents nothing. */
  constructor(
    harness: Harness,
    chain: Certificate | undefined,
    sent: readonly Certificate[] = [],
    options: ClientOptions = {},
  ) {
    const secret = chain === undefined ? null : Buffer.from(chain.keyPem);
    const shown = chain === undefined ? null : Buffer.from([chain, ...sent].map(({ pem }) => pem).join(''));
    const channel = credentials.createSsl(Buffer.from(harness.authorities.surety.pem), secret, shown);
    this.client = new Client(`localhost:${harness.port}`, channel, {
      // Each caller a connection of its own.
      'grpc.use_local_subchannel_pool': 1,
      'grpc.enable_retries': 0,
      'grpc.max_send_message_length': -1,
      ...options,
    });
  }

  call(
    name: keyof typeof SERVICE,
    request = Buffer.alloc(0),
    headers: Record<string, string> = {},
  ): Promise<Outcome> {
    const metadata = new Metadata();
    for (const [key, value] of Object.entries(headers)) metadata.set(key, value);
    return new Promise((resolve) => {
      this.client.makeUnaryRequest(
        SERVICE[name].path,
        bytes,
        bytes,
        request,
        metadata,
        { deadline: Date.now() + 20_000 },
        (error, value) => {
          if (error !== null) resolve({ code: status[error.code] ?? '', text: error.details });
          else resolve({ code: 'OK', text: value?.toString() ?? '' });
        },
      );
    });
  }

  whoAmI(headers?: Record<string, string>): Promise<Outcome> {
    return this.call('WhoAmI', undefined, headers);
  }

  stream(name: keyof typeof SERVICE): ClientReadableStream<Buffer> {
    return this.client.makeServerStreamRequest(SERVICE[name].path, bytes, bytes, Buffer.alloc(0));
  }

  /** Whether its channel has a connection that works. */
  get connected(): boolean {
    return this.client.getChannel().getConnectivityState(false) === connectivityState.READY;
  }

  close(): void {
    this.client.close();
  }
}

/** Calls WhoAmI once with a certificate, on a connection of its own. */
export async function whoAmI(
  harness: Harness,
  chain: Certificate | undefined,
  sent: readonly Certificate[] = [],
): Promise<Outcome> {
  const caller = new Caller(harness, chain, sent);
  try {
    return await caller.whoAmI();
  } finally {
    caller.close();
  }
}

/** How a stream ended. */
export function endOf(stream: ClientReadableStream<Buffer>): Promise<Outcome> {
  return new Promise((resolve) => {
    stream.on('error', (error: ServiceError) =>
      resolve({ code: status[error.code] ?? '', text: error.details }),
    );
    stream.on('end', () => resolve({ code: 'OK', text: '' }));
    stream.resume();
  });
}

/** What an HTTP/2 client says first: the preface and empty SETTINGS. */
export const HTTP2_OPENING = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
]);

/** A raw TLS connection; resolves after the handshake, which does not yet mean that it was let in. */
export function rawTls(harness: Harness, options: ConnectionOptions = {}): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      host: '127.0.0.1',
      port: harness.port,
      servername: 'localhost',
      ca: harness.authorities.surety.pem,
      ALPNProtocols: ['h2'],
      ...options,
    });
    socket.once('error', reject);
    socket.once('secureConnect', () => {
      socket.off('error', reject);
      socket.on('error', () => {});
      resolve(socket);
    });
  });
}

/** A gRPC message frame. */
export function frame(content: Uint8Array, compressed = false): Buffer {
  const head = Buffer.alloc(5);
  head[0] = compressed ? 1 : 0;
  head.writeUInt32BE(content.length, 1);
  return Buffer.concat([head, content]);
}

/** An HTTP/2 client that sends what it is told to. */
export class RawCaller {
  readonly session: ClientHttp2Session;

  constructor(harness: Harness, certificate = harness.authorities.acme.leaf(CALLER_ID)) {
    this.session = connectHttp2(`https://localhost:${harness.port}`, {
      ca: harness.authorities.surety.pem,
      cert: certificate.pem,
      key: certificate.keyPem,
      // Its own limit must not be what ends a test of the server's.
      maxSessionMemory: 4_096,
    });
    this.session.on('error', () => {});
  }

  open(name: keyof typeof SERVICE, headers: OutgoingHttpHeaders = {}): ClientHttp2Stream {
    const stream = this.session.request({
      ':method': 'POST',
      ':path': SERVICE[name].path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    stream.on('error', () => {});
    return stream;
  }

  /** Sends `body` and ends the request unless told otherwise; resolves with the status, or how it was reset. */
  send(
    name: keyof typeof SERVICE,
    body: Uint8Array,
    headers: OutgoingHttpHeaders = {},
    end = true,
  ): Promise<Outcome> {
    const stream = this.open(name, headers);
    let received: IncomingHttpHeaders = {};
    const data: Buffer[] = [];
    stream.on('response', (response) => {
      received = { ...received, ...response };
    });
    stream.on('trailers', (trailers) => {
      received = { ...received, ...trailers };
    });
    stream.on('data', (chunk: Buffer) => data.push(chunk));
    stream.write(body);
    if (end) stream.end();
    return new Promise((resolve) => {
      stream.on('close', () => {
        const code = received['grpc-status'];
        if (code === undefined) resolve({ code: 'RESET', text: String(stream.rstCode) });
        else if (code === '0') resolve({ code: 'OK', text: Buffer.concat(data).subarray(5).toString() });
        else resolve({ code: status[Number(code)] ?? '', text: decodeURI(String(received['grpc-message'])) });
      });
    });
  }

  close(): void {
    this.session.destroy();
  }
}

/** Polls until it holds. */
export async function until(holds: () => boolean, what: string, timeoutMs = 60_000): Promise<void> {
  const end = Date.now() + timeoutMs;
  while (!holds()) {
    if (Date.now() > end) throw new Error(`did not come: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

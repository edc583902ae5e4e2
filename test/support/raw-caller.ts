import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { create, type DescMethod, toBinary } from '@bufbuild/protobuf';
import { Metadata, type ServiceError, status } from '@grpc/grpc-js';
import type { ClientIdentity } from '../../src/cli/client/service-client.js';
import { suretyError } from '../../src/cli/client/surety-error.js';

/** What a call came to. */
export interface RawOutcome {
  /** The gRPC code's name; `RESET` where the stream ended without a status, `OPEN` where a stream of replies has begun. */
  readonly code: string;
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly message: string;
}

/** Sends what no gRPC client would, over a real connection of its own. */
export class RawCaller {
  readonly session: ClientHttp2Session;

  constructor(target: string, identity: ClientIdentity) {
    this.session = connect(`https://${target}`, {
      ca: identity.roots,
      cert: identity.certificate,
      key: identity.key,
      servername: 'localhost',
      // Its own limit must not be what ends a test of the service's.
      maxSessionMemory: 4_096,
    });
    this.session.on('error', () => {});
  }

  /** Opens a call and sends nothing more. */
  open(path: string, headers: OutgoingHttpHeaders = {}): ClientHttp2Stream {
    const stream = this.session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    stream.on('error', () => {});
    return stream;
  }

  /** Sends a body as it is and ends the request. Resolves with its status, or at the first reply of a stream. */
  send(path: string, body: Uint8Array, headers: OutgoingHttpHeaders = {}): Promise<RawOutcome> {
    return outcomeOf(this.open(path, headers).end(body));
  }

  /** Calls a method with an encoded request. */
  call(method: DescMethod, request: object | Uint8Array = {}): Promise<RawOutcome> {
    const bytes =
      request instanceof Uint8Array
        ? request
        : toBinary(method.input, create(method.input, request as never));
    const stream = this.open(pathOf(method)).end(frame(bytes));
    return outcomeOf(stream, method.methodKind !== 'unary');
  }

  close(): void {
    this.session.destroy();
  }
}

/** A gRPC message frame. */
export function frame(content: Uint8Array, compressed = false): Buffer {
  const head = Buffer.alloc(5);
  head[0] = compressed ? 1 : 0;
  head.writeUInt32BE(content.length, 1);
  return Buffer.concat([head, content]);
}

export function pathOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** How a call ends; a stream of replies is closed at its first one. */
export function outcomeOf(stream: ClientHttp2Stream, streaming = false): Promise<RawOutcome> {
  let received: IncomingHttpHeaders = {};
  const note = (headers: IncomingHttpHeaders): void => {
    received = { ...received, ...headers };
  };
  stream.on('response', note);
  stream.on('trailers', note);
  stream.resume();
  return new Promise((resolve) => {
    const told = (code: string): void => resolve({ code, reason: '', metadata: {}, message: '' });
    if (streaming) {
      stream.once('data', () => {
        told('OPEN');
        stream.close();
      });
    }
    stream.on('close', () => {
      if (received['grpc-status'] === undefined) told('RESET');
      else if (received['grpc-status'] === '0') told('OK');
      else resolve(errorOf(received));
    });
  });
}

function errorOf(headers: IncomingHttpHeaders): RawOutcome {
  const metadata = new Metadata();
  const details = headers['grpc-status-details-bin'];
  if (typeof details === 'string') metadata.set('grpc-status-details-bin', Buffer.from(details, 'base64'));
  const code = Number(headers['grpc-status']);
  const message = decodeURIComponent(String(headers['grpc-message'] ?? ''));
  const error = suretyError({ code, details: message, metadata } as ServiceError);
  return { code: status[code] ?? '', reason: error.reason, metadata: error.metadata, message };
}

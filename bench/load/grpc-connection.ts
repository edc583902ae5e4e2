import { connect, type TLSSocket } from 'node:tls';
import type { ClientIdentity } from '../../src/cli/client/client-identity.js';
import {
  assignStream,
  type EncodedCall,
  FLAG,
  FRAME,
  FRAME_HEADER_BYTES,
  frame,
  PREFACE,
  replyMessage,
  settingsFrame,
  windowUpdateFrame,
} from './frames.js';

/** What a call came to: the reply's message, undefined where there was none. */
export type OnReply = (message: Buffer | undefined) => void;

interface OpenCall {
  readonly onReply: OnReply;
  data: Buffer | undefined;
}

const NOTHING = Buffer.alloc(0);
const NO_PUSH = [0x2, 0] as const;
/** RFC 9113, 6.9.2: what both windows begin with. */
const INITIAL_WINDOW = 65_535;
/** So much more the service may send on the connection before it is told to go on. */
const WINDOW_INCREMENT = 0x3000_0000;
/** Told again after so much of it was received. */
const WINDOW_REFILL = 0x1000_0000;
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * The cheapest gRPC client that there is in Node: HTTP/2 frames over a TLS socket, with requests that were encoded before.
 * On two cores a client that costs as much as the service measures itself.
 *
 * It makes unary calls and reads no header: a call of ours that is refused ends without a message, and one that is served
 * has exactly one. Words for a refusal are for the ordinary client to get.
 */
export class GrpcConnection {
  private nextStream = 1;
  private sendWindow = INITIAL_WINDOW;
  private received = 0;
  private rest: Buffer = NOTHING;
  private outgoing: Buffer[] = [];
  private isFlushing = false;
  private readonly waiting: { call: EncodedCall; onReply: OnReply }[] = [];
  private readonly calls = new Map<number, OpenCall>();
  private failure: Error | undefined;

  private constructor(private readonly socket: TLSSocket) {
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => this.receive(chunk));
    socket.on('error', () => this.fail('the connection broke'));
    socket.on('close', () => this.fail('the connection was closed'));
    const settings = settingsFrame([NO_PUSH]);
    socket.write(Buffer.concat([PREFACE, settings, windowUpdateFrame(0, WINDOW_INCREMENT)]));
  }

  /** @param target `host:port` */
  static open(target: string, identity: ClientIdentity): Promise<GrpcConnection> {
    const [host = '', port] = target.split(':');
    const socket = connect({
      host,
      port: Number(port),
      ca: identity.roots,
      cert: identity.certificate,
      key: identity.key,
      servername: 'localhost',
      ALPNProtocols: ['h2'],
      minVersion: 'TLSv1.3',
      timeout: CONNECT_TIMEOUT_MS,
    });
    return new Promise((resolve, reject) => {
      const failed = (): void => {
        socket.destroy();
        reject(new Error(`no connection to ${target}`));
      };
      socket.once('error', failed);
      socket.once('timeout', failed);
      socket.once('secureConnect', () => {
        socket.removeAllListeners('error').removeAllListeners('timeout').setTimeout(0);
        resolve(new GrpcConnection(socket));
      });
    });
  }

  /** Sends a call. Its reply, or the end of the connection, is told without a turn of the loop in between. */
  call(call: EncodedCall, onReply: OnReply): void {
    if (this.failure) return onReply(undefined);
    if (this.waiting.length > 0 || call.flowBytes > this.sendWindow) {
      this.waiting.push({ call, onReply });
      return;
    }
    this.send(call, onReply);
  }

  /** Why nothing can be called any more. */
  get broken(): string | undefined {
    return this.failure?.message;
  }

  close(): void {
    this.fail('closed by the client');
    this.socket.destroy();
  }

  private send(call: EncodedCall, onReply: OnReply): void {
    const streamId = this.nextStream;
    this.nextStream += 2;
    this.sendWindow -= call.flowBytes;
    assignStream(call, streamId);
    this.calls.set(streamId, { onReply, data: undefined });
    this.write(call.bytes);
  }

  /** What is said in one turn goes out as one TLS record. */
  private write(bytes: Buffer): void {
    this.outgoing.push(bytes);
    if (this.isFlushing) return;
    this.isFlushing = true;
    process.nextTick(() => {
      this.isFlushing = false;
      const parts = this.outgoing;
      this.outgoing = [];
      if (!this.failure) this.socket.write(parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
    });
  }

  private receive(chunk: Buffer): void {
    const bytes = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk]);
    let at = 0;
    while (bytes.length - at >= FRAME_HEADER_BYTES) {
      const end = at + FRAME_HEADER_BYTES + bytes.readUIntBE(at, 3);
      if (bytes.length < end) break;
      const streamId = bytes.readUInt32BE(at + 5) & 0x7fff_ffff;
      this.handle(
        bytes[at + 3] as number,
        bytes[at + 4] as number,
        streamId,
        bytes.subarray(at + FRAME_HEADER_BYTES, end),
      );
      at = end;
    }
    this.rest = at === bytes.length ? NOTHING : bytes.subarray(at);
  }

  private handle(type: number, flags: number, streamId: number, payload: Buffer): void {
    const endStream = (flags & FLAG.endStream) !== 0;
    switch (type) {
      case FRAME.data:
        this.receiveData(streamId, (flags & FLAG.padded) === 0 ? payload : unpadded(payload));
        this.refill(payload.length);
        if (endStream) this.end(streamId);
        break;
      case FRAME.headers:
        if (endStream) this.end(streamId);
        break;
      case FRAME.resetStream:
        this.reset(streamId);
        break;
      case FRAME.settings:
        if ((flags & FLAG.ack) === 0) this.write(frame(FRAME.settings, FLAG.ack, 0, NOTHING));
        break;
      case FRAME.ping:
        if ((flags & FLAG.ack) === 0) this.write(frame(FRAME.ping, FLAG.ack, 0, payload));
        break;
      case FRAME.windowUpdate:
        if (streamId === 0) this.widen(payload.readUInt32BE(0));
        break;
      case FRAME.goAway:
        this.fail('the service sent GOAWAY');
        break;
      default:
    }
  }

  private receiveData(streamId: number, data: Buffer): void {
    const call = this.calls.get(streamId);
    if (call) call.data = call.data === undefined ? data : Buffer.concat([call.data, data]);
  }

  private refill(bytes: number): void {
    this.received += bytes;
    if (this.received < WINDOW_REFILL) return;
    this.write(windowUpdateFrame(0, this.received));
    this.received = 0;
  }

  private widen(increment: number): void {
    this.sendWindow += increment;
    while (this.waiting.length > 0) {
      const next = this.waiting[0] as (typeof this.waiting)[number];
      if (next.call.flowBytes > this.sendWindow) return;
      this.waiting.shift();
      this.send(next.call, next.onReply);
    }
  }

  private end(streamId: number): void {
    const call = this.calls.get(streamId);
    this.calls.delete(streamId);
    call?.onReply(call.data && replyMessage(call.data));
  }

  private reset(streamId: number): void {
    const call = this.calls.get(streamId);
    this.calls.delete(streamId);
    call?.onReply(undefined);
  }

  private fail(why: string): void {
    if (this.failure) return;
    this.failure = new Error(why);
    const open = [...this.calls.values(), ...this.waiting.splice(0)];
    this.calls.clear();
    for (const { onReply } of open) onReply(undefined);
  }
}

/** RFC 9113, 6.1. */
function unpadded(payload: Buffer): Buffer {
  return payload.subarray(1, payload.length - (payload[0] ?? 0));
}

/** RFC 9113, 6: the types of frames that a unary call needs. */
export const FRAME = {
  data: 0,
  headers: 1,
  resetStream: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
} as const;

export const FLAG = { endStream: 0x1, ack: 0x1, endHeaders: 0x4, padded: 0x8 } as const;

/** RFC 9113, 4.1. */
export const FRAME_HEADER_BYTES = 9;
const GRPC_PREFIX_BYTES = 5;
/** RFC 9113, 4.2: no peer takes less. */
const MAX_FRAME_BYTES = 16_384;

/** What a client sends first (RFC 9113, 3.4). */
export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

/** One frame. */
export function frame(type: number, flags: number, streamId: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.alloc(FRAME_HEADER_BYTES + payload.length);
  bytes.writeUIntBE(payload.length, 0, 3);
  bytes[3] = type;
  bytes[4] = flags;
  bytes.writeUInt32BE(streamId, 5);
  bytes.set(payload, FRAME_HEADER_BYTES);
  return bytes;
}

/** SETTINGS with these identifiers and values (RFC 9113, 6.5). */
export function settingsFrame(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(settings.length * 6);
  for (const [i, [id, value]] of settings.entries()) {
    payload.writeUInt16BE(id, i * 6);
    payload.writeUInt32BE(value, i * 6 + 2);
  }
  return frame(FRAME.settings, 0, 0, payload);
}

/** WINDOW_UPDATE of the connection (stream 0) or of a stream. */
export function windowUpdateFrame(streamId: number, increment: number): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(increment);
  return frame(FRAME.windowUpdate, 0, streamId, payload);
}

/**
 * The header block of a gRPC call: HPACK literals without indexing and without Huffman coding (RFC 7541, 6.2.2), so that
 * it depends on no state of the connection and can be made once for all calls.
 *
 * @param path `/package.Service/Method`
 */
export function headerBlock(path: string, authority: string): Buffer {
  return Buffer.concat([
    // Indexed fields of the static table: `:method: POST`, `:scheme: https`.
    Buffer.from([0x83, 0x87]),
    literal(4, path),
    literal(1, authority),
    literal(31, 'application/grpc'),
    Buffer.from([0x00]),
    string('te'),
    string('trailers'),
  ]);
}

/** A literal whose name is an entry of the static table. */
function literal(index: number, value: string): Buffer {
  // Four bits hold less than 15; what is above goes into the next octet (RFC 7541, 5.1).
  const name = index < 15 ? [index] : [0x0f, index - 15];
  return Buffer.concat([Buffer.from(name), string(value)]);
}

function string(text: string): Buffer {
  if (text.length >= 127) throw new RangeError('a header is longer than this encoder writes');
  return Buffer.concat([Buffer.from([text.length]), Buffer.from(text, 'latin1')]);
}

/** A whole unary call as it goes over the wire; only its stream is written in when it is sent. */
export interface EncodedCall {
  readonly bytes: Buffer;
  /** Where the DATA frame begins. */
  readonly dataAt: number;
  /** What it takes of the peer's windows. */
  readonly flowBytes: number;
}

/** HEADERS and DATA with END_STREAM. @param message the encoded request */
export function encodeCall(block: Uint8Array, message: Uint8Array): EncodedCall {
  const flowBytes = GRPC_PREFIX_BYTES + message.length;
  if (flowBytes > MAX_FRAME_BYTES) throw new RangeError('a request is larger than one frame');
  const payload = Buffer.alloc(flowBytes);
  payload.writeUInt32BE(message.length, 1);
  payload.set(message, GRPC_PREFIX_BYTES);
  const headers = frame(FRAME.headers, FLAG.endHeaders, 0, block);
  const bytes = Buffer.concat([headers, frame(FRAME.data, FLAG.endStream, 0, payload)]);
  return { bytes, dataAt: headers.length, flowBytes };
}

/** Gives a call its stream. */
export function assignStream({ bytes, dataAt }: EncodedCall, streamId: number): void {
  bytes.writeUInt32BE(streamId, 5);
  bytes.writeUInt32BE(streamId, dataAt + 5);
}

/** The message of a reply's DATA; undefined where it is not whole. */
export function replyMessage(data: Buffer): Buffer | undefined {
  if (data.length < GRPC_PREFIX_BYTES || data[0] !== 0) return undefined;
  const end = GRPC_PREFIX_BYTES + data.readUInt32BE(1);
  return data.length === end ? data.subarray(GRPC_PREFIX_BYTES) : undefined;
}

import { describe, expect, test } from 'vitest';
import {
  assignStream,
  encodeCall,
  FLAG,
  FRAME,
  FRAME_HEADER_BYTES,
  headerBlock,
  replyMessage,
} from '../../bench/load/frames.js';

/** The client of the benchmark writes frames itself. */
describe('the frames of a call', () => {
  const block = headerBlock('/grpc.health.v1.Health/Check', '127.0.0.1:7480');

  test('a header block holds every field that a gRPC call needs, as literals that depend on no other call', () => {
    const text = block.toString('latin1');
    expect([...block.subarray(0, 2)]).toEqual([0x83, 0x87]);
    for (const part of [
      '/grpc.health.v1.Health/Check',
      '127.0.0.1:7480',
      'application/grpc',
      'te',
      'trailers',
    ])
      expect(text).toContain(`${String.fromCharCode(part.length)}${part}`);
    expect(() => headerBlock(`/${'x'.repeat(130)}`, 'a')).toThrow(RangeError);
  });

  test('are HEADERS and a DATA frame that ends the stream, both on the stream that they are given', () => {
    const call = encodeCall(block, Buffer.from('abc'));
    assignStream(call, 77);
    const { bytes, dataAt } = call;
    expect(bytes.readUIntBE(0, 3)).toBe(block.length);
    expect([bytes[3], bytes[4], bytes.readUInt32BE(5)]).toEqual([FRAME.headers, FLAG.endHeaders, 77]);
    expect(dataAt).toBe(FRAME_HEADER_BYTES + block.length);
    expect([bytes[dataAt + 3], bytes[dataAt + 4], bytes.readUInt32BE(dataAt + 5)]).toEqual([
      FRAME.data,
      FLAG.endStream,
      77,
    ]);
    expect(replyMessage(bytes.subarray(dataAt + FRAME_HEADER_BYTES))?.toString()).toBe('abc');
    expect(call.flowBytes).toBe(8);
  });

  test('a reply that is not whole, or compressed, is none', () => {
    expect(replyMessage(Buffer.from([0, 0, 0, 0, 3, 1, 2]))).toBeUndefined();
    expect(replyMessage(Buffer.from([1, 0, 0, 0, 1, 1]))).toBeUndefined();
    expect(replyMessage(Buffer.alloc(3))).toBeUndefined();
    expect(replyMessage(Buffer.alloc(5))?.length).toBe(0);
  });
});

import { decodeUtf8 } from './utf8.js';

/** What a group of seven bits is worth more than the one before it. */
const GROUP = 128;
// Seven groups of seven bits are exact in a double; the rest needs a BigInt.
const EXACT_GROUPS = 7;
const MAX_GROUPS_32 = 5;
const MAX_GROUPS_64 = 10;
const MAX_INT32 = 0x7fff_ffffn;
const MIN_INT32 = -0x8000_0000n;

/**
 * Reads protobuf's wire values from the one spelling that a serializer gives them. Whatever has another spelling is
 * handed to `refuse`.
 */
export class StrictReader {
  /** Offset of the next byte. */
  position = 0;
  readonly length: number;
  private readonly buffer: Buffer;

  /** @param refuse throws the caller's error; takes the rule as a sentence */
  constructor(
    bytes: Uint8Array,
    private readonly refuse: (rule: string) => never,
  ) {
    this.buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.length = bytes.byteLength;
  }

  /** A tag or a length: an unsigned varint of 32 bits that ends before `end`. */
  uint32(end: number): number {
    let value = 0;
    let weight = 1;
    for (let group = 0; group < MAX_GROUPS_32; group += 1) {
      const byte = this.byte(end);
      value += (byte & 0x7f) * weight;
      if (byte < 0x80) {
        if ((group > 0 && byte === 0) || value > 0xffff_ffff) break;
        return value;
      }
      weight *= GROUP;
    }
    return this.refuse('must be written with the shortest varint');
  }

  /** A signed varint of 64 bits (not zigzag). */
  int64(end: number): bigint {
    let exact = 0;
    let weight = 1;
    for (let group = 0; group < EXACT_GROUPS; group += 1) {
      const byte = this.byte(end);
      exact += (byte & 0x7f) * weight;
      if (byte < 0x80) return group > 0 && byte === 0 ? this.refuseVarint() : BigInt(exact);
      weight *= GROUP;
    }
    let value = BigInt(exact);
    for (let group = EXACT_GROUPS; group < MAX_GROUPS_64; group += 1) {
      const byte = this.byte(end);
      value += BigInt(byte & 0x7f) << BigInt(7 * group);
      if (byte >= 0x80) continue;
      // The tenth group holds one bit.
      if (byte === 0 || (group === MAX_GROUPS_64 - 1 && byte !== 1)) break;
      return BigInt.asIntN(64, value);
    }
    return this.refuseVarint();
  }

  /** A signed varint of 32 bits; negative ones are written with ten bytes. */
  int32(end: number): number {
    const value = this.int64(end);
    if (value < MIN_INT32 || value > MAX_INT32) this.refuse('must fit 32 bits');
    return Number(value);
  }

  /** Reads a length and answers where what it announces ends. */
  delimited(end: number): number {
    const length = this.uint32(end);
    if (length > end - this.position) this.refuse('must not be cut off');
    return this.position + length;
  }

  /** A copy, since what came in may be a view of a receive buffer. */
  bytes(end: number): Uint8Array {
    const stop = this.delimited(end);
    const bytes = new Uint8Array(this.buffer.subarray(this.position, stop));
    this.position = stop;
    return bytes;
  }

  text(end: number): string {
    const stop = this.delimited(end);
    const start = this.position;
    this.position = stop;
    if (this.isAscii(start, stop)) return this.buffer.toString('latin1', start, stop);
    return decodeUtf8(this.buffer.subarray(start, stop)) ?? this.refuse('must be valid UTF-8');
  }

  private isAscii(start: number, stop: number): boolean {
    for (let index = start; index < stop; index += 1) {
      if ((this.buffer[index] as number) >= 0x80) return false;
    }
    return true;
  }

  private byte(end: number): number {
    if (this.position >= end) this.refuse('must not be cut off');
    const byte = this.buffer[this.position] as number;
    this.position += 1;
    return byte;
  }

  private refuseVarint(): never {
    return this.refuse('must be written with the shortest varint');
  }
}

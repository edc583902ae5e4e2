/** More than nearly all messages need. */
const FIRST_BYTES = 4_096;
/** A UTF-16 code unit has at most so many octets in UTF-8. */
const MOST_BYTES_PER_UNIT = 3;
/** A tag, a length and, of a message that turned out long, a longer length. */
const MOST_OVERHEAD = 32;

const VARINT = 0;
const LENGTH_DELIMITED = 2;
const SEVEN_BITS = 128;

/**
 * Writes protobuf messages, one at a time: fields in the order in which they are given, implicit defaults left out,
 * integers in their shortest form. Nothing is allocated but the finished message.
 */
export class MessageWriter {
  private bytes = Buffer.allocUnsafe(FIRST_BYTES);
  private end = 0;

  /** Drops what was written. */
  begin(): this {
    this.end = 0;
    return this;
  }

  /** What was written, as a buffer of its own. */
  finish(): Buffer {
    const message = Buffer.allocUnsafe(this.end);
    this.bytes.copy(message, 0, 0, this.end);
    return message;
  }

  text(field: number, value: string | undefined): this {
    if (value === undefined || value === '') return this;
    this.reserve(value.length * MOST_BYTES_PER_UNIT);
    this.tag(field, LENGTH_DELIMITED);
    const at = this.end;
    const room = varintSize(value.length);
    this.close(at, room, this.bytes.write(value, at + room, 'utf8'));
    return this;
  }

  octets(field: number, value: Uint8Array | undefined): this {
    if (value === undefined || value.length === 0) return this;
    this.reserve(value.length);
    this.tag(field, LENGTH_DELIMITED);
    this.varint(value.length);
    this.bytes.set(value, this.end);
    this.end += value.length;
    return this;
  }

  /** An int32 that is not negative, or an enum. */
  number(field: number, value: number | undefined): this {
    if (value === undefined || value === 0) return this;
    this.reserve(0);
    this.tag(field, VARINT);
    this.varint(value);
    return this;
  }

  /** An int64. */
  integer(field: number, value: bigint | undefined): this {
    if (value === undefined || value === 0n) return this;
    this.reserve(0);
    this.tag(field, VARINT);
    this.bigVarint(BigInt.asUintN(64, value));
    return this;
  }

  /** A flag whose absence means no. */
  flag(field: number, value: boolean | undefined): this {
    return value === true ? this.answer(field, true) : this;
  }

  /** A flag with presence: a no differs from no answer. */
  answer(field: number, value: boolean | undefined): this {
    if (value === undefined) return this;
    this.reserve(0);
    this.tag(field, VARINT);
    this.bytes[this.end++] = value ? 1 : 0;
    return this;
  }

  /** A message within, whose fields `write` writes; absent where `of` is. */
  message<Of>(field: number, of: Of | undefined, write: (writer: MessageWriter, of: Of) => void): this {
    if (of === undefined) return this;
    this.reserve(0);
    this.tag(field, LENGTH_DELIMITED);
    const at = this.end;
    this.end += 1;
    write(this, of);
    this.close(at, 1, this.end - at - 1);
    return this;
  }

  /** Puts a length at `at`, for which so much room was left, before the octets behind it, and goes behind them. */
  private close(at: number, room: number, length: number): void {
    const size = varintSize(length);
    const start = at + room;
    if (size !== room) {
      this.end = start + length;
      this.reserve(0);
      this.bytes.copyWithin(at + size, start, start + length);
    }
    this.end = at;
    this.varint(length);
    this.end += length;
  }

  private tag(field: number, wireType: number): void {
    this.varint(field * 8 + wireType);
  }

  private varint(value: number): void {
    let rest = value;
    while (rest >= SEVEN_BITS) {
      this.bytes[this.end++] = (rest % SEVEN_BITS) + SEVEN_BITS;
      rest = Math.floor(rest / SEVEN_BITS);
    }
    this.bytes[this.end++] = rest;
  }

  private bigVarint(value: bigint): void {
    let rest = value;
    while (rest > MAX_SAFE) {
      this.bytes[this.end++] = Number(rest % 128n) + SEVEN_BITS;
      rest /= 128n;
    }
    this.varint(Number(rest));
  }

  /** Makes room for a field with so many octets. */
  private reserve(most: number): void {
    const needed = this.end + most + MOST_OVERHEAD;
    if (needed <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * needed);
    this.bytes.copy(larger, 0, 0, this.end);
    this.bytes = larger;
  }
}

const MAX_SAFE = BigInt(Number.MAX_SAFE_INTEGER);

function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest >= SEVEN_BITS; rest = Math.floor(rest / SEVEN_BITS)) size += 1;
  return size;
}

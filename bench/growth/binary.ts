const VARINT_BITS = 7;
const VARINT_RADIX = 2 ** VARINT_BITS;
const WORD = 2 ** 32;

/** How many bytes protobuf takes for a number below 2^53. */
export function varintLength(value: number): number {
  let length = 1;
  for (let rest = value; rest >= VARINT_RADIX; rest = Math.floor(rest / VARINT_RADIX)) length += 1;
  return length;
}

/** Writes a varint that fills the buffer. */
export function putVarint(target: Buffer, value: number): void {
  let rest = value;
  for (let at = 0; at < target.length; at += 1) {
    const more = at < target.length - 1 ? VARINT_RADIX : 0;
    target[at] = (rest % VARINT_RADIX) + more;
    rest = Math.floor(rest / VARINT_RADIX);
  }
}

export function varintOf(value: number): Buffer {
  const bytes = Buffer.alloc(varintLength(value));
  putVarint(bytes, value);
  return bytes;
}

/** Writes a number from 0 to 2^53 as a bigint of Postgres. */
export function putInt8(target: Buffer, value: number): void {
  target.writeUInt32BE(Math.floor(value / WORD), 0);
  target.writeUInt32BE(value % WORD, 4);
}

export function int8Of(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  putInt8(bytes, value);
  return bytes;
}

/** Writes text of ASCII that fills the buffer. */
export function putText(target: Buffer, text: string): void {
  target.write(text, 'latin1');
}

/** A number with leading zeroes, so that all are equally wide. */
export function padded(value: number, width: number): string {
  return String(value).padStart(width, '0');
}

/** A few lines of DER writing, so that tests can say what no library would let them say. */

function element(tag: number, content: Uint8Array): Buffer {
  const length =
    content.length < 0x80
      ? Buffer.from([content.length])
      : content.length < 0x100
        ? Buffer.from([0x81, content.length])
        : content.length < 0x10000
          ? Buffer.from([0x82, content.length >> 8, content.length & 0xff])
          : Buffer.from([0x83, content.length >> 16, (content.length >> 8) & 0xff, content.length & 0xff]);
  return Buffer.concat([Buffer.from([tag]), length, content]);
}

export const sequence = (...parts: Uint8Array[]): Buffer => element(0x30, Buffer.concat(parts));
export const set = (...parts: Uint8Array[]): Buffer => element(0x31, Buffer.concat(parts));
export const octetString = (content: Uint8Array): Buffer => element(0x04, content);
export const bitString = (content: Uint8Array, unused = 0): Buffer =>
  element(0x03, Buffer.concat([Buffer.from([unused]), content]));
export const boolean = (value: boolean): Buffer => element(0x01, Buffer.from([value ? 0xff : 0]));
export const nullValue = (): Buffer => element(0x05, Buffer.alloc(0));
export const utf8String = (text: string): Buffer => element(0x0c, Buffer.from(text));
/** `[tag]` around whole elements. */
export const explicit = (tag: number, ...parts: Uint8Array[]): Buffer =>
  element(0xa0 | tag, Buffer.concat(parts));
/** `[tag]` in place of a primitive's own tag. */
export const implicit = (tag: number, content: Uint8Array): Buffer => element(0x80 | tag, content);

/** A non-negative INTEGER. */
export function integer(value: bigint): Buffer {
  const hex = value.toString(16);
  const bytes = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex');
  return element(0x02, (bytes[0] ?? 0) > 0x7f ? Buffer.concat([Buffer.from([0]), bytes]) : bytes);
}

export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  const bytes = [first * 40 + second].concat(...rest.map(base128));
  return element(0x06, Buffer.from(bytes));
}

function base128(value: number): number[] {
  const bytes = [value & 0x7f];
  for (let left = value >> 7; left > 0; left >>= 7) bytes.unshift((left & 0x7f) | 0x80);
  return bytes;
}

/** UTCTime until 2049, GeneralizedTime from then on, as RFC 5280 wants. */
export function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/[-:T]/g, '').slice(0, 14);
  const generalized = date.getUTCFullYear() >= 2050;
  return element(generalized ? 0x18 : 0x17, Buffer.from(`${generalized ? digits : digits.slice(2)}Z`));
}

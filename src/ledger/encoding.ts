import { hash } from 'node:crypto';
import type { Digest } from './types.js';

/** One part of a canonical encoding. Integers are encoded as their decimal text, absence differs from emptiness. */
export type Part = string | Uint8Array | bigint | number | boolean | undefined | readonly Part[];

const TAG_ABSENT = 0;
const TAG_TEXT = 1;
const TAG_BYTES = 2;
const TAG_INTEGER = 3;
const TAG_BOOLEAN = 4;
const TAG_LIST = 5;

/** One tag and eight octets of length. */
const HEAD_BYTES = 9;
/** A UTF-16 code unit has at most so many octets in UTF-8. */
const MOST_BYTES_PER_UNIT = 3;
const TWO_TO_32 = 2 ** 32;
/** More than nearly all encodings need; a greater one is not kept. */
const SCRATCH_BYTES = 16_384;

/** An encoding is built here and hashed at once: a digest allocates nothing but itself. */
let scratch = Buffer.allocUnsafe(SCRATCH_BYTES);
let end = 0;

/**
 * SHA-256 over a length-prefixed, domain-separated encoding (provenance-audit-replay.md, Audit: "other digests").
 * Each part is one tag byte, its length as eight bytes big-endian, and its bytes; a list holds encoded parts. The label
 * is the first part, so that digests of different things never meet.
 *
 * @param label names what is hashed, for example `surety-effect-identity-v1`
 */
export function canonicalDigest(label: string, parts: readonly Part[]): Digest {
  end = 0;
  putText(TAG_TEXT, label);
  for (const part of parts) put(part);
  const digest = sha256(scratch.subarray(0, end));
  if (scratch.length > SCRATCH_BYTES) scratch = Buffer.allocUnsafe(SCRATCH_BYTES);
  return digest;
}

/** SHA-256 of bytes as they are, or of a text as UTF-8. */
export function sha256(bytes: Uint8Array | string): Digest {
  return hash('sha256', bytes, 'buffer');
}

/** Whether two digests are there and equal. */
export function sameDigest(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  return a !== undefined && b !== undefined && Buffer.compare(a, b) === 0;
}

function put(part: Part): void {
  if (typeof part === 'string') putText(TAG_TEXT, part);
  else if (part === undefined) putHead(TAG_ABSENT, reserve(0), 0);
  else if (typeof part === 'bigint' || typeof part === 'number') putText(TAG_INTEGER, part.toString());
  else if (typeof part === 'boolean') putBytes(TAG_BOOLEAN, [part ? 1 : 0]);
  else if (part instanceof Uint8Array) putBytes(TAG_BYTES, part);
  else {
    const head = reserve(0);
    for (const item of part) put(item);
    putHead(TAG_LIST, head, end - head - HEAD_BYTES);
  }
}

function putText(tag: number, text: string): void {
  const head = reserve(text.length * MOST_BYTES_PER_UNIT);
  const length = scratch.write(text, end, 'utf8');
  putHead(tag, head, length);
  end += length;
}

function putBytes(tag: number, bytes: ArrayLike<number>): void {
  const head = reserve(bytes.length);
  putHead(tag, head, bytes.length);
  scratch.set(bytes, end);
  end += bytes.length;
}

/** Makes room for a part of at most so many octets and goes behind its head. @returns where the head is to stand */
function reserve(most: number): number {
  const head = end;
  const needed = head + HEAD_BYTES + most;
  if (needed > scratch.length) {
    const larger = Buffer.allocUnsafe(2 * needed);
    scratch.copy(larger, 0, 0, head);
    scratch = larger;
  }
  end = head + HEAD_BYTES;
  return head;
}

function putHead(tag: number, at: number, length: number): void {
  scratch[at] = tag;
  scratch.writeUInt32BE(Math.floor(length / TWO_TO_32), at + 1);
  scratch.writeUInt32BE(length % TWO_TO_32, at + 5);
}

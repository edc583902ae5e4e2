import { createHash } from 'node:crypto';
import type { Digest } from './types.js';

/** One part of a canonical encoding. Integers are encoded as their decimal text, absence differs from emptiness. */
export type Part = string | Uint8Array | bigint | number | boolean | undefined | readonly Part[];

const TAG_ABSENT = 0;
const TAG_TEXT = 1;
const TAG_BYTES = 2;
const TAG_INTEGER = 3;
const TAG_BOOLEAN = 4;
const TAG_LIST = 5;

/**
 * SHA-256 over a length-prefixed, domain-separated encoding (provenance-audit-replay.md, Audit: "other digests").
 * Each part is one tag byte, its length as eight bytes big-endian, and its bytes; a list holds encoded parts. The label
 * is the first part, so that digests of different things never meet.
 *
 * @param label names what is hashed, for example `surety-effect-identity-v1`
 */
export function canonicalDigest(label: string, parts: readonly Part[]): Digest {
  const hash = createHash('sha256');
  update(hash, label);
  for (const part of parts) update(hash, part);
  return hash.digest();
}

/** SHA-256 of bytes as they are. */
export function sha256(bytes: Uint8Array | string): Digest {
  return createHash('sha256').update(bytes).digest();
}

interface Sink {
  update(data: Uint8Array): unknown;
}

function update(sink: Sink, part: Part): void {
  if (part === undefined) return write(sink, TAG_ABSENT, Buffer.alloc(0));
  if (typeof part === 'string') return write(sink, TAG_TEXT, Buffer.from(part, 'utf8'));
  if (typeof part === 'bigint' || typeof part === 'number') {
    return write(sink, TAG_INTEGER, Buffer.from(part.toString(), 'ascii'));
  }
  if (typeof part === 'boolean') return write(sink, TAG_BOOLEAN, Buffer.from([part ? 1 : 0]));
  if (part instanceof Uint8Array) return write(sink, TAG_BYTES, part);
  const chunks: Uint8Array[] = [];
  const list: Sink = { update: (data) => chunks.push(data) };
  for (const item of part) update(list, item);
  write(sink, TAG_LIST, Buffer.concat(chunks));
}

function write(sink: Sink, tag: number, bytes: Uint8Array): void {
  const head = Buffer.alloc(9);
  head.writeUInt8(tag, 0);
  head.writeBigUInt64BE(BigInt(bytes.length), 1);
  sink.update(head);
  sink.update(bytes);
}

/** Whether two digests are there and equal. */
export function sameDigest(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  return a !== undefined && b !== undefined && Buffer.compare(a, b) === 0;
}

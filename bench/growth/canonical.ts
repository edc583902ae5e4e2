import { hash } from 'node:crypto';
import type { Part } from '../../src/ledger/encoding.js';
import { ByteTemplate, type Slot } from './byte-template.js';

const TAG = { absent: 0, text: 1, bytes: 2, integer: 3, boolean: 4, list: 5 } as const;

/**
 * What `canonicalDigest` of `src/ledger/encoding.ts` hashes, as bytes: the product never has them in one piece, and to make
 * each of millions of digests part by part would take longer than all the rest of a load.
 */
export function canonicalBytes(label: string, parts: readonly Part[]): Buffer {
  return Buffer.concat([label, ...parts].map(encoded));
}

function encoded(part: Part): Buffer {
  if (part === undefined) return tagged(TAG.absent, Buffer.alloc(0));
  if (typeof part === 'string') return tagged(TAG.text, Buffer.from(part, 'utf8'));
  if (typeof part === 'bigint' || typeof part === 'number') {
    return tagged(TAG.integer, Buffer.from(part.toString(), 'ascii'));
  }
  if (typeof part === 'boolean') return tagged(TAG.boolean, Buffer.from([part ? 1 : 0]));
  if (part instanceof Uint8Array) return tagged(TAG.bytes, part);
  return tagged(TAG.list, Buffer.concat(part.map(encoded)));
}

function tagged(tag: number, bytes: Uint8Array): Buffer {
  const head = Buffer.alloc(9);
  head.writeUInt8(tag, 0);
  head.writeBigUInt64BE(BigInt(bytes.length), 1);
  return Buffer.concat([head, bytes]);
}

/** SHA-256 in one call. */
export function sha256Of(bytes: Uint8Array): Buffer {
  return hash('sha256', bytes, 'buffer');
}

/**
 * A digest that every life makes of its own values.
 *
 * @param product what the product made of the same parts
 * @throws Error where the bytes are not those that the product hashes: its encoding has changed
 */
export function digestTemplate(
  label: string,
  parts: readonly Part[],
  product: Buffer,
  slots: readonly Slot[],
): ByteTemplate {
  const bytes = canonicalBytes(label, parts);
  if (!sha256Of(bytes).equals(product)) throw new Error(`${label} is encoded in another way by now`);
  return new ByteTemplate(bytes, slots);
}

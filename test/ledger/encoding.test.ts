import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalDigest, type Part } from '../../src/ledger/encoding.js';

// provenance-audit-replay.md, Audit, "other digests", in the words of the rule: tag, length, bytes.

function encoded(part: Part): Buffer {
  if (part === undefined) return framed(0, Buffer.alloc(0));
  if (typeof part === 'string') return framed(1, Buffer.from(part));
  if (part instanceof Uint8Array) return framed(2, Buffer.from(part));
  if (typeof part === 'bigint' || typeof part === 'number') return framed(3, Buffer.from(String(part)));
  if (typeof part === 'boolean') return framed(4, Buffer.from([Number(part)]));
  return framed(5, Buffer.concat(part.map(encoded)));
}

function framed(tag: number, bytes: Buffer): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64BE(BigInt(bytes.length));
  return Buffer.concat([Buffer.from([tag]), length, bytes]);
}

function expected(label: string, parts: readonly Part[]): string {
  return createHash('sha256')
    .update(Buffer.concat([label, ...parts].map(encoded)))
    .digest('hex');
}

test('any parts, of any size, one after another', () => {
  const { part } = fc.letrec<{ part: Part }>((tie) => ({
    part: fc.oneof(
      { depthSize: 'small' },
      fc.string({ unit: 'binary' }),
      fc.uint8Array(),
      fc.nat({ max: 70_000 }).map((size) => 'ü'.repeat(size)),
      fc.nat({ max: 70_000 }).map((size) => Buffer.alloc(size, 7)),
      fc.bigInt(),
      fc.integer(),
      fc.boolean(),
      fc.constant(undefined),
      fc.array(tie('part'), { maxLength: 5 }),
    ),
  }));
  fc.assert(
    fc.property(fc.string(), fc.array(part, { maxLength: 6 }), (label, parts) => {
      expect(canonicalDigest(label, parts).toString('hex')).toBe(expected(label, parts));
    }),
    { numRuns: 200 },
  );
});

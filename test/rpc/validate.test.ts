import { describe, expect, it } from 'vitest';
import { sha256 } from '../../src/ledger/encoding.js';
import { Refused } from '../../src/ledger/run-decision.js';
import { encodePageToken, type PageFilter, readPageToken } from '../../src/rpc/page-token.js';
import { DATA_CLASSES } from '../../src/rpc/provenance-codec.js';
import { Violations } from '../../src/rpc/validate.js';

/** The rules that reading notes, by path. */
function noted(read: (violations: Violations) => unknown): string[] {
  const violations = new Violations();
  read(violations);
  return violations.all.map(({ field, rule }) => `${field}: ${rule}`);
}

const at = (seconds: bigint, nanos = 0) => ({ seconds, nanos });

describe('fields of a request', () => {
  it('are told all at once, by their paths', () => {
    const violations = new Violations();
    violations.id('event_id', '', 1, 256);
    const grant = violations.at('grant');
    grant.digest('digest', new Uint8Array(31));
    grant
      .at('inner')
      .list('sets', ['ok', 'bad\u0000'], 1, 2, (path, value) => grant.at('inner').id(path, value, 1, 9));
    let refused: unknown;
    try {
      violations.throwIfAny();
    } catch (error) {
      refused = error;
    }
    expect(refused).toBeInstanceOf(Refused);
    expect((refused as Refused).refusal).toMatchObject({
      reason: 'FIELD_INVALID',
      violations: [
        { field: 'event_id', rule: 'must be 1 to 256 octets of UTF-8' },
        { field: 'grant.digest', rule: 'must be 32 bytes' },
        { field: 'grant.inner.sets[1]', rule: 'must not hold control characters' },
      ],
    });
  });

  it('are quiet where nothing is wrong', () => {
    new Violations().throwIfAny();
    expect(noted((v) => v.id('id', 'é'.repeat(128), 1, 256))).toEqual([]);
    expect(noted((v) => v.id('id', 'é'.repeat(129), 1, 256))).toHaveLength(1);
  });

  it('stop being told where there are very many', () => {
    expect(noted((v) => Array.from({ length: 500 }, (_, i) => v.id(`f${i}`, '', 1, 2)))).toHaveLength(32);
  });

  it('keep NFC and NFD apart, and refuse half a surrogate pair and separators', () => {
    const violations = new Violations();
    expect(violations.id('id', 'caf\u00e9', 1, 9)).not.toBe(violations.id('id', 'cafe\u0301', 1, 9));
    expect(violations.all).toEqual([]);
    for (const text of ['a\ud800', '\udc00', 'a\u2028b', 'a\u2029', 'a\u0085', '\u007f']) {
      expect(noted((v) => v.id('id', text, 1, 99))).toHaveLength(1);
    }
  });

  it('take times from 1970 to 9999, cut to microseconds', () => {
    const violations = new Violations();
    expect(violations.time('t', at(1n, 1_999))).toBe(1_000_001n);
    expect(violations.time('t', at(253_402_300_799n, 999_999_999))).toBe(253_402_300_799_999_999n);
    expect(violations.optionalTime('t', undefined)).toBeUndefined();
    expect(violations.all).toEqual([]);
    expect(noted((v) => v.time('t', undefined))).toEqual(['t: is required']);
    for (const value of [at(-1n), at(253_402_300_800n), at(0n, 1_000_000_000), at(0n, -1)]) {
      expect(noted((v) => v.time('t', value))).toHaveLength(1);
    }
  });

  it('take spans within their range, of one sign', () => {
    const violations = new Violations();
    expect(violations.duration('d', at(60n, 1_500), 0n, 3_600_000_000n)).toBe(60_000_001n);
    expect(violations.optionalDuration('d', undefined, 0n, 1n)).toBeUndefined();
    expect(violations.all).toEqual([]);
    for (const value of [
      undefined,
      at(3_601n),
      at(-1n),
      at(1n, -1),
      at(0n, 1_000_000_000),
      at(-1n, 999_999_999),
    ]) {
      expect(noted((v) => v.duration('d', value, 0n, 3_600_000_000n))).toHaveLength(1);
    }
    expect(noted((v) => v.duration('d', at(0n, 999), 1n, 2n))).toHaveLength(1);
  });

  it('take integers, enums, sets and page sizes within their limits', () => {
    expect(noted((v) => v.integer('n', 2n ** 31n, 1n, 2n ** 31n - 1n))).toHaveLength(1);
    expect(noted((v) => v.optionalPositive('n', -1n))).toHaveLength(1);
    expect(new Violations().optionalPositive('n', 0n)).toBeUndefined();
    expect(noted((v) => v.choice('e', 7, { 1: 'a', 2: 'b_c' }))).toEqual(['e: must be one of A, B_C']);
    expect(noted((v) => v.choice('c', 0, DATA_CLASSES))).toEqual([
      'c: must be one of C0_PUBLIC, C1_INTERNAL, C2_RESTRICTED, C3_SEALED',
    ]);
    expect(new Violations().choice('e', 1, { 1: 'a' })).toBe('a');
    const limits = { min: 1, max: 2, minOctets: 1, maxOctets: 3 };
    for (const set of [[], ['a', 'b', 'c'], ['a', 'a'], ['']]) {
      expect(noted((v) => v.textSet('s', set, limits))).toHaveLength(1);
    }
    expect([0, 1, 1000].map((size) => new Violations().pageSize('page_size', size))).toEqual([100, 1, 1000]);
    for (const size of [-1, 1001]) expect(noted((v) => v.pageSize('page_size', size))).toHaveLength(1);
    expect(new Violations().optionalDigest('d', new Uint8Array(0))).toBeUndefined();
    expect(noted((v) => v.optionalDigest('d', new Uint8Array(1)))).toHaveLength(1);
  });

  it('copy a digest: what came in may be a view of a receive buffer', () => {
    const buffer = Buffer.from(sha256('x'));
    const digest = new Violations().digest('d', buffer);
    buffer.fill(0);
    expect(digest).toEqual(sha256('x'));
  });
});

describe('page tokens', () => {
  const filter: PageFilter = ['principals', 'acme.test', 'active'];
  const token = encodePageToken(filter, ['paula \u{1f600}', '2']);
  const read = (text: string, other: PageFilter = filter, parts = 2) => {
    const violations = new Violations();
    return { key: readPageToken(violations, text, other, parts), faults: violations.all.length };
  };

  it('bring the last key back', () => {
    expect(read(token)).toEqual({ key: ['paula \u{1f600}', '2'], faults: 0 });
    expect(read('')).toEqual({ key: undefined, faults: 0 });
  });

  it('are good for the very list and filter only', () => {
    expect(read(token, ['guests', 'acme.test', 'active']).faults).toBe(1);
    expect(read(token, ['principals', 'globex.test', 'active']).faults).toBe(1);
    expect(read(token, ['principals', 'acme.test', '']).faults).toBe(1);
    expect(read(token, filter, 1).faults).toBe(1);
  });

  it('are refused where they are not ours', () => {
    const forged = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const name = (JSON.parse(Buffer.from(token, 'base64url').toString()) as string[])[0];
    const hostile = [
      'x',
      `${token}=`,
      `${token}A`,
      forged('x'),
      forged({}),
      forged([name, 'a', 2]),
      forged([name, 'a\u0000', 'b']),
      forged([name, 'a', 'b', 'c']),
      Buffer.from(`["${name}","\\ud800","b"]`).toString('base64url'),
      'A'.repeat(4097),
    ];
    for (const text of hostile)
      expect(`${text.slice(0, 40)} ${read(text).faults}`).toBe(`${text.slice(0, 40)} 1`);
  });
});

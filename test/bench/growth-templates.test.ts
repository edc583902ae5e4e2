import { describe, expect, test } from 'vitest';
import { int8Of, putVarint, varintLength, varintOf } from '../../bench/growth/binary.js';
import { ByteTemplate, slotOf } from '../../bench/growth/byte-template.js';
import { canonicalBytes, sha256Of } from '../../bench/growth/canonical.js';
import { LifeClock } from '../../bench/growth/life-values.js';
import { canonicalDigest } from '../../src/ledger/encoding.js';

describe('numbers as they are stored', () => {
  test.each([
    [0, '00'],
    [127, '7f'],
    [128, '8001'],
    [300, 'ac02'],
    [2 ** 40 + 1, '818080808020'],
  ])('varint of %d', (value, hex) => {
    expect(varintOf(value).toString('hex')).toBe(hex);
    expect(varintLength(value)).toBe(hex.length / 2);
  });

  test('a varint fills what it is given, and an int8 is big-endian beyond 32 bits', () => {
    const wide = Buffer.alloc(3);
    putVarint(wide, 2 ** 14);
    expect(wide.toString('hex')).toBe('808001');
    expect(int8Of(1_700_000_000_123_456).readBigInt64BE()).toBe(1_700_000_000_123_456n);
  });
});

describe('a template', () => {
  test('is filled wherever a slot stands, longer ones first, and only with what is its own', () => {
    const whole = slotOf('whole', Buffer.from('attempt-effect'));
    const part = slotOf('part', Buffer.from('effect'));
    const template = new ByteTemplate(Buffer.from('effect, attempt-effect, effect'), [part, whole]);
    whole.value.write('ATTEMPT-EFFECT');
    part.value.write('EFFECT');
    expect(template.fill().toString()).toBe('EFFECT, ATTEMPT-EFFECT, EFFECT');
    part.value.write('second');
    expect(template.fill().toString()).toBe('second, ATTEMPT-EFFECT, second');
  });

  test('takes a value at the end of what tells it from other bytes', () => {
    const slot = { name: 'seq', pattern: Buffer.from('domain:1'), value: Buffer.from('7') };
    expect(new ByteTemplate(Buffer.from('domain:1 1'), [slot]).fill().toString()).toBe('domain:7 1');
  });

  test('refuses a slot that could stand anywhere by chance', () => {
    expect(() => slotOf('short', Buffer.from('ab'))).toThrow('cannot be told');
  });
});

test('what is hashed for a digest is what the product hashes', () => {
  const parts = [
    'event',
    undefined,
    7n,
    7,
    true,
    Buffer.from('ab'),
    [],
    ['x', [Buffer.alloc(32)], -1n],
  ] as const;
  expect(sha256Of(canonicalBytes('surety-test-v1', parts))).toEqual(canonicalDigest('surety-test-v1', parts));
});

test('times go on without leaving their seconds, and all take as many bytes', () => {
  const clock = new LifeClock(1_800_000_000, 3, 10);
  const times = Array.from({ length: 10 }, (_, number) => clock.at(number));
  expect(times.map(({ second }) => second - 1_800_000_000)).toEqual([0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
  const micros = times.map(({ second, micros: within }) => second * 1_000_000 + within);
  expect([...micros].sort((a, b) => a - b)).toEqual(micros);
  expect(new Set(times.map(({ micros: within }) => varintLength(within * 1000)))).toEqual(new Set([5]));
});

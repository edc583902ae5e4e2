import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkIdText, describeTextFault, isCleanText, utf8Length } from '../../src/ledger/text.js';

// Each code point by itself: no rule of a range can be off by one.
function codePoints(): number[] {
  return Array.from({ length: 0x1_0000 }, (_, index) => index);
}

describe('clean text', () => {
  test('of the basic plane refuses exactly C0, DEL, C1, the two separators and the surrogates', () => {
    const refused = codePoints().filter((codePoint) => !isCleanText(String.fromCharCode(codePoint)));
    const expected = codePoints().filter(
      (c) =>
        c <= 0x1f || (c >= 0x7f && c <= 0x9f) || c === 0x2028 || c === 0x2029 || (c >= 0xd800 && c <= 0xdfff),
    );
    expect(refused).toEqual(expected);
  });

  test('takes every pair of surrogates, and no half of one', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0x1_0000, max: 0x10_ffff }), (codePoint) => {
        const pair = String.fromCodePoint(codePoint);
        expect(isCleanText(pair)).toBe(true);
        expect(isCleanText(pair.slice(0, 1))).toBe(false);
        expect(isCleanText(`a${pair.slice(1)}`)).toBe(false);
        expect(isCleanText(`${pair.slice(1)}${pair.slice(0, 1)}`)).toBe(false);
      }),
    );
  });
});

describe('ids', () => {
  test('lengths are octets of UTF-8, both ends included', () => {
    expect(checkIdText('', 1, 4)).toBe('too short');
    expect(checkIdText('a', 1, 4)).toBeUndefined();
    expect(checkIdText('\u00e9\u00e9', 1, 4)).toBeUndefined();
    expect(checkIdText('\u00e9\u00e9a', 1, 4)).toBe('too long');
    expect(checkIdText('\u{1F9FE}', 4, 4)).toBeUndefined();
    expect(utf8Length('\u{1F9FE}\u20ac\u00e9a')).toBe(10);
  });

  test('say what is wrong', () => {
    expect(checkIdText('a\u0000', 1, 4)).toBe('control character');
    expect(checkIdText('a\u2029', 1, 4)).toBe('line separator');
    expect(checkIdText('a\udfff', 1, 4)).toBe('lone surrogate');
    expect(describeTextFault('too short', 16, 256)).toBe('must be 16 to 256 octets of UTF-8');
    expect(describeTextFault('too long', 0, 256)).toBe('must be at most 256 octets of UTF-8');
  });

  test('are compared as they are: NFC and NFD are two', () => {
    const [nfc, nfd] = ['caf\u00e9', 'cafe\u0301'];
    expect([checkIdText(nfc, 1, 9), checkIdText(nfd, 1, 9)]).toEqual([undefined, undefined]);
    expect([utf8Length(nfc), utf8Length(nfd)]).toEqual([5, 6]);
  });
});

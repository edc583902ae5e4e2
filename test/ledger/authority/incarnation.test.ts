import { describe, expect, test } from 'vitest';
import { endOfPeriod, MAX_INCARNATION, nextIncarnation } from '../../../src/ledger/authority/incarnation.js';
import { FIXTURE_NOW } from '../../support/ledger-fixture.js';

// FIXTURE_NOW is where the periods begin.
const SECOND = 1_000_000n;
const TWO_MINUTES = 120n * SECOND;
const at = (period: bigint): bigint => FIXTURE_NOW + period * TWO_MINUTES + 1n;

describe('the incarnation that a restore begins', () => {
  test.each([
    ['is the number of the period, so that two restores from one backup differ', 1n, 239_760n, 239_760n],
    ['is the next one, for a second restore within a period', 239_760n, 239_760n, 239_761n],
    ['is the next one, where the store is ahead of the time', 400_000n, 239_760n, 400_001n],
    ['is the next one, where the clock is older than the first period', 1n, -7n, 2n],
    ['is the last that a fence has room for', 4n, MAX_INCARNATION, MAX_INCARNATION],
    ['is none, when the periods are used up', 4n, MAX_INCARNATION + 1n, undefined],
    ['is none, when the store has the last one', MAX_INCARNATION, 239_760n, undefined],
  ])('%s', (_, current, period, expected) => {
    expect(nextIncarnation(current, at(period))).toBe(expected);
  });

  test('leaves room in the 63 bits of a fence', () => {
    expect(MAX_INCARNATION << 40n).toBeLessThan(1n << 63n);
    expect((MAX_INCARNATION + 1n) << 40n).toBe(1n << 63n);
  });

  test('is above every one that periods of five minutes gave', () => {
    for (const days of [0n, 1n, 334n, 11_000n]) {
      const now = FIXTURE_NOW + days * 86_400n * SECOND + 1n;
      const older = (now - FIXTURE_NOW) / (300n * SECOND);
      expect(nextIncarnation(older, now)).toBeGreaterThan(older);
    }
  });
});

describe('the end of a period', () => {
  test('is a minute behind its last moment, for a server whose clock is so far behind', () => {
    expect(endOfPeriod(239_760n)).toBe(FIXTURE_NOW + 239_761n * TWO_MINUTES + 60n * SECOND);
  });

  test.each([
    ['by a clock that agrees', 0n],
    ['by one that is a minute behind', 60n * SECOND],
  ])('comes before the choice of whatever restore begins later, %s', (_, behind) => {
    for (const [current, period] of [
      [1n, 239_760n],
      [239_760n, 239_760n],
      [239_765n, 239_760n],
    ] as const) {
      const first = nextIncarnation(current, at(period)) as bigint;
      expect(nextIncarnation(1n, endOfPeriod(first) - behind)).toBeGreaterThan(first);
    }
  });
});

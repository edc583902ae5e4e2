import { describe, expect, test } from 'vitest';
import { interleaved, runInterleaved } from '../../bench/measure/interleave.js';
import { median, percentile, ratioOf, spreadOf } from '../../bench/measure/statistics.js';

/** What the benchmark makes of its rounds; nothing here is timed. */
describe('the statistics of the benchmark', () => {
  test('the median is the middle, or the mean of the two in the middle, in whatever order they come', () => {
    expect(median([9, 1, 5])).toBe(5);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(median([10, 9, 100])).toBe(10);
    expect(() => median([])).toThrow(RangeError);
  });

  test('a percentile is one of the values, by its rank among numbers', () => {
    const values = Array.from({ length: 100 }, (_, i) => 100 - i);
    expect(percentile(values, 0.5)).toBe(50);
    expect(percentile(values, 0.99)).toBe(99);
    expect(percentile(values, 1)).toBe(100);
    expect(percentile([7], 0.01)).toBe(7);
    expect(() => percentile([], 0.5)).toThrow(RangeError);
  });

  test('the spread names the least and the greatest', () => {
    expect(spreadOf([3, 1, 2])).toEqual({ median: 2, min: 1, max: 3 });
  });

  test('a ratio is the median of the quotients of neighbours, not the quotient of medians', () => {
    const rounds = [
      { a: 10, b: 10 },
      { a: 100, b: 50 },
      { a: 3, b: 1 },
    ];
    expect(ratioOf(rounds)).toEqual({ median: 2, min: 1, max: 3 });
  });

  test('a side that came to nothing is no ratio', () => {
    expect(() => ratioOf([{ a: 0, b: 1 }])).toThrow(RangeError);
    expect(() => ratioOf([{ a: 1, b: Number.NaN }])).toThrow(RangeError);
    expect(() => ratioOf([])).toThrow(RangeError);
  });
});

describe('the sides of a comparison', () => {
  test('take turns, and both have warmed up before any round counts', () => {
    expect(interleaved(2).map(({ side, round }) => `${side}${round}`)).toEqual([
      'a0',
      'b0',
      'a1',
      'b1',
      'a2',
      'b2',
    ]);
  });

  test('are never measured at once, and the warm-up is no round', async () => {
    const order: string[] = [];
    let running = 0;
    const side = (name: string) => async (): Promise<number> => {
      running += 1;
      expect(running).toBe(1);
      await Promise.resolve();
      running -= 1;
      return order.push(name);
    };
    const pairs = await runInterleaved(3, { a: side('a'), b: side('b') });
    expect(order.join('')).toBe('abababab');
    expect(pairs).toEqual([
      { a: 3, b: 4 },
      { a: 5, b: 6 },
      { a: 7, b: 8 },
    ]);
  });
});

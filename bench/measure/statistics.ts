/** The middle of some numbers; of an even count the mean of the two in the middle. @throws RangeError where there are none */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new RangeError('the median of nothing');
  const sorted = [...values].sort((a, b) => a - b);
  const upper = sorted[sorted.length >> 1] as number;
  if (sorted.length % 2 === 1) return upper;
  return ((sorted[(sorted.length >> 1) - 1] as number) + upper) / 2;
}

/**
 * The smallest value that at least a part of all values does not exceed (nearest rank).
 *
 * @param part above 0, at most 1
 * @throws RangeError where there are no values
 */
export function percentile(values: readonly number[] | Float64Array, part: number): number {
  if (values.length === 0) throw new RangeError('a percentile of nothing');
  // Numbers in a typed array are sorted as numbers, and without a call for each comparison.
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] as number;
}

/** What several rounds came to. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** @throws RangeError where there are no values */
export function spreadOf(values: readonly number[]): Spread {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

/** One round: what both sides came to, measured one right after the other. */
export interface Pair {
  readonly a: number;
  readonly b: number;
}

/**
 * A over B. Each round has its own quotient, because what a machine does to one side it does to its neighbour in time;
 * the median is of the quotients, never the quotient of medians.
 *
 * @throws RangeError where there is no round, or a side came to nothing
 */
export function ratioOf(rounds: readonly Pair[]): Spread {
  for (const { a, b } of rounds) {
    if (!(a > 0) || !(b > 0)) throw new RangeError('a side of a round came to nothing');
  }
  return spreadOf(rounds.map(({ a, b }) => a / b));
}

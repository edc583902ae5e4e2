import { ratioOf, type Spread, spreadOf } from '../measure/statistics.js';
import type { Plan } from '../plan.js';
import type { Goal, Ratio, RatioRun } from '../ratios/ratio.js';

/** One side of a ratio. */
export interface SideResult extends Spread {
  readonly what: string;
}

/** One ratio, as `--json` says it. */
export interface RatioResult {
  /** Begins with its id. */
  readonly name: string;
  readonly id: string;
  /** The median of the rounds' quotients. */
  readonly ratio: number;
  readonly min: number;
  readonly max: number;
  /** How many counted. */
  readonly rounds: number;
  /** Undefined where there is none. */
  readonly goal?: Goal;
  readonly reached?: boolean;
  /** Of the two sides. */
  readonly unit: string;
  readonly a: SideResult;
  readonly b: SideResult;
  readonly figures: Readonly<Record<string, number>>;
  readonly settings: Readonly<Record<string, string | number>>;
  readonly versions: Readonly<Record<string, string>>;
}

/** A ratio that could not be measured. */
export interface BlockedRatio {
  /** Begins with its id. */
  readonly name: string;
  readonly id: string;
  readonly goal?: Goal;
  readonly reason: string;
}

/** A run, as `--json` says it. */
export interface BenchResult {
  readonly benchmark: 'surety';
  readonly started: string;
  readonly finished: string;
  /** Its numbers say nothing. */
  readonly quick: boolean;
  readonly machine: Readonly<Record<string, string | number>>;
  readonly versions: Readonly<Record<string, string>>;
  readonly settings: Readonly<Record<string, string | number>>;
  readonly ratios: readonly RatioResult[];
  /** What could not be measured here, and why. */
  readonly blocked: readonly BlockedRatio[];
}

export function nameOf({ id, title }: Ratio): string {
  return `${id} ${title}`;
}

/** @throws RangeError where a side came to nothing */
export function ratioResult(
  ratio: Ratio,
  { pairs, figures = {}, versions: own = {} }: RatioRun,
  plan: Plan,
  versions: Readonly<Record<string, string>>,
): RatioResult {
  const { median, min, max } = ratioOf(pairs);
  const { id, goal, unit } = ratio;
  return {
    name: nameOf(ratio),
    id,
    ratio: rounded(median),
    min: rounded(min),
    max: rounded(max),
    rounds: pairs.length,
    ...(goal && { goal, reached: goal.at === 'least' ? median >= goal.value : median <= goal.value }),
    unit,
    a: { what: ratio.a, ...sideOf(pairs.map(({ a }) => a)) },
    b: { what: ratio.b, ...sideOf(pairs.map(({ b }) => b)) },
    figures,
    settings: { seconds_per_round: plan.seconds, ...ratio.settings },
    versions: { ...versions, ...own },
  };
}

function sideOf(values: readonly number[]): Spread {
  const { median, min, max } = spreadOf(values);
  return { median: rounded(median), min: rounded(min), max: rounded(max) };
}

/** Four digits that count: what is behind them is noise. */
export function rounded(value: number): number {
  return Number(value.toPrecision(4));
}

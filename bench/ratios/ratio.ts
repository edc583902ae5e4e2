import type { Step } from '../measure/interleave.js';
import type { Pair } from '../measure/statistics.js';
import type { Plan } from '../plan.js';
import type { BenchWorld } from '../world/bench-world.js';
import type { Undoing } from '../world/undoing.js';

/** What a ratio is to reach: bench.md, Ratios to reach. */
export interface Goal {
  readonly at: 'least' | 'most';
  readonly value: number;
}

/** What a ratio is measured with. */
export interface RatioContext {
  readonly world: BenchWorld;
  readonly plan: Plan;
  /** What is to be undone at the end, whatever a ratio starts for itself. */
  readonly undoing: Undoing;
  /** Told of each step. */
  readonly onStep: (step: Step, value: number) => void;
  /** Says what takes long besides. */
  readonly say: (text: string) => void;
}

/** What measuring one came to. */
export interface RatioRun {
  readonly pairs: readonly Pair[];
  /** What else was seen, by name with its unit. */
  readonly figures?: Readonly<Record<string, number>>;
  /** Of what it was measured with, besides those of the run. */
  readonly versions?: Readonly<Record<string, string>>;
}

/** One row of the table of bench.md. */
export interface Ratio {
  readonly id: string;
  readonly title: string;
  /** What the two sides are. */
  readonly a: string;
  readonly b: string;
  /** Of the two sides. */
  readonly unit: 'per second' | 'ms' | 'MiB';
  /** Undefined: it is told, and there is nothing to reach. */
  readonly goal?: Goal;
  readonly needsPgbench: boolean;
  /** What it is measured with, besides rounds and seconds. */
  readonly settings: Readonly<Record<string, string | number>>;
  /** @throws RatioBlocked where it cannot be measured here */
  measure(context: RatioContext): Promise<RatioRun>;
}

import type { LoadPlan } from './growth/load-effects.js';

/** How much is measured. */
export interface Plan {
  readonly quick: boolean;
  /** Rounds that count; one before them warms up. */
  readonly rounds: number;
  readonly seconds: number;
  /** Of B9: after so many calls, and after so many. */
  readonly memoryCalls: readonly [few: number, many: number];
  /** How long a process is left alone before its memory is read. */
  readonly restMs: number;
  /** Readings of each moment. */
  readonly memoryReadings: number;
  /** Of B8: how many effects are stored, and how many grants. */
  readonly stored: Readonly<Record<'few' | 'many', LoadPlan>>;
  /** Of B8: how long after the start on an empty database, in minutes of so many seconds; the last is compared to the second. */
  readonly fresh: { readonly minutes: number; readonly secondsPerMinute: number };
}

/** What counts: bench.md asks for five rounds at least. */
export const FULL_PLAN: Plan = {
  quick: false,
  rounds: 5,
  seconds: 5,
  memoryCalls: [100_000, 1_000_000],
  restMs: 5_000,
  memoryReadings: 5,
  stored: { few: { effects: 5_000, grants: 50 }, many: { effects: 5_000_000, grants: 50_000 } },
  fresh: { minutes: 11, secondsPerMinute: 60 },
};

/** Whether everything works, in a few minutes; its numbers are for nobody. */
export const QUICK_PLAN: Plan = {
  quick: true,
  rounds: 2,
  seconds: 1,
  memoryCalls: [1_000, 10_000],
  restMs: 1_000,
  memoryReadings: 3,
  stored: { few: { effects: 5_000, grants: 50 }, many: { effects: 50_000, grants: 500 } },
  fresh: { minutes: 4, secondsPerMinute: 5 },
};

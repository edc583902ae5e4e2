import type { Pair } from './statistics.js';

/** One of the two things that are compared. */
export type SideName = 'a' | 'b';

/** One step of a comparison. */
export interface Step {
  readonly side: SideName;
  /** From 1; 0: a warm-up that does not count. */
  readonly round: number;
}

/**
 * A B A B: both sides once to warm up, then in turn for so many rounds, so that what changes on the machine meanwhile
 * changes both.
 *
 * @param rounds at least 1
 */
export function interleaved(rounds: number): readonly Step[] {
  const steps: Step[] = [];
  for (let round = 0; round <= rounds; round += 1) steps.push({ side: 'a', round }, { side: 'b', round });
  return steps;
}

/** Measures one step of one side. */
export type Measure = (step: Step) => Promise<number>;

/** Runs both sides in turn. @returns what counts: one pair for each round */
export async function runInterleaved(
  rounds: number,
  sides: Readonly<Record<SideName, Measure>>,
  onStep: (step: Step, value: number) => void = () => undefined,
): Promise<readonly Pair[]> {
  const values = { a: [] as number[], b: [] as number[] };
  for (const step of interleaved(rounds)) {
    const value = await sides[step.side](step);
    onStep(step, value);
    if (step.round > 0) values[step.side].push(value);
  }
  return values.a.map((a, i) => ({ a, b: values.b[i] as number }));
}

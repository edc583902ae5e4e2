import type { Measured } from './measured.js';

/** Reads what each tier has used so far, in milliseconds; undefined where it cannot be read. */
export type TierReaders = Readonly<Record<string, () => number | undefined>>;

/** What a round says of itself. */
type Round = { readonly calls: number } & Partial<Pick<Measured, 'ownMs' | 'tierMs'>>;

interface Sum {
  calls: number;
  readonly ms: Map<string, number>;
}

/**
 * Processor time per call, by what was called and on which tier. Unlike throughput it hardly changes with what else runs
 * on the machine.
 */
export class Costs {
  private readonly sums = new Map<string, Sum>();

  constructor(private readonly tiers: () => TierReaders) {}

  /**
   * Runs a round and adds up what it used.
   *
   * @param call what was called
   * @param tiers those that the call goes through
   * @param own what the measuring process is called, which says itself what it used
   */
  async during<Result extends Round>(
    call: string,
    tiers: readonly string[],
    own: string,
    round: () => Promise<Result>,
  ): Promise<Result> {
    const readers = this.tiers();
    const before = tiers.map((tier) => readers[tier]?.());
    const result = await round();
    const sum = this.sums.get(call) ?? { calls: 0, ms: new Map<string, number>() };
    this.sums.set(call, sum);
    sum.calls += result.calls;
    const add = (tier: string, ms: number): void => void sum.ms.set(tier, (sum.ms.get(tier) ?? 0) + ms);
    for (const [i, tier] of tiers.entries()) {
      const [from, to] = [before[i], readers[tier]?.()];
      if (from !== undefined && to !== undefined) add(tier, to - from);
    }
    if (result.ownMs !== undefined) add(own, result.ownMs);
    for (const [tier, ms] of Object.entries(result.tierMs ?? {})) add(tier, ms);
    return result;
  }

  /** Microseconds per call since the last time, as `<call>, <tier>: µs of processor`. */
  take(): Readonly<Record<string, number>> {
    const figures: Record<string, number> = {};
    for (const [call, { calls, ms }] of this.sums) {
      for (const [tier, used] of ms) {
        if (calls > 0 && used > 0)
          figures[`${call}, ${tier}: µs of processor`] = Math.round((used * 1000) / calls);
      }
    }
    this.sums.clear();
    return figures;
  }
}

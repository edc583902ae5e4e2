import { percentile } from './statistics.js';

/** What one round of load came to. */
export interface Measured {
  /** Calls that were answered as they should. */
  readonly calls: number;
  readonly elapsedMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Processor time of the measuring process during the round, in milliseconds. */
  readonly ownMs: number;
  /** The same of further processes that the parent does not know, by name. */
  readonly tierMs?: Readonly<Record<string, number>>;
  /** What else was noted, by name. */
  readonly figures?: Readonly<Record<string, number>>;
}

/**
 * @param latencies of each call, in milliseconds
 * @param usage from `process.cpuUsage` over the round
 */
export function measuredOf(
  latencies: readonly number[],
  elapsedMs: number,
  usage: NodeJS.CpuUsage,
): Measured {
  return {
    calls: latencies.length,
    elapsedMs,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    ownMs: (usage.user + usage.system) / 1000,
  };
}

/** How much was done in how long. */
export type Rate = Pick<Measured, 'calls' | 'elapsedMs'>;

export function perSecond({ calls, elapsedMs }: Rate): number {
  return (calls * 1000) / elapsedMs;
}

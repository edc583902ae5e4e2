import type { ServiceProcess } from '../world/service-process.js';

/** Of `/metrics`, what several replicas are looked at for; each is a count or a sum without labels, or of one phase. */
const SERIES = {
  retries: 'surety_lane_retries_total',
  unknownCommits: 'surety_lane_commit_unknown_total',
  batches: 'surety_lane_batch_size_count',
  commands: 'surety_lane_batch_size_sum',
  lockSeconds: 'surety_lane_lock_seconds_sum',
  gatherSeconds: 'surety_lane_phase_seconds_sum{phase="gather"}',
  decideSeconds: 'surety_lane_phase_seconds_sum{phase="decide"}',
  commitSeconds: 'surety_lane_phase_seconds_sum{phase="commit"}',
  queueSeconds: 'surety_lane_queue_seconds_sum',
  poolWaitSeconds: 'surety_connection_wait_seconds_sum{pool="lane"}',
} as const;

export type ReplicaCounts = Record<keyof typeof SERIES, number>;

export const NO_COUNTS: ReplicaCounts = {
  ...{ retries: 0, unknownCommits: 0, batches: 0, commands: 0, lockSeconds: 0, gatherSeconds: 0 },
  ...{ decideSeconds: 0, commitSeconds: 0, queueSeconds: 0, poolWaitSeconds: 0 },
};

/** What these replicas have counted so far, together. @throws Error where one does not answer */
export async function readCounts(replicas: readonly ServiceProcess[]): Promise<ReplicaCounts> {
  const texts = await Promise.all(
    replicas.map(async ({ admin }) => (await fetch(`http://${admin}/metrics`)).text()),
  );
  const counts = { ...NO_COUNTS };
  for (const text of texts) {
    const values = new Map(text.split('\n').map((line) => line.split(' ', 2) as [string, string]));
    for (const [name, series] of Object.entries(SERIES)) {
      counts[name as keyof ReplicaCounts] += Number(values.get(series) ?? 0);
    }
  }
  return counts;
}

/** Adds what was counted between two readings. */
export function addBetween(sum: ReplicaCounts, before: ReplicaCounts, after: ReplicaCounts): void {
  for (const name of Object.keys(SERIES) as (keyof ReplicaCounts)[]) sum[name] += after[name] - before[name];
}

/** What the counts come to, per batch or per command, in milliseconds. */
export function batchFigures(counts: ReplicaCounts): Readonly<Record<string, number>> {
  const { batches, commands } = counts;
  const each = (sum: number, of: number): number => Number(((sum * 1000) / Math.max(1, of)).toFixed(3));
  return {
    retries: counts.retries,
    'unknown commits': counts.unknownCommits,
    'commands per batch': Number((commands / Math.max(1, batches)).toFixed(2)),
    'ms of a batch until it has the lock': each(counts.lockSeconds, batches),
    'ms of a batch gathering': each(counts.gatherSeconds, batches),
    'ms of a batch deciding': each(counts.decideSeconds, batches),
    'ms of a batch committing': each(counts.commitSeconds, batches),
    'ms of a batch until it has a connection': each(counts.poolWaitSeconds, batches),
    'ms of a command in the queue': each(counts.queueSeconds, commands),
  };
}

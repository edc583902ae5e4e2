import { Counter, type Registry } from 'prom-client';
import type { LaneObserver } from '../lane/lane-observer.js';
import type { Outcome } from '../ledger/decision.js';
import type { EffectRow, TransitionRow } from '../ledger/effect/records.js';
import type { AdmissionMetrics, BreakerChange } from './admission-metrics.js';
import { type HistogramSeries, SeriesHistogram } from './series-histogram.js';

/** Seconds; from a pipelined flight on one machine to its timeouts. */
const STORE_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 15];
/** Seconds; from what nobody waited for to the pool's timeout. */
const WAIT_BUCKETS = [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 15];
/** Seconds; beyond 60 the evidence is refused. */
const SKEW_BUCKETS = [0.01, 0.1, 0.5, 1, 2, 5, 10, 20, 30, 45, 60];
const BATCH_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/** What the lanes meet that a person is to hear of. */
export interface LaneEvents {
  /** The store went back behind what this process has seen of a domain. */
  readonly regressed: (domainId: string) => void;
  readonly breaker: BreakerChange;
}

/** Told how long somebody waited for a connection, in milliseconds. */
export type OnPoolWait = (ms: number) => void;

/** Metrics of the pools, by their name. */
export function poolMetrics(registry: Registry): (pool: 'lane' | 'read') => OnPoolWait {
  const waits = new SeriesHistogram(registry, {
    name: 'surety_connection_wait_seconds',
    help: 'From asking a pool for a connection to having one, which it may have to open.',
    buckets: WAIT_BUCKETS,
  });
  return (pool) => {
    const series = waits.series({ pool });
    return (ms) => series.observe(ms / 1000);
  };
}

/** Metrics of the lanes. @param events told besides */
export function laneMetrics(
  registry: Registry,
  admission: AdmissionMetrics,
  events: LaneEvents,
): LaneObserver {
  const times = laneTimes(registry);
  const counter = (name: string, help: string): Counter => new Counter({ name, help, registers: [registry] });
  const retried = counter('surety_lane_retries_total', 'Batches that were gathered and decided anew.');
  const unknown = counter(
    'surety_lane_commit_unknown_total',
    'Answers to COMMIT that were lost and looked into.',
  );
  const regressed = counter(
    'surety_store_regressed_total',
    'Domains that were stopped because the store went back.',
  );
  const evidence = evidenceMetrics(registry);
  return {
    ...times,
    committed: (batch) => {
      admission.committed(batch, events.breaker);
      evidence(batch.rows);
    },
    commandDone: (kind, ms, outcome) => {
      times.commandDone(kind, ms, outcome);
      admission.answered(outcome);
    },
    retried: () => retried.inc(),
    commitUnknown: () => unknown.inc(),
    regressed: (domainId) => {
      regressed.inc();
      events.regressed(domainId);
    },
  };
}

/** What the benchmark shows too: how large batches are, and what their commands wait for. */
function laneTimes(
  registry: Registry,
): Pick<LaneObserver, 'commandTaken' | 'batchDone' | 'headLocked' | 'phases' | 'commandDone'> {
  const histogram = (name: string, help: string, buckets: readonly number[]): SeriesHistogram =>
    new SeriesHistogram(registry, { name, help, buckets });
  const batches = histogram('surety_lane_batch_size', 'Commands of one transaction.', BATCH_BUCKETS).series();
  const batchSeconds = histogram(
    'surety_lane_batch_seconds',
    'From taking a batch to releasing its replies.',
    STORE_BUCKETS,
  ).series();
  const queued = histogram(
    'surety_lane_queue_seconds',
    'From queueing a command to the beginning of its batch.',
    WAIT_BUCKETS,
  ).series();
  const locked = histogram(
    'surety_lane_lock_seconds',
    "Until a batch has its domain's lock, which another replica may hold; part of gathering.",
    WAIT_BUCKETS,
  ).series();
  const parts = histogram('surety_lane_phase_seconds', 'Parts of a batch that succeeded.', STORE_BUCKETS);
  const [gather, decide, commit] = ['gather', 'decide', 'commit'].map((phase) => parts.series({ phase })) as [
    HistogramSeries,
    HistogramSeries,
    HistogramSeries,
  ];
  const commands = commandSeries(
    histogram('surety_command_seconds', 'From queueing a command to its reply.', STORE_BUCKETS),
  );
  return {
    commandTaken: (ms) => queued.observe(ms / 1000),
    batchDone: (size, ms) => {
      batches.observe(size);
      batchSeconds.observe(ms / 1000);
    },
    headLocked: (ms) => locked.observe(ms / 1000),
    phases: (gatherMs, decideMs, commitMs) => {
      gather.observe(gatherMs / 1000);
      decide.observe(decideMs / 1000);
      commit.observe(commitMs / 1000);
    },
    commandDone: (kind, ms, outcome) => commands(kind, outcome).observe(ms / 1000),
  };
}

/** Finds the series of a kind of command and its outcome. */
function commandSeries(
  histogram: SeriesHistogram,
): (kind: string, outcome: Outcome<unknown>) => HistogramSeries {
  const kinds = new Map<string, Partial<Record<string, HistogramSeries>>>();
  return (kind, outcome) => {
    let ofKind = kinds.get(kind);
    if (!ofKind) kinds.set(kind, (ofKind = {}));
    const name = outcomeName(outcome);
    return (ofKind[name] ??= histogram.series({ command: kind, outcome: name }));
  };
}

/** What evidence says of clocks, of lateness and of contradictions. */
function evidenceMetrics(
  registry: Registry,
): (rows: Parameters<LaneObserver['committed']>[0]['rows']) => void {
  const skew = new SeriesHistogram(registry, {
    name: 'surety_evidence_skew_seconds',
    help: "How far the evidence's time lay from the store's clock, either way.",
    buckets: SKEW_BUCKETS,
  });
  const roles = new Map<string, HistogramSeries>();
  const late = new Counter({
    name: 'surety_late_evidence_total',
    help: 'Pieces of late evidence that were kept.',
    registers: [registry],
  });
  const disputed = new Counter({
    name: 'surety_effects_disputed_total',
    help: 'Effects whose terminal state is contradicted by late evidence: each wants a person.',
    registers: [registry],
  });
  return (rows) => {
    for (const { table, before, after } of rows) {
      if (table === 'transitions' && after) {
        const receipt = after as TransitionRow;
        let series = roles.get(receipt.role);
        if (!series) roles.set(receipt.role, (series = skew.series({ role: receipt.role })));
        series.observe(Math.abs(Number(receipt.skew)) / 1e6);
        if (receipt.late) late.inc();
      } else if (table === 'effects' && after) {
        if ((after as EffectRow).disputed && !(before as EffectRow | undefined)?.disputed) disputed.inc();
      }
    }
  };
}

function outcomeName(outcome: Outcome<unknown>): string {
  if (outcome.ok) return 'accepted';
  return outcome.recorded ? 'refused_recorded' : 'refused';
}

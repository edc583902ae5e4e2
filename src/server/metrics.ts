import { status } from '@grpc/grpc-js';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { LaneObserver } from '../lane/lane-observer.js';
import type { Outcome } from '../ledger/decision.js';
import type { EffectRow, TransitionRow } from '../ledger/effect/records.js';
import type { CallObserver, CallRecord } from '../rpc/call-record.js';
import { AdmissionMetrics, type BreakerChange } from './admission-metrics.js';

/** Seconds; from a cached read to the deadline ceiling. */
const CALL_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60];
/** Seconds; from a pipelined flight on one machine to its timeouts. */
const STORE_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 15];
/** Seconds; beyond 60 the evidence is refused. */
const SKEW_BUCKETS = [0.01, 0.1, 0.5, 1, 2, 5, 10, 20, 30, 45, 60];
const BATCH_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/** What is asked for its value whenever metrics are read. */
export interface Gauges {
  readonly openConnections: () => number;
  readonly openHandshakes: () => number;
  readonly queuedCommands: () => number;
  readonly lanePool: () => { readonly inUse: number; readonly waiting: number };
  readonly readPool: () => { readonly inUse: number; readonly waiting: number };
  readonly refusedConnections: () => ReadonlyMap<string, number>;
}

/** What the lanes meet that a person is to hear of. */
export interface LaneEvents {
  /** The store went back behind what this process has seen of a domain. */
  readonly regressed: (domainId: string) => void;
  readonly breaker: BreakerChange;
}

/**
 * What `/metrics` tells. Labels are methods, codes, reasons and kinds of commands: bounded sets of our own, never a name
 * that a caller chose. Domains and sinks, which operators name, are labels of the few gauges of `AdmissionMetrics`.
 */
export class Metrics implements CallObserver {
  readonly registry = new Registry();
  readonly admission = new AdmissionMetrics(this.registry);
  readonly #handled: Counter;
  readonly #refused: Counter;
  readonly #seconds: Histogram;

  constructor() {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry });
    const labelNames = ['grpc_type', 'grpc_service', 'grpc_method'];
    this.#handled = new Counter({
      name: 'grpc_server_handled_total',
      help: 'Calls that have ended, by their code.',
      labelNames: [...labelNames, 'grpc_code'],
      registers,
    });
    this.#seconds = new Histogram({
      name: 'grpc_server_handling_seconds',
      help: 'From the headers of a call to its status; streams are not in it, they live as long as they are read.',
      labelNames,
      buckets: CALL_BUCKETS,
      registers,
    });
    this.#refused = new Counter({
      name: 'surety_refusals_total',
      help: 'Calls that were refused, by their reason.',
      labelNames: ['grpc_method', 'reason'],
      registers,
    });
  }

  ended({ method, streams, reason }: CallRecord, code: status, durationMs: number): void {
    const [grpc_service = '', grpc_method = ''] = method.split('/');
    const labels = { grpc_type: streams ? 'server_stream' : 'unary', grpc_service, grpc_method };
    this.#handled.inc({ ...labels, grpc_code: status[code] });
    if (!streams) this.#seconds.observe(labels, durationMs / 1000);
    if (reason !== undefined) this.#refused.inc({ grpc_method, reason });
  }

  /** Metrics of the lanes. @param events told besides */
  laneObserver(events: LaneEvents): LaneObserver {
    const registers = [this.registry];
    const histogram = (name: string, help: string, buckets: number[], labelNames: string[] = []): Histogram =>
      new Histogram({ name, help, buckets, labelNames, registers });
    const counter = (name: string, help: string): Counter => new Counter({ name, help, registers });
    const batches = histogram('surety_lane_batch_size', 'Commands of one transaction.', BATCH_BUCKETS);
    const batchSeconds = histogram(
      'surety_lane_batch_seconds',
      'From taking a batch to releasing its replies.',
      STORE_BUCKETS,
    );
    const phases = histogram('surety_lane_phase_seconds', 'Parts of a batch that succeeded.', STORE_BUCKETS, [
      'phase',
    ]);
    const commands = histogram(
      'surety_command_seconds',
      'From queueing a command to its reply.',
      STORE_BUCKETS,
      ['command', 'outcome'],
    );
    const retried = counter('surety_lane_retries_total', 'Batches that were gathered and decided anew.');
    const unknown = counter(
      'surety_lane_commit_unknown_total',
      'Answers to COMMIT that were lost and looked into.',
    );
    const regressed = counter(
      'surety_store_regressed_total',
      'Domains that were stopped because the store went back.',
    );
    const skew = histogram(
      'surety_evidence_skew_seconds',
      "How far the evidence's time lay from the store's clock, either way.",
      SKEW_BUCKETS,
      ['role'],
    );
    const late = counter('surety_late_evidence_total', 'Pieces of late evidence that were kept.');
    const disputed = counter(
      'surety_effects_disputed_total',
      'Effects whose terminal state is contradicted by late evidence: each wants a person.',
    );
    return {
      committed: (batch) => {
        this.admission.committed(batch, events.breaker);
        for (const { table, before, after } of batch.rows) {
          if (table === 'transitions' && after) {
            const receipt = after as TransitionRow;
            skew.observe({ role: receipt.role }, Math.abs(Number(receipt.skew)) / 1e6);
            if (receipt.late) late.inc();
          } else if (table === 'effects' && after) {
            if ((after as EffectRow).disputed && !(before as EffectRow | undefined)?.disputed) disputed.inc();
          }
        }
      },
      batchDone: (size, ms) => {
        batches.observe(size);
        batchSeconds.observe(ms / 1000);
      },
      phases: (gatherMs, decideMs, commitMs) => {
        phases.observe({ phase: 'gather' }, gatherMs / 1000);
        phases.observe({ phase: 'decide' }, decideMs / 1000);
        phases.observe({ phase: 'commit' }, commitMs / 1000);
      },
      commandDone: (kind, ms, outcome) => {
        commands.observe({ command: kind, outcome: outcomeName(outcome) }, ms / 1000);
        this.admission.answered(outcome);
      },
      retried: () => retried.inc(),
      commitUnknown: () => unknown.inc(),
      regressed: (domainId) => {
        regressed.inc();
        events.regressed(domainId);
      },
    };
  }

  /** Values that are read when metrics are. */
  watch(gauges: Gauges): void {
    this.#gauge('surety_connections', 'Open connections.', gauges.openConnections);
    this.#gauge(
      'surety_handshakes',
      'Sockets that have not finished their handshake.',
      gauges.openHandshakes,
    );
    this.#gauge('surety_queued_commands', 'Commands that wait for their lane.', gauges.queuedCommands);
    for (const pool of ['lane', 'read'] as const) {
      const load = pool === 'lane' ? gauges.lanePool : gauges.readPool;
      this.#gauge(
        `surety_${pool}_connections_in_use`,
        `Connections of the ${pool} pool in use.`,
        () => load().inUse,
      );
      this.#gauge(`surety_${pool}_connections_awaited`, `Who waits for one of them.`, () => load().waiting);
    }
    const refused = new Gauge({
      name: 'surety_connections_refused',
      help: 'Connections that were refused since the start, by the reason.',
      labelNames: ['reason'],
      registers: [this.registry],
      collect: () => {
        for (const [reason, count] of gauges.refusedConnections()) refused.set({ reason }, count);
      },
    });
  }

  #gauge(name: string, help: string, value: () => number): void {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers: [this.registry],
      collect: () => gauge.set(value()),
    });
  }
}

function outcomeName(outcome: Outcome<unknown>): string {
  if (outcome.ok) return 'accepted';
  return outcome.recorded ? 'refused_recorded' : 'refused';
}

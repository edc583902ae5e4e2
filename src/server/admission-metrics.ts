import { Counter, Gauge, type Registry } from 'prom-client';
import type { Committed } from '../lane/lane-observer.js';
import type { BreakerState, SinkCounterRow } from '../ledger/admission/records.js';
import type { Outcome } from '../ledger/decision.js';
import type { Reason } from '../ledger/refusal.js';
import { type AdmissionReading, oldestAge, seconds, type WatchedSink } from './admission-watch.js';

/** The reasons that admission refuses with (authority.md, Admission; effects.md, Cost of not knowing). */
const ADMISSION_REASONS: ReadonlySet<Reason> = new Set<Reason>([
  'QUOTA_EXHAUSTED',
  'FAIRNESS_HOLD',
  'UNKNOWN_CEILING',
  'CIRCUIT_OPEN',
]);

const BREAKER_STATES: readonly BreakerState[] = ['closed', 'open', 'half_open'];

/** Told of a breaker that opened or closed, by the process whose batch did it: once, whatever the number of replicas. */
export type BreakerChange = (domainId: string, sink: string, state: 'open' | 'closed') => void;

/** What admission lets through and what not. The counters are this process's; the gauges are the store's. */
export class AdmissionMetrics {
  readonly #admitted: Counter;
  readonly #refused: Counter;
  readonly #breakers: Counter;

  constructor(private readonly registry: Registry) {
    const registers = [registry];
    this.#admitted = new Counter({
      name: 'surety_admitted_calls_total',
      help: 'Calls that were counted for a quota: ordinary ones, and those of the safety lane.',
      labelNames: ['lane'],
      registers,
    });
    this.#refused = new Counter({
      name: 'surety_admission_refusals_total',
      help: 'Commands that admission refused, by their reason and by the quota, where it is one.',
      labelNames: ['reason', 'quota'],
      registers,
    });
    this.#breakers = new Counter({
      name: 'surety_breaker_changes_total',
      help: 'Changes of circuit breakers, by the state that they came to.',
      labelNames: ['state'],
      registers,
    });
    for (const lane of ['ordinary', 'safety']) this.#admitted.inc({ lane }, 0);
    for (const state of BREAKER_STATES) this.#breakers.inc({ state }, 0);
  }

  /** A batch took effect. */
  committed({ domainId, rows, admitted }: Committed, onBreaker: BreakerChange): void {
    this.#admitted.inc({ lane: 'ordinary' }, admitted.ordinary);
    this.#admitted.inc({ lane: 'safety' }, admitted.safety);
    for (const { table, before, after } of rows) {
      if (table !== 'sink_counters' || !after) continue;
      const { sink, breaker } = after as SinkCounterRow;
      if (breaker === ((before as SinkCounterRow | undefined)?.breaker ?? 'closed')) continue;
      this.#breakers.inc({ state: breaker });
      if (breaker !== 'half_open') onBreaker(domainId, sink, breaker);
    }
  }

  /** A command was answered. */
  answered(outcome: Outcome<unknown>): void {
    if (outcome.ok || !ADMISSION_REASONS.has(outcome.refusal.reason)) return;
    const { reason, resource } = outcome.refusal;
    this.#refused.inc({ reason, quota: resource?.name ?? '' });
  }

  /** Gauges that show what the last look found. Their labels are names that operators gave, of a bounded number of them. */
  watch(reading: () => AdmissionReading): void {
    const sinks = (name: string, help: string, value: (sink: WatchedSink) => number): void =>
      this.#series(name, help, ['domain', 'sink'], () =>
        reading().sinks.map((one) => [{ domain: one.domainId, sink: one.sink }, value(one)]),
      );
    sinks('surety_sink_unknown_effects', 'Effects that are UNKNOWN.', (one) => one.unknown);
    sinks(
      'surety_sink_unknown_effects_ceiling',
      'So many of them stop new reservations.',
      (one) => one.unknownCeiling,
    );
    sinks('surety_sink_oldest_unknown_age_seconds', 'For how long the oldest of them is UNKNOWN.', (one) =>
      seconds(oldestAge(one)),
    );
    sinks('surety_sink_unknown_age_objective_seconds', 'If it is for longer, reservations stop.', (one) =>
      seconds(one.unknownAge),
    );
    this.#series(
      'surety_sink_breaker_state',
      "1 for the state that the sink's circuit breaker is in, 0 for the others.",
      ['domain', 'sink', 'state'],
      () =>
        reading().sinks.flatMap((one) =>
          BREAKER_STATES.map((state) => [
            { domain: one.domainId, sink: one.sink, state },
            Number(one.breaker === state),
          ]),
        ),
    );
    this.#domains(reading);
  }

  #domains(reading: () => AdmissionReading): void {
    this.#series(
      'surety_domain_pending_effects',
      'Effects that are PREPARED, EXECUTING or UNKNOWN.',
      ['domain'],
      () => reading().domains.map((one) => [{ domain: one.domainId }, one.pending]),
    );
    this.#series(
      'surety_domain_pending_effects_ceiling',
      'So many of them stop new reservations.',
      ['domain'],
      () => reading().domains.map((one) => [{ domain: one.domainId }, one.pendingCeiling]),
    );
    this.#series(
      'surety_admission_series_left_out',
      '1 where there are more sinks, or domains, to be told of than have series of their own.',
      ['kind'],
      () => (['sinks', 'domains'] as const).map((kind) => [{ kind }, Number(reading().leftOut[kind])]),
    );
    this.#series(
      'surety_admission_last_read_timestamp_seconds',
      "When these gauges were read from the store, by this machine's clock; 0: not yet.",
      [],
      () => [[{}, reading().atMs / 1000]],
    );
  }

  #series(
    name: string,
    help: string,
    labelNames: string[],
    values: () => readonly (readonly [labels: Record<string, string>, value: number])[],
  ): void {
    const gauge: Gauge = new Gauge({
      ...{ name, help, labelNames, registers: [this.registry] },
      collect: () => {
        gauge.reset();
        for (const [labels, value] of values()) gauge.set(labels, value);
      },
    });
  }
}

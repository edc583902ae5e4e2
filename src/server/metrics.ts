import type { status } from '@grpc/grpc-js';
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { LaneObserver } from '../lane/lane-observer.js';
import type { CallObserver, CallRecord } from '../rpc/call-record.js';
import { AdmissionMetrics } from './admission-metrics.js';
import { CallMetrics } from './call-metrics.js';
import { type LaneEvents, laneMetrics, type OnPoolWait, poolMetrics } from './lane-metrics.js';

export type { LaneEvents } from './lane-metrics.js';

/** What is asked for its value whenever metrics are read. */
export interface Gauges {
  readonly openConnections: () => number;
  readonly openHandshakes: () => number;
  readonly queuedCommands: () => number;
  readonly lanePool: () => { readonly inUse: number; readonly waiting: number };
  readonly readPool: () => { readonly inUse: number; readonly waiting: number };
  readonly refusedConnections: () => ReadonlyMap<string, number>;
}

/**
 * What `/metrics` tells. Labels are methods, codes, reasons and kinds of commands: bounded sets of our own, never a name
 * that a caller chose. Domains and sinks, which operators name, are labels of the few gauges of `AdmissionMetrics`.
 */
export class Metrics implements CallObserver {
  readonly registry = new Registry();
  readonly admission = new AdmissionMetrics(this.registry);
  /** Takes the waits of a pool. */
  readonly poolWait: (pool: 'lane' | 'read') => OnPoolWait = poolMetrics(this.registry);
  readonly #calls = new CallMetrics(this.registry);

  constructor() {
    collectDefaultMetrics({ register: this.registry });
  }

  ended(record: CallRecord, code: status, durationMs: number): void {
    this.#calls.ended(record, code, durationMs);
  }

  /** Metrics of the lanes. @param events told besides */
  laneObserver(events: LaneEvents): LaneObserver {
    return laneMetrics(this.registry, this.admission, events);
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

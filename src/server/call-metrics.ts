import { status } from '@grpc/grpc-js';
import { Counter, type Registry } from 'prom-client';
import type { CallObserver, CallRecord } from '../rpc/call-record.js';
import { type HistogramSeries, SeriesHistogram } from './series-histogram.js';

/** Seconds; from a cached read to the deadline ceiling. */
const HANDLING_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60];
/**
 * Seconds; those that OpenTelemetry's conventions for RPC advise, and three below them: a call on one machine takes less than
 * their first.
 */
const DURATION_BUCKETS = [
  0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
];
/** What a server counts as its own failure, by the same conventions; all else is an answer. */
const SERVER_ERRORS: ReadonlySet<status> = new Set([
  status.UNKNOWN,
  status.DEADLINE_EXCEEDED,
  status.UNIMPLEMENTED,
  status.INTERNAL,
  status.UNAVAILABLE,
  status.DATA_LOSS,
]);

/** What calls of one method with one code came to. */
interface CodeSeries {
  readonly labels: Readonly<Record<string, string>>;
  handled: number;
  readonly duration: HistogramSeries;
}

interface MethodSeries {
  readonly labels: Readonly<Record<string, string>>;
  /** Undefined: a stream's life is no time of handling. */
  readonly handling: HistogramSeries | undefined;
  readonly codes: Map<status, CodeSeries>;
}

/**
 * Calls, by method and code. The method is one that is served: of any other the server makes no record. What a call
 * costs here is two look-ups and a few additions, since every call pays for it.
 */
export class CallMetrics implements CallObserver {
  readonly #methods = new Map<string, MethodSeries>();
  readonly #handling: SeriesHistogram;
  readonly #duration: SeriesHistogram;
  readonly #refused: Counter;

  constructor(registry: Registry) {
    const handled = new Counter({
      name: 'grpc_server_handled_total',
      help: 'Calls that have ended, by their code.',
      labelNames: ['grpc_type', 'grpc_service', 'grpc_method', 'grpc_code'],
      registers: [registry],
      collect: () => {
        handled.reset();
        for (const { codes } of this.#methods.values())
          for (const one of codes.values()) handled.inc(one.labels, one.handled);
      },
    });
    this.#handling = new SeriesHistogram(registry, {
      name: 'grpc_server_handling_seconds',
      help: 'From the headers of a call to its status; streams are not in it, they live as long as they are read.',
      buckets: HANDLING_BUCKETS,
    });
    this.#duration = new SeriesHistogram(registry, {
      name: 'rpc_server_call_duration_seconds',
      help: "Duration of incoming calls, streams' whole lives included (OpenTelemetry's rpc.server.call.duration).",
      buckets: DURATION_BUCKETS,
    });
    this.#refused = new Counter({
      name: 'surety_refusals_total',
      help: 'Calls that were refused, by their reason.',
      labelNames: ['grpc_method', 'reason'],
      registers: [registry],
    });
  }

  ended({ method, streams, reason }: CallRecord, code: status, durationMs: number): void {
    const seconds = durationMs / 1000;
    const ofMethod = this.#methods.get(method) ?? this.#begin(method, streams);
    const one = ofMethod.codes.get(code) ?? this.#beginCode(ofMethod, method, code);
    one.handled += 1;
    one.duration.observe(seconds);
    ofMethod.handling?.observe(seconds);
    if (reason !== undefined)
      this.#refused.inc({ grpc_method: ofMethod.labels['grpc_method'] ?? '', reason });
  }

  #begin(method: string, streams: boolean): MethodSeries {
    const [grpc_service = '', grpc_method = ''] = method.split('/');
    const labels = { grpc_type: streams ? 'server_stream' : 'unary', grpc_service, grpc_method };
    const handling = streams ? undefined : this.#handling.series(labels);
    const begun: MethodSeries = { labels, handling, codes: new Map() };
    this.#methods.set(method, begun);
    return begun;
  }

  #beginCode({ labels, codes }: MethodSeries, method: string, code: status): CodeSeries {
    const name = status[code];
    const duration = this.#duration.series({
      rpc_system_name: 'grpc',
      rpc_method: method,
      rpc_response_status_code: name,
      ...(SERVER_ERRORS.has(code) ? { error_type: name } : {}),
    });
    const begun: CodeSeries = { labels: { ...labels, grpc_code: name }, handled: 0, duration };
    codes.set(code, begun);
    return begun;
  }
}

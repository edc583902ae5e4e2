import type { Micros } from '../types.js';

/** authority.md, Admission: what a domain lets through. Changed by signed commands, read by every batch. */
export interface DomainLimits {
  /** The domain's share of the service's limit: requests per minute, at least 10. */
  readonly requestsPerMinute: number;
  /** Requests per minute of one actor, at least 10. */
  readonly actorRequestsPerMinute: number;
  /** How many effects may be PREPARED, EXECUTING or UNKNOWN. */
  readonly pendingCeiling: number;
  /** How many more calls in a window an actor may have than the least served one. */
  readonly fairnessBurst: number;
  /** How far an event may be from one that nothing led to. */
  readonly maxHops: number;
}

/** So many actors made so many calls in the present window. */
export interface ServedActors {
  readonly calls: number;
  readonly actors: number;
}

/** What a domain has let through; kept with its head, and written with it. */
export interface DomainCounters {
  /** The minute that is counted, by the store's clock; 0 before the first. */
  readonly minuteStart: Micros;
  /** Ordinary calls in that minute. */
  readonly calls: number;
  /** Calls of the safety lane in that minute. */
  readonly safetyCalls: number;
  /** Effects that are not terminal: as many as `pending_work` has rows. */
  readonly pending: number;
  /** The window whose fairness is watched; 0 before the first. */
  readonly windowStart: Micros;
  /** How the window's calls are spread over actors, by `calls` upwards; an actor without a call is not in it. */
  readonly served: readonly ServedActors[];
}

/** What one actor has done. */
export interface ActorCounterRow {
  /** `harness:<id>`, or `caller:<SPIFFE ID>` for who is none. */
  readonly actor: string;
  readonly minuteStart: Micros;
  readonly calls: number;
  readonly safetyCalls: number;
  readonly windowStart: Micros;
  /** Ordinary calls in the window. */
  readonly windowCalls: number;
}

export type BreakerState = 'closed' | 'open' | 'half_open';

/** What is known of a sink: its circuit breaker, and how much about it is not known. */
export interface SinkCounterRow {
  readonly sink: string;
  readonly breaker: BreakerState;
  /** Failures in a row, while closed. */
  readonly failures: number;
  /** When it opened last; null while closed. */
  readonly openedAt: Micros | null;
  /** The one execution that tries whether the sink works again, while half-open. */
  readonly probeEffectId: string | null;
  /** Effects that are UNKNOWN. */
  readonly unknown: number;
}

/** The service's limit, in requests per minute, and how much of it the domains have. */
export interface Shares {
  readonly service: number;
  /** The sum of the shares of all domains but this one. */
  readonly others: number;
}

export const NO_COUNTS: DomainCounters = {
  minuteStart: 0n,
  calls: 0,
  safetyCalls: 0,
  pending: 0,
  windowStart: 0n,
  served: [],
};

/** An actor that has made no call yet. */
export function newActor(actor: string): ActorCounterRow {
  return { actor, minuteStart: 0n, calls: 0, safetyCalls: 0, windowStart: 0n, windowCalls: 0 };
}

/** A sink about which nothing is known yet. */
export function newSink(sink: string): SinkCounterRow {
  return { sink, breaker: 'closed', failures: 0, openedAt: null, probeEffectId: null, unknown: 0 };
}

import { DAY, MINUTE, type Micros, SECOND } from '../types.js';
import type { DomainLimits } from './records.js';

/** The minute that quotas count in. */
export const QUOTA_MINUTE: Micros = MINUTE;
/** The window of fairness (authority.md, Admission). */
export const FAIRNESS_WINDOW: Micros = 10n * SECOND;
const WINDOWS_OF_A_MINUTE = Number(QUOTA_MINUTE / FAIRNESS_WINDOW);

/** A quota below this leaves no whole call to the safety lane. */
export const MIN_REQUESTS_PER_MINUTE = 10;
/** What a counter of four octets carries, with room to spare. */
export const MAX_LIMIT = 1_000_000_000;
/** Farther than any work that people ask for; the fence is there for agents that answer each other. */
export const MAX_HOPS_LIMIT = 256;

/** A thousand requests per second is more than most domains make; a platform operator gives more where it is needed. */
export const DEFAULT_REQUESTS_PER_MINUTE = 60_000;
/** A hundred domains with the share that they get unasked. */
export const DEFAULT_SERVICE_REQUESTS_PER_MINUTE = 6_000_000;

/** The limits of a new domain. */
export const DEFAULT_LIMITS: DomainLimits = {
  requestsPerMinute: DEFAULT_REQUESTS_PER_MINUTE,
  // A tenth of the share: no actor alone uses a domain up.
  actorRequestsPerMinute: 6_000,
  // More than a day's reservations of a busy domain; what piles up above it is not being executed.
  pendingCeiling: 1_000_000,
  // An actor's minute quota spread over its windows: felt only where somebody else asks for less.
  fairnessBurst: 1_000,
  // Agents that answer each other's events stop here; work that people ask for takes a few hops.
  maxHops: 16,
};

/** So many failures in a row open a sink's breaker, unless the sink says otherwise. */
export const DEFAULT_BREAKER_THRESHOLD = 10;
/** So long it stays open before one execution may try, unless the sink says otherwise. */
export const DEFAULT_BREAKER_RESET: Micros = MINUTE;
/** So many UNKNOWN effects stop new ones at the sink, unless the sink says otherwise. */
export const DEFAULT_UNKNOWN_CEILING = 1_000;
/** An effect that is UNKNOWN for longer stops new ones at the sink, unless the sink says otherwise. */
export const DEFAULT_UNKNOWN_AGE: Micros = DAY;

/**
 * What an actor may make of requests in a minute: its limit, and never more than half of the domain's share, so that no actor
 * alone uses the domain up, however small its share is.
 */
export function actorLimit({ actorRequestsPerMinute, requestsPerMinute }: DomainLimits): number {
  return Math.min(actorRequestsPerMinute, Math.floor(requestsPerMinute / 2));
}

/** The limits that a new domain gets unasked: an actor's is a tenth of the share, and ten calls where that is less. */
export function initialLimits(requestsPerMinute: number): DomainLimits {
  const part = Math.max(Math.floor(requestsPerMinute / 10), MIN_REQUESTS_PER_MINUTE);
  const actorRequestsPerMinute = Math.min(DEFAULT_LIMITS.actorRequestsPerMinute, part);
  return { ...DEFAULT_LIMITS, requestsPerMinute, actorRequestsPerMinute };
}

/** By how much an actor may be ahead of the least served: the burst, and never more than its quota spread over the windows. */
export function actorBurst(limits: DomainLimits): number {
  return Math.min(limits.fairnessBurst, Math.ceil(actorLimit(limits) / WINDOWS_OF_A_MINUTE));
}

/** What ordinary calls may use of a quota: nine tenths; the rest is the safety lane's (authority.md, Admission). */
export function ordinaryPart(limit: number): number {
  return Math.floor((limit * 9) / 10);
}

import type { Outcome } from '../ledger/decision.js';
import { type Refusal, refusal } from '../ledger/refusal.js';

/** When a caller may come back, in microseconds. */
const RETRY_SOON = 250_000n;
const RETRY_LATER = 1_000_000n;

/** What a lane answers by itself: nothing was recorded. */
export function refused(reason: Refusal): Outcome<unknown> {
  return { ok: false, refusal: reason, recorded: false };
}

export function unavailable(): Refusal {
  return refusal('STORE_UNAVAILABLE', 'The store cannot be reached; nothing was done.', {
    retryAfter: RETRY_LATER,
  });
}

export function outcomeUnknown(): Refusal {
  return refusal('OUTCOME_UNKNOWN', 'It is not known whether it was done; repeat the exact call to learn.', {
    retryAfter: RETRY_LATER,
  });
}

export function queueFull(): Refusal {
  return refusal('BACKPRESSURE', 'The queue of the domain is full.', { retryAfter: RETRY_SOON });
}

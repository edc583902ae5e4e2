import type { SinkRow } from '../authority/records.js';
import { type Refusal, refusal } from '../refusal.js';
import { type Micros, SECOND } from '../types.js';
import type { Draft } from '../working-set.js';
import type { SinkCounterRow } from './records.js';

/** A reconciliation takes a while: sooner there is no sense in asking again. */
const RETRY_AFTER: Micros = 30n * SECOND;

/**
 * effects.md, Cost of not knowing: at a sink about which too much is not known, or something for too long, nothing new is
 * reserved until a reconciler has settled it.
 */
export function unknownRefusal(draft: Draft, sink: SinkRow, row: SinkCounterRow): Refusal | undefined {
  if (row.unknown === 0) return undefined;
  if (row.unknown >= sink.unknownCeiling) {
    return refused(sink, 'count', 'Too many effects of the sink are UNKNOWN.');
  }
  const oldest = oldestUnknown(draft, sink.sink);
  if (oldest === undefined || draft.now - oldest <= sink.unknownAge) return undefined;
  return refused(sink, 'age', 'An effect of the sink is UNKNOWN for too long.');
}

/** When the oldest effect that is UNKNOWN became so. Needs the read `oldestUnknown`. */
function oldestUnknown(draft: Draft, sink: string): Micros | undefined {
  let oldest: Micros | undefined;
  for (const { unknownAt } of draft.find('unknownOf', sink)) {
    if (unknownAt !== null && (oldest === undefined || unknownAt < oldest)) oldest = unknownAt;
  }
  return oldest;
}

function refused({ sink }: SinkRow, rule: 'count' | 'age', message: string): Refusal {
  return refusal('UNKNOWN_CEILING', message, {
    metadata: { rule, sink },
    resource: { type: 'quota', name: rule === 'count' ? 'unknown_ceiling' : 'unknown_age' },
    retryAfter: RETRY_AFTER,
  });
}

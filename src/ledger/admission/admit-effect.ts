import { type Refusal, refusal } from '../refusal.js';
import { type Micros, SECOND } from '../types.js';
import type { Draft } from '../working-set.js';
import { type ActorKey, admitCall, harnessActor } from './admit-call.js';
import { beginExecution, breakerRefusal } from './circuit-breaker.js';
import { newSink, type SinkCounterRow } from './records.js';
import { unknownRefusal } from './unknown-ceiling.js';

/** Work is settled all the time; sooner there is no sense in asking again. */
const PENDING_RETRY: Micros = 5n * SECOND;

/** Reserve, rule 7: the breaker, what is not known of the sink, the pending work, then the quotas and fairness. */
export function admitReservation(draft: Draft, sinkName: string, actor: ActorKey): Refusal | undefined {
  const sink = draft.get('sinks', sinkName);
  if (!sink) return undefined;
  const row = sinkCounters(draft, sinkName);
  const refused =
    breakerRefusal(sink, row, draft.now) ??
    unknownRefusal(draft, sink, row) ??
    pendingRefusal(draft) ??
    admitCall(draft, actor);
  if (refused) return refused;
  changePending(draft, 1);
  return undefined;
}

/** Transition rule 11, operation `effect_execute`: counts against the actor that reserved, for whom it is executed. */
export function admitExecution(
  draft: Draft,
  effect: { readonly effectId: string; readonly sink: string; readonly harnessId: string },
): Refusal | undefined {
  const sink = draft.get('sinks', effect.sink);
  const row = sinkCounters(draft, effect.sink);
  const refused =
    (sink && breakerRefusal(sink, row, draft.now)) ?? admitCall(draft, harnessActor(effect.harnessId));
  if (refused) return refused;
  const next = beginExecution(row, effect.effectId);
  if (next !== row) draft.put('sink_counters', next);
  return undefined;
}

/** One effect more that is not terminal, or one less. */
export function changePending(draft: Draft, by: 1 | -1): void {
  const { counters } = draft.head;
  draft.setCounters({ ...counters, pending: counters.pending + by });
}

/** What is counted for a sink. Its row must have been read. */
export function sinkCounters(draft: Draft, sink: string): SinkCounterRow {
  return draft.get('sink_counters', sink) ?? newSink(sink);
}

function pendingRefusal(draft: Draft): Refusal | undefined {
  const { pendingCeiling } = draft.domain.limits;
  if (draft.head.counters.pending < pendingCeiling) return undefined;
  return refusal('QUOTA_EXHAUSTED', 'Too many effects of the domain are not settled.', {
    metadata: { limit: String(pendingCeiling) },
    resource: { type: 'quota', name: 'pending_work' },
    retryAfter: PENDING_RETRY,
  });
}

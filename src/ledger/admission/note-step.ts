import type { EffectRow } from '../effect/records.js';
import type { Draft } from '../working-set.js';
import { sinkCounters } from './admit-effect.js';
import { endExecution, type ExecutionOutcome } from './circuit-breaker.js';

/**
 * What a step of an effect means for its sink: how many effects are UNKNOWN, and what the breaker learns. Failures are
 * terminal FAILED and UNKNOWN (authority.md, Admission), each when an execution ends; how a doubt is settled later says
 * nothing of the sink's present.
 */
export function noteStep(draft: Draft, before: EffectRow, after: EffectRow): void {
  const row = sinkCounters(draft, before.sink);
  const sink = draft.get('sinks', before.sink);
  const unknown = row.unknown + Number(after.state === 'UNKNOWN') - Number(before.state === 'UNKNOWN');
  let next = unknown === row.unknown ? row : { ...row, unknown };
  if (sink && before.state === 'EXECUTING') {
    next = endExecution(sink, next, {
      effectId: before.effectId,
      outcome: outcomeOf(after),
      now: draft.now,
    });
  }
  if (next !== row) draft.put('sink_counters', next);
}

/** A restore moves what it finds without knowing anything of the sink. */
function outcomeOf({ state, stateSource }: EffectRow): ExecutionOutcome {
  if (state === 'SUCCEEDED') return 'success';
  return (state === 'FAILED' || state === 'UNKNOWN') && stateSource !== 'restore' ? 'failure' : 'none';
}

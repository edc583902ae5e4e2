import { sinkCounters } from '../../admission/admit-effect.js';
import { closedBreaker } from '../../admission/circuit-breaker.js';
import { ADMIN_ONLY, type MutationRule, requireRecord, requireRevision } from '../mutation-rule.js';

/** Closes a sink's circuit breaker. */
export interface ResetBreaker {
  readonly kind: 'reset_breaker';
  readonly sink: string;
}

/** Closes a breaker by an operator's word, who knows that the sink works again; what it had counted is forgotten. */
export const resetBreaker: MutationRule<ResetBreaker> = {
  roles: ADMIN_ONLY,
  reads: ({ sink }) => ({ sinks: [sink] }),
  apply: (draft, { sink }, context) => {
    const row = requireRecord(draft.get('sinks', sink), 'sink');
    requireRevision(context, row);
    draft.put('sink_counters', closedBreaker(sinkCounters(draft, sink)));
    return { type: 'sink', id: sink, revision: row.revision };
  },
};

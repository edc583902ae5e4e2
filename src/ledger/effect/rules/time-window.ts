import { type Refusal, refusal } from '../../refusal.js';
import type { Micros } from '../../types.js';
import type { EvidenceFields } from '../evidence.js';
import { EVIDENCE_SLACK } from '../limits.js';
import type { TransitionCase } from '../transition-command.js';

/**
 * Transition rule 7 (effects.md): the evidence's time is at most 60 s before the step that it follows and at most 60 s
 * after the store's clock; a reconciliation's is never before that step.
 */
export function timeWindowRefusal(at: TransitionCase, now: Micros): Refusal | undefined {
  const time = evidenceTime(at.command.evidence.fields);
  const followed = followedStep(at);
  const earliest = at.kind.rpc === 'reconcile' ? followed : followed - EVIDENCE_SLACK;
  if (time >= earliest && time <= now + EVIDENCE_SLACK) return undefined;
  const field = at.kind.rpc === 'start' ? 'start_time' : 'observed_time';
  return refusal('EVIDENCE_TIME_OUTSIDE_WINDOW', "The evidence's time is outside of its window.", {
    metadata: { field },
  });
}

/** When the workload says that it happened, by its own clock. */
export function evidenceTime(fields: EvidenceFields[keyof EvidenceFields]): Micros {
  return 'startedAt' in fields ? fields.startedAt : fields.observedAt;
}

/** When the step was made that the evidence follows, by the store's clock. */
function followedStep({ kind, effect }: TransitionCase): Micros {
  switch (kind.rpc) {
    case 'start':
      return effect.reservedAt;
    case 'mark_unknown':
    case 'acknowledge':
      return effect.startedAt ?? effect.reservedAt;
    case 'reconcile':
      return effect.unknownAt ?? effect.stateAt;
  }
}

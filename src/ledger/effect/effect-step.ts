import { noteStep } from '../admission/note-step.js';
import type { AuditKind, EffectAudit } from '../audit/records.js';
import type { AuditPosition, Draft } from '../working-set.js';
import type { EffectRow } from './records.js';

/** What a step adds to the log besides what the effect's row says. */
export interface StepAudit
  extends Partial<
    Pick<
      EffectAudit,
      | 'evidenceDigest'
      | 'proofDigest'
      | 'registrationId'
      | 'grantCurrent'
      | 'provenanceDigest'
      | 'disputed'
      | 'decisionId'
    >
  > {
  readonly commandId: string;
  /** Undefined: the service itself. */
  readonly actorSpiffeId?: string;
}

/** What of an effect a step changes; the step itself, its place in the log and the time follow from that. */
export type EffectChange = Partial<
  Omit<EffectRow, 'effectId' | 'step' | 'lastSeq' | 'stateStep' | 'stateSeq' | 'stateLeaf' | 'stateAt'>
>;

/**
 * Takes an effect one step on: its row and its audit entry, with the effect's own contiguous step number
 * (effects.md, Completeness), and what it tells of the sink.
 */
export function takeStep(draft: Draft, effect: EffectRow, change: EffectChange, audit: StepAudit): EffectRow {
  const changed = { ...effect, ...change, step: effect.step + 1n };
  const position = appendStep(draft, 'effect_step', effect, changed, audit);
  const next: EffectRow = {
    ...changed,
    lastSeq: position.seq,
    stateAt: draft.now,
    stateStep: changed.step,
    stateSeq: position.seq,
    stateLeaf: position.leaf,
  };
  draft.put('effects', next);
  noteStep(draft, effect, next);
  return next;
}

/** Records late evidence: a step of its own that leaves the state and all that led to it. */
export function takeLateStep(
  draft: Draft,
  effect: EffectRow,
  change: Pick<EffectRow, 'disputed' | 'holdsKey'>,
  audit: StepAudit,
): EffectRow {
  const changed = {
    ...effect,
    ...change,
    step: effect.step + 1n,
    lateEvidenceCount: effect.lateEvidenceCount + 1,
  };
  const position = appendStep(draft, 'effect_late_evidence', effect, changed, audit);
  const next: EffectRow = { ...changed, lastSeq: position.seq };
  draft.put('effects', next);
  return next;
}

function appendStep(
  draft: Draft,
  kind: AuditKind,
  before: EffectRow,
  after: EffectRow,
  audit: StepAudit,
): AuditPosition {
  const { commandId, actorSpiffeId, ...rest } = audit;
  return draft.append({
    kind,
    commandId,
    ...(actorSpiffeId === undefined ? {} : { actorSpiffeId }),
    effect: {
      effectId: after.effectId,
      step: after.step,
      fromState: before.state,
      toState: after.state,
      source: after.stateSource,
      fence: after.fence,
      ...(after.attemptId === null ? {} : { attemptId: after.attemptId }),
      sink: after.sink,
      identityDigest: after.identityDigest,
      ...rest,
    },
  });
}

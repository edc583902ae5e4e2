import type { DecisionAudit } from '../audit/records.js';
import { type Digest, MINUTE, type Micros } from '../types.js';
import type { Draft } from '../working-set.js';
import type { PolicyVerdict } from './policy.js';
import { contextDigest, denialKey, type PolicyQuestion } from './policy-question.js';
import type { DecisionRow } from './records.js';

/** For so long the same denial is answered from the stored one (effects.md, Reserve 4): nobody floods the log. */
export const DENIAL_REPEAT_WINDOW: Micros = MINUTE;

/** A decision that is in the store, or will be with this batch. */
export interface RecordedDecision {
  readonly decision: DecisionRow;
  /** Whether a stored denial answers; nothing was written then. */
  readonly duplicate: boolean;
}

/**
 * Records what was decided, and that in the log. Ask `repeatedDenial` before.
 *
 * @param ids minted by the caller: a retry of the lane reuses them
 * @param foundUnder under what an allowance is found again, if it is
 */
export function recordDecision(
  draft: Draft,
  ids: { readonly decisionId: string; readonly commandId: string },
  question: PolicyQuestion,
  verdict: PolicyVerdict,
  foundUnder: Digest | null = null,
): DecisionRow {
  const { harnessId, actorId } = verdict.subject;
  const { action, resource } = question;
  const reason = verdict.allowed ? undefined : verdict.refusal.reason;
  const audit: DecisionAudit = {
    decisionId: ids.decisionId,
    allowed: verdict.allowed,
    ...(reason === undefined ? {} : { reason }),
    harnessId,
    actorId,
    action,
    resource,
    contextDigest: contextDigest(question),
  };
  const { seq } = draft.append({
    kind: 'decision',
    actorSpiffeId: question.caller.spiffeId,
    commandId: ids.commandId,
    decision: audit,
  });
  const decision: DecisionRow = {
    decisionId: ids.decisionId,
    ...verdict.subject,
    action,
    resource,
    requestDigest: question.requestDigest,
    contextDigest: audit.contextDigest,
    allowed: verdict.allowed,
    reason: reason ?? null,
    entitlementId: (verdict.allowed && verdict.entitlement?.entitlementId) || null,
    grantId: question.grantId ?? null,
    policyRevision: draft.domain.policyRevision,
    decidedAt: draft.now,
    denialKey: verdict.allowed ? foundUnder : denialKey(question),
    auditSeq: seq,
  };
  draft.put('decisions', decision);
  return decision;
}

/**
 * The stored denial that answers the same one within 60 s; it costs nothing. Needs the read
 * `denials: [denialKey(question)]`.
 */
export function repeatedDenial(
  draft: Draft,
  question: PolicyQuestion,
  verdict: PolicyVerdict,
): DecisionRow | undefined {
  if (verdict.allowed) return undefined;
  return draft
    .find('denialsOf', denialKey(question))
    .find(
      (row) =>
        row.reason === verdict.refusal.reason &&
        row.policyRevision === draft.domain.policyRevision &&
        row.harnessId === verdict.subject.harnessId &&
        row.actorId === verdict.subject.actorId &&
        draft.now - row.decidedAt < DENIAL_REPEAT_WINDOW,
    );
}

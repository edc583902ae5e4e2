import { sameDigest } from '../encoding.js';
import { type Refusal, refusal } from '../refusal.js';
import { type Digest, type Micros, SECOND } from '../types.js';
import type { Draft } from '../working-set.js';
import type { Actor } from './current-actor.js';
import { isEntitlementCurrent } from './entitlement-rules.js';
import { endRefusal, foreignRefusal, grantBindingRefusal } from './grant-rules.js';
import type { DecisionRow } from './records.js';

/** For so long a decision is evidence (authority.md, Deciding). */
export const DECISION_LIFETIME: Micros = 300n * SECOND;

/** What a decision is to back. */
export interface DecisionPurpose {
  readonly actor: Actor;
  readonly action: string;
  readonly resource: string;
  readonly requestDigest: Digest;
}

/**
 * Whether a recorded decision may back one mutation: recorded for this actor, action, resource and request digest,
 * allowed, at most 300 s old, of the current revision, its entitlement still current (a guest's: its grant), not used
 * (authority.md, Deciding; effects.md, Cancel). Needs the read `decisions`, which brings the decision's use, entitlement
 * and grant.
 *
 * @returns the decision, or `DECISION_NOT_USABLE` with the rule that it breaks
 */
export function usableDecision(
  draft: Draft,
  decisionId: string,
  purpose: DecisionPurpose,
): { readonly decision: DecisionRow } | { readonly refused: Refusal } {
  const decision = draft.get('decisions', decisionId);
  const rule = decision ? brokenRule(draft, decision, purpose) : 'decision';
  if (decision && rule === undefined) return { decision };
  const metadata = { rule: rule ?? 'decision' };
  return { refused: refusal('DECISION_NOT_USABLE', 'The decision does not back this.', { metadata }) };
}

/** Uses a decision up: it backs one mutation. `usedBy` names it, for example `effect.cancel:<effect id>`. */
export function useDecision(draft: Draft, decision: DecisionRow, usedBy: string): void {
  draft.put('decision_uses', { decisionId: decision.decisionId, usedBy, usedAt: draft.now });
}

function brokenRule(draft: Draft, decision: DecisionRow, purpose: DecisionPurpose): string | undefined {
  const { actor } = purpose;
  const own =
    decision.harnessId === actor.harness.harnessId &&
    decision.actorKind === actor.kind &&
    decision.actorId === actor.id;
  // An absent and a foreign decision look alike.
  if (!own) return 'decision';
  if (!decision.allowed) return 'allowed';
  if (decision.action !== purpose.action) return 'action';
  if (decision.resource !== purpose.resource) return 'resource';
  if (!sameDigest(decision.requestDigest, purpose.requestDigest)) return 'request_digest';
  if (draft.now - decision.decidedAt > DECISION_LIFETIME) return 'age';
  if (decision.policyRevision !== draft.domain.policyRevision) return 'policy_revision';
  if (!isBackingCurrent(draft, decision, actor)) return 'backing';
  return draft.get('decision_uses', decision.decisionId) ? 'used' : undefined;
}

/** A principal's decision stands on an entitlement, a guest's on a grant, and one that names both on both. */
function isBackingCurrent(draft: Draft, decision: DecisionRow, actor: Actor): boolean {
  if (decision.entitlementId === null && decision.grantId === null) return false;
  if (actor.kind === 'principal' && decision.entitlementId === null) return false;
  if (decision.entitlementId !== null) {
    const entitlement = draft.get('entitlements', decision.entitlementId);
    if (!entitlement || !isEntitlementCurrent(draft, entitlement)) return false;
  }
  if (decision.grantId === null) return true;
  const grant = draft.get('grants', decision.grantId);
  const holder = { harnessId: decision.harnessId, actorKind: decision.actorKind, actorId: decision.actorId };
  return (
    grant !== undefined &&
    !endRefusal(grant, draft.now) &&
    !foreignRefusal(grant, holder) &&
    !grantBindingRefusal(grant, draft.domain, actor.harness)
  );
}

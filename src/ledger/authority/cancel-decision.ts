import { canonicalDigest, sameDigest, sha256 } from '../encoding.js';
import type { Reads } from '../reads.js';
import type { Digest } from '../types.js';
import type { Draft } from '../working-set.js';
import type { GrantHolder } from './grant-rules.js';
import type { PolicyAllowed } from './policy.js';
import type { PolicyQuestion } from './policy-question.js';
import type { DecisionRow } from './records.js';
import { DECISION_LIFETIME } from './usable-decision.js';

/** The action that a harness needs to cancel its effect; the resource is the effect's id (effects.md, Cancel). */
export const CANCEL_ACTION = 'effect.cancel';

/** A cancel sends nothing: the request digest of its decision is the SHA-256 of nothing. */
export const CANCEL_REQUEST_DIGEST: Digest = sha256('');

/**
 * The rows that say whether an allowed question belongs to the safety lane, which counts it and refuses it by no quota: only
 * what `CancelEffect` could use is, and once (effects.md, Transitions 11). Whoever may ask anything could else fill the log.
 */
export function cancelReads(question: PolicyQuestion): Reads {
  if (!isAboutCancel(question)) return {};
  return { effects: [question.resource], denials: [cancelKey(question)] };
}

/** Whether the question is about a cancel that its actor could make now. Needs {@link cancelReads}. */
export function endsOwnEffect(draft: Draft, question: PolicyQuestion, actor: GrantHolder): boolean {
  if (!isAboutCancel(question)) return false;
  const effect = draft.get('effects', question.resource);
  return effect?.state === 'PREPARED' && isOwn(effect, actor);
}

/**
 * The newest decision for the same cancel that stands already. It is not used: then the effect were not PREPARED any more.
 * What it rests on is current, since it is what the verdict rests on. Needs {@link cancelReads}.
 */
export function standingDecision(
  draft: Draft,
  question: PolicyQuestion,
  { subject, entitlement }: PolicyAllowed,
): DecisionRow | undefined {
  return draft
    .find('denialsOf', cancelKey(question))
    .filter(
      (row) =>
        isOwn(row, subject) &&
        row.entitlementId === (entitlement?.entitlementId ?? null) &&
        row.grantId === (question.grantId ?? null) &&
        row.policyRevision === draft.domain.policyRevision &&
        draft.now - row.decidedAt <= DECISION_LIFETIME,
    )
    .sort((a, b) => (a.auditSeq < b.auditSeq ? 1 : -1))[0];
}

/** Under which text the decisions for one cancel are found again. */
export function cancelKey({ resource }: PolicyQuestion): Digest {
  return canonicalDigest('surety-cancel-decision-v1', [resource]);
}

function isAboutCancel({ action, requestDigest }: PolicyQuestion): boolean {
  return action === CANCEL_ACTION && sameDigest(requestDigest, CANCEL_REQUEST_DIGEST);
}

function isOwn(row: GrantHolder, actor: GrantHolder): boolean {
  return (
    row.harnessId === actor.harnessId && row.actorKind === actor.actorKind && row.actorId === actor.actorId
  );
}

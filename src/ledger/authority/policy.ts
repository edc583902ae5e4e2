import { type Refusal, refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Caller } from '../types.js';
import type { Draft } from '../working-set.js';
import { type Actor, currentActor } from './current-actor.js';
import { currentEntitlement } from './entitlement-rules.js';
import { type GrantHolder, grantDecisionRefusal } from './grant-rules.js';
import type { PolicyQuestion } from './policy-question.js';
import type { EntitlementRow, GrantRow } from './records.js';

/** A question that is allowed. */
export interface PolicyAllowed {
  readonly allowed: true;
  readonly subject: GrantHolder;
  readonly actor: Actor;
  /** Of a principal; a guest has none of its own. */
  readonly entitlement: EntitlementRow | undefined;
  /** Where one was named. */
  readonly grant: GrantRow | undefined;
}

/** A question that is denied, with the first reason. */
export interface PolicyDenied {
  readonly allowed: false;
  readonly subject: GrantHolder;
  readonly refusal: Refusal;
}

export type PolicyVerdict = PolicyAllowed | PolicyDenied;

/**
 * Decides a question (authority.md, Deciding): fail closed, the first reason wins. Writes nothing; `recordDecision` does.
 * Needs the reads `callerHarness`, `entitlementsOfCaller` and, where a grant is named, `grants`.
 *
 * @throws {Refused} where there is no harness whose decision it could be: nothing can be recorded then
 */
export function decidePolicy(draft: Draft, question: PolicyQuestion): PolicyVerdict {
  const subject = actingSubject(draft, question.caller);
  const early = domainRefusal(draft, question.policyRevision);
  const result = early ? { refused: early } : currentActor(draft, question.caller, question.expectation);
  if ('refused' in result) {
    if (subject === undefined || result.refused.reason === 'CALLER_UNKNOWN')
      throw new Refused(result.refused);
    return { allowed: false, subject, refusal: result.refused };
  }
  const { actor } = result;
  const holder = { harnessId: actor.harness.harnessId, actorKind: actor.kind, actorId: actor.id };
  const authority = positiveAuthority(draft, question, actor);
  return 'refused' in authority
    ? { allowed: false, subject: holder, refusal: authority.refused }
    : { allowed: true, subject: holder, actor, ...authority };
}

/** The denial that an allowed question becomes by a later rule, for the record (effects.md, Reserve 6). */
export function deniedAfterAll(verdict: PolicyVerdict, refused: Refusal): PolicyDenied {
  return { allowed: false, subject: verdict.subject, refusal: refused };
}

/** Whose decision it is, in force or not. Undefined: the caller is not a harness of the domain. */
export function actingSubject(draft: Draft, caller: Caller): GrantHolder | undefined {
  const row = draft.get('callers', caller.spiffeId);
  if (row?.kind !== 'harness') return undefined;
  const harness = draft.get('harnesses', row.refId);
  return harness && { harnessId: harness.harnessId, actorKind: harness.ownerKind, actorId: harness.ownerId };
}

function domainRefusal(draft: Draft, policyRevision: bigint | undefined): Refusal | undefined {
  if (draft.domain.status !== 'active') return refusal('DOMAIN_INACTIVE', 'The domain is not active.');
  if (policyRevision !== undefined && policyRevision !== draft.domain.policyRevision) {
    return refusal('POLICY_REVISION_STALE', "The policy revision is not the domain's current one.");
  }
  return undefined;
}

function positiveAuthority(
  draft: Draft,
  question: PolicyQuestion,
  actor: Actor,
): { entitlement: EntitlementRow | undefined; grant: GrantRow | undefined } | { refused: Refusal } {
  const reported = question.eligibilityDenials?.[0];
  if (reported !== undefined) {
    const metadata = { eligibility: reported };
    return {
      refused: refusal('ELIGIBILITY_DENIED', "The caller's platform reports a denial.", { metadata }),
    };
  }
  let entitlement: EntitlementRow | undefined;
  if (actor.kind === 'principal') {
    const result = currentEntitlement(draft, actor.id, question.action, question.resource);
    if ('refused' in result) return result;
    entitlement = result.entitlement;
  }
  if (question.grantId === undefined) {
    const needed = actor.kind === 'guest' || question.protectedOperation;
    return needed
      ? { refused: refusal('GRANT_REQUIRED', 'A grant is needed, and none was named.') }
      : { entitlement, grant: undefined };
  }
  const grant = draft.get('grants', question.grantId);
  const refused = grantDecisionRefusal(
    grant,
    actor.harness,
    question,
    draft.domain,
    draft.now,
    question.leaveGrantUse === true,
  );
  return refused ? { refused } : { entitlement, grant };
}

import { canonicalDigest } from '../encoding.js';
import type { Caller, Digest } from '../types.js';
import type { ActorExpectation } from './current-actor.js';
import type { GrantDimensions } from './grant-rules.js';

/** What a policy decision is asked (authority.md, Deciding). */
export interface PolicyQuestion extends GrantDimensions {
  readonly caller: Caller;
  /** SHA-256 of the request that it is about. */
  readonly requestDigest: Digest;
  /** The event that it is about, if any. */
  readonly eventId?: string;
  /** The grant that backs it, if any. */
  readonly grantId?: string;
  /** Denials that the caller's own platform reports; they can deny, never allow. */
  readonly eligibilityDenials?: readonly string[];
  /** The policy revision that the question rests on; absent: the current one. */
  readonly policyRevision?: bigint;
  /** What else it rests on. */
  readonly expectation?: ActorExpectation;
  /** Whether it needs a grant whoever asks: every effect is such an operation. */
  readonly protectedOperation: boolean;
  /** Its `contextDigest`, where that is known already. */
  readonly context?: Digest;
  /** Its `denialKey`, where the command says less than the question, whose revision is then a row's. */
  readonly denial?: Digest;
  /** Whether the exhausted grant is left to Reserve's own rule, which comes behind the effect key's (effects.md, Reserve 6). */
  readonly leaveGrantUse?: boolean;
}

/** Digest of event, sink, source, data class and request digest: what a decision is about besides action and resource. */
export function contextDigest(
  question: Pick<
    PolicyQuestion,
    'eventId' | 'outputSink' | 'inputSource' | 'dataClass' | 'requestDigest' | 'context'
  >,
): Digest {
  if (question.context) return question.context;
  return canonicalDigest('surety-policy-context-v1', [
    question.eventId,
    question.outputSink,
    question.inputSource,
    BigInt(question.dataClass),
    question.requestDigest,
  ]);
}

/**
 * Under which text the denials of a question are found again: everything that a command itself says, so that the read can
 * be named before any row is there. What only rows say (reason, revision, actor) is compared on the rows found.
 */
export function denialKey(question: PolicyQuestion): Digest {
  if (question.denial) return question.denial;
  return canonicalDigest('surety-policy-denial-v2', [
    question.caller.spiffeId,
    question.action,
    question.resource,
    contextDigest(question),
    question.grantId,
    question.eligibilityDenials ?? [],
    question.policyRevision,
    question.expectation?.assurance,
    question.expectation?.credentialEpoch,
    question.protectedOperation,
  ]);
}

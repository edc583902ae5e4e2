import { admitCall, countSafetyCall, harnessActor } from '../admission/admit-call.js';
import { accept, type CommandBase, type Decision, refuse } from '../decision.js';
import { mergeReads, type Reads } from '../reads.js';
import { cancelKey, cancelReads, endsOwnEffect, standingDecision } from './cancel-decision.js';
import { decidePolicy } from './policy.js';
import { denialKey, type PolicyQuestion } from './policy-question.js';
import { type RecordedDecision, recordDecision, repeatedDenial } from './record-decision.js';

/** A question that is asked for its own sake: its answer may be evidence for one mutation later. */
export interface Decide extends CommandBase {
  /** Minted by the rpc layer. */
  readonly decisionId: string;
  readonly question: PolicyQuestion;
}

/** The rows that a policy question is decided by. */
export function policyReads(question: PolicyQuestion): Reads {
  const { spiffeId } = question.caller;
  return {
    callerHarness: [spiffeId],
    entitlementsOfCaller: [{ spiffeId, action: question.action, resource: question.resource }],
    ...(question.grantId === undefined ? {} : { grants: [question.grantId] }),
    denials: [denialKey(question)],
  };
}

/** `PolicyService.Decide`: a denial is an answer, and recorded like an allowance (authority.md, Deciding). */
export const decide: Decision<Decide, RecordedDecision> = {
  kind: 'decide',
  reads: ({ question }) => mergeReads([policyReads(question), cancelReads(question)]),
  decide: (draft, command) => {
    const { question } = command;
    const verdict = decidePolicy(draft, question);
    const stored = repeatedDenial(draft, question, verdict);
    if (stored) return accept({ decision: stored, duplicate: true });
    const actor = harnessActor(verdict.subject.harnessId);
    const cancels = verdict.allowed && endsOwnEffect(draft, question, verdict.subject);
    const standing = cancels ? standingDecision(draft, question, verdict) : undefined;
    if (cancels && !standing) countSafetyCall(draft, actor);
    else {
      const held = admitCall(draft, actor);
      // Even so nobody is kept from a cancel by a quota: the decision that stands is as good.
      if (held) return standing ? accept({ decision: standing, duplicate: true }) : refuse(held);
    }
    const foundUnder = cancels ? cancelKey(question) : null;
    const decision = recordDecision(draft, command, question, verdict, foundUnder);
    return accept({ decision, duplicate: false });
  },
};

import { admitCall, countSafetyCall, harnessActor } from '../admission/admit-call.js';
import { accept, type CommandBase, type Decision, refuse } from '../decision.js';
import type { Reads } from '../reads.js';
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

/**
 * The action of the safety lane: the decision that allows it is counted and never refused by a quota (authority.md,
 * Admission). A denial is not: it would fill the log.
 */
export const CANCEL_ACTION = 'effect.cancel';

/** `PolicyService.Decide`: a denial is an answer, and recorded like an allowance (authority.md, Deciding). */
export const decide: Decision<Decide, RecordedDecision> = {
  kind: 'decide',
  reads: ({ question }) => policyReads(question),
  decide: (draft, command) => {
    const verdict = decidePolicy(draft, command.question);
    const stored = repeatedDenial(draft, command.question, verdict);
    if (stored) return accept({ decision: stored, duplicate: true });
    const actor = harnessActor(verdict.subject.harnessId);
    if (verdict.allowed && command.question.action === CANCEL_ACTION) countSafetyCall(draft, actor);
    else {
      const held = admitCall(draft, actor);
      if (held) return refuse(held);
    }
    return accept({ decision: recordDecision(draft, command, command.question, verdict), duplicate: false });
  },
};

import { countSafetyCall, harnessActor } from '../admission/admit-call.js';
import { type Outcome, refuse, refuseRecorded } from '../decision.js';
import { sameDigest } from '../encoding.js';
import type { Refusal } from '../refusal.js';
import { isTerminal, type TerminalState } from '../types.js';
import type { Draft } from '../working-set.js';
import { takeLateStep } from './effect-step.js';
import { MAX_LATE_EVIDENCE } from './limits.js';
import { putReceipt } from './receipt.js';
import type { EffectRow } from './records.js';
import { attemptRefusal } from './rules/attempt.js';
import { executorIdentityRefusal } from './rules/executor-identity.js';
import { isGrantCurrent } from './rules/grant-currency.js';
import { nonceRefusal, spendNonce } from './rules/nonce.js';
import { timeWindowRefusal } from './rules/time-window.js';
import type { TransitionCase, TransitionReply } from './transition-command.js';

/**
 * effects.md, Late evidence: an executor's acknowledgement on UNKNOWN, or on a terminal state that it did not reach, is
 * verified, kept and refused all the same. If it contradicts a terminal state, the effect is disputed and takes its key
 * again where that is free. Rules 2 and 3 were judged before; 6, 7, 8 and 12 are judged here.
 */
export function recordLateEvidence(
  draft: Draft,
  at: TransitionCase,
  reason: Refusal,
): Outcome<TransitionReply> {
  const { effect, command } = at;
  const kept = (word: string): Refusal => ({
    ...reason,
    metadata: { ...reason.metadata, late_evidence: word },
  });
  if (!concerns(at) || !verifies(draft, at)) return refuse(kept('not_kept'));
  if (isKeptAlready(draft, at)) return refuse(kept('kept'));
  if (!hasPlace(draft, at)) return refuse(kept('not_kept'));

  const contradicts = isTerminal(effect.state) && command.proof.statement.toState !== effect.state;
  const disputed = effect.disputed || contradicts;
  countSafetyCall(draft, harnessActor(effect.harnessId));
  spendNonce(draft, at);
  const next = takeLateStep(
    draft,
    effect,
    { disputed, holdsKey: effect.holdsKey || (contradicts && isKeyFree(draft, at)) },
    {
      commandId: command.commandId,
      actorSpiffeId: command.caller.spiffeId,
      evidenceDigest: command.evidence.digest,
      proofDigest: command.proof.statementDigest,
      registrationId: at.registration.registrationId,
      grantCurrent: isGrantCurrent(draft, effect),
      ...(disputed ? { disputed } : {}),
    },
  );
  putReceipt(draft, at, { step: next.step, late: true });
  return refuseRecorded(kept('kept'));
}

/** Whether late evidence that was kept while the outcome was unknown says something else than this settlement. */
export function contradictsKept(draft: Draft, { effectId }: EffectRow, state: TerminalState): boolean {
  return draft
    .find('transitionsOfEffect', effectId)
    .some((receipt) => receipt.late && receipt.toState !== state);
}

/** Whether an acknowledgement is late evidence of the executor itself, which an expired registration may still bring. */
export function isLateEvidence(at: TransitionCase): boolean {
  return concerns(at) && executorIdentityRefusal(at) === undefined;
}

/** On UNKNOWN, or on a terminal state that somebody else reached. */
function concerns({ effect }: TransitionCase): boolean {
  return effect.state === 'UNKNOWN' || (isTerminal(effect.state) && effect.stateSource !== 'executor');
}

function verifies(draft: Draft, at: TransitionCase): boolean {
  return (
    (attemptRefusal(at) ??
      timeWindowRefusal(at, draft.now) ??
      executorIdentityRefusal(at) ??
      nonceRefusal(draft, at)) === undefined
  );
}

function isKeptAlready(draft: Draft, { command, effect }: TransitionCase): boolean {
  return draft
    .find('transitionsOfEffect', effect.effectId)
    .some(
      (receipt) =>
        receipt.late &&
        receipt.toState === command.proof.statement.toState &&
        sameDigest(receipt.evidenceDigest, command.evidence.digest),
    );
}

/**
 * The last place is for what says another state than the settlement, or, while there is none, than all that was kept: so
 * a contradiction is never left out for what was said before it, and where all places are taken there is one.
 */
function hasPlace(draft: Draft, { command, effect }: TransitionCase): boolean {
  if (effect.lateEvidenceCount < MAX_LATE_EVIDENCE - 1) return true;
  if (effect.lateEvidenceCount >= MAX_LATE_EVIDENCE) return false;
  const { toState } = command.proof.statement;
  if (isTerminal(effect.state)) return toState !== effect.state;
  return !draft
    .find('transitionsOfEffect', effect.effectId)
    .some((receipt) => receipt.late && receipt.toState === toState);
}

function isKeyFree(draft: Draft, { effect }: TransitionCase): boolean {
  const { sink, keyDigest } = effect;
  return (
    draft.find('keyHolder', sink, keyDigest).length === 0 &&
    !draft.find('keyArchived', sink, keyDigest).some((archived) => archived.holdsKey)
  );
}

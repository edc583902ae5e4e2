import { countSafetyCall, harnessActor } from '../admission/admit-call.js';
import { accept, type Decision, type Outcome, refuse } from '../decision.js';
import type { ProvenanceRow } from '../provenance/records.js';
import type { Reads } from '../reads.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Micros } from '../types.js';
import type { Draft } from '../working-set.js';
import { type StepAudit, takeStep, type EffectChange } from './effect-step.js';
import type { EvidenceKind } from './evidence.js';
import { isLateEvidence, recordLateEvidence } from './late-evidence.js';
import { putReceipt } from './receipt.js';
import type { EffectRow, TombstoneRow } from './records.js';
import { checkedOutput } from './terminal-output.js';
import { archivedRefusal } from './tombstone.js';
import { attemptRefusal } from './rules/attempt.js';
import { isExactDuplicate } from './rules/exact-duplicate.js';
import { executorIdentityRefusal } from './rules/executor-identity.js';
import { fromStateRefusal } from './rules/from-state.js';
import { grantCurrencyRefusal, isGrantCurrent } from './rules/grant-currency.js';
import { independenceRefusal } from './rules/independence.js';
import { nonceDigest, nonceRefusal, spendNonce } from './rules/nonce.js';
import { proofBindingRefusal } from './rules/proof-binding.js';
import { settleTimeRefusal } from './rules/settle-time.js';
import { startConditionRefusal } from './rules/start-conditions.js';
import { timeWindowRefusal } from './rules/time-window.js';
import { isVisibleToWorkload } from './rules/visible.js';
import { workloadCurrencyRefusal } from './rules/workload-currency.js';
import { sendWindowLeft } from './send-window.js';
import type {
  TransitionCase,
  TransitionCommand,
  TransitionKind,
  TransitionReply,
} from './transition-command.js';
import { isTerminal } from '../types.js';
import { verifiedEffect } from './verified-effect.js';

/** What a transition makes of the effect: the change of its row, what else the log says, the record of the output. */
export type Advance<K extends EvidenceKind> = (
  draft: Draft,
  at: TransitionCase<K>,
) => {
  readonly change: EffectChange;
  readonly audit?: Pick<StepAudit, 'provenanceDigest' | 'disputed'>;
  readonly output?: ProvenanceRow;
};

/**
 * One of the four transitions by workloads as a decision: the rules of effects.md in their order, the first reason wins,
 * then the step, its receipt and its nonce.
 */
export function transition<K extends EvidenceKind>(
  kind: TransitionKind,
  advance: Advance<K>,
): Decision<TransitionCommand<K>, TransitionReply> {
  return {
    kind: `effect.${kind.rpc}`,
    reads: (command) => readsOf(kind, command),
    decide: (draft, command, now) => decide(draft, kind, command, advance, now),
    serializeBy: (command) => command.effectId,
  };
}

function readsOf({ rpc }: TransitionKind, { caller, effectId, proof }: TransitionCommand): Reads {
  const { registrationId, nonce } = proof.statement;
  return {
    callers: [caller.spiffeId],
    effectContext: [effectId],
    ...(rpc === 'reconcile' ? { effectExecutors: [effectId] } : {}),
    ...(rpc === 'acknowledge' ? { keysOfEffects: [effectId] } : {}),
    registrations: [registrationId],
    transitionsOf: [effectId],
    transitionNonces: [{ registrationId, nonceDigest: nonceDigest(nonce) }],
  };
}

function decide<K extends EvidenceKind>(
  draft: Draft,
  kind: TransitionKind,
  command: TransitionCommand<K>,
  advance: Advance<K>,
  now: Micros,
): Outcome<TransitionReply> {
  const peer = peerRefusal(draft, kind, command, now);
  if (peer) return refuse(peer);

  // Rule 1.
  const registration = draft.get('registrations', command.proof.statement.registrationId);
  const stored = draft.get('effects', command.effectId);
  const archived = stored ? undefined : draft.get('effect_tombstones', command.effectId);
  if (archived && registration && isVisibleToWorkload(registration, kind.role, archived)) {
    return refuse(lateRefusal(draft, { kind, command, registration }, archived));
  }
  if (!stored || !registration || !isVisibleToWorkload(registration, kind.role, stored)) {
    return refuse(refusal('NOT_VISIBLE', 'There is no such effect, or the caller may not see it.'));
  }
  const effect = verifiedEffect(draft, stored);
  const at: TransitionCase<K> = {
    kind,
    command,
    effect,
    registration,
    grant: draft.get('grants', effect.grantId),
  };

  // Rules 2 and 3.
  const wrongState = fromStateRefusal(kind, effect);
  const late = wrongState !== undefined && kind.rpc === 'acknowledge' && !isExactDuplicate(at);
  const unproven =
    workloadCurrencyRefusal(draft, at, late && isLateEvidence(at)) ??
    proofBindingRefusal(draft, at) ??
    toStateRefusal(at);
  if (unproven) return refuse(unproven);

  // Rule 4.
  if (isExactDuplicate(at)) {
    const output = isTerminal(effect.state) ? checkedOutput(draft, at) : undefined;
    return accept({ effect, duplicate: true, output, ...leaveToSend(kind, effect, now) });
  }

  // Rule 5.
  if (wrongState) return late ? recordLateEvidence(draft, at, wrongState) : refuse(wrongState);

  // Rules 6 to 12.
  const refused =
    attemptRefusal(at) ??
    timeWindowRefusal(at, now) ??
    executorIdentityRefusal(at) ??
    independenceRefusal(draft, at) ??
    (kind.rpc === 'start'
      ? (grantCurrencyRefusal(draft, effect) ?? startConditionRefusal(draft, effect))
      : settleTimeRefusal(draft, at)) ??
    nonceRefusal(draft, at);
  if (refused) return refuse(refused);

  // Rule 13; a start was counted when it was admitted.
  if (kind.rpc !== 'start') countSafetyCall(draft, harnessActor(effect.harnessId));
  const made = step(draft, at, advance);
  return accept({ ...made, duplicate: false, ...leaveToSend(kind, made.effect, now) });
}

/** The peer is a caller of the domain, of the kind that the RPC is for, with a certificate that is still valid. */
function peerRefusal(
  draft: Draft,
  kind: TransitionKind,
  { caller }: TransitionCommand,
  now: Micros,
): Refusal | undefined {
  const row = draft.get('callers', caller.spiffeId);
  if (!row || caller.trustDomain !== draft.domainId || caller.notAfter <= now) {
    return refusal('CALLER_UNKNOWN', 'The caller is not registered in the domain.');
  }
  const wanted = kind.role === 'effect_executor' ? 'executor' : 'reconciler';
  if (row.kind === wanted) return undefined;
  return refusal('METHOD_NOT_ALLOWED', "The method is not open to the caller's kind.", {
    metadata: { kind: row.kind },
  });
}

/** effects.md, Archival: what comes too late for an archived effect learns its state, once rules 2 and 3 have let it. */
function lateRefusal(
  draft: Draft,
  at: Pick<TransitionCase, 'kind' | 'command' | 'registration'>,
  archived: TombstoneRow,
): Refusal {
  const effect = verifiedEffect(draft, archived);
  // As late evidence may come under a registration that expired meanwhile, so may its answer go to one.
  const ownLate =
    at.kind.rpc === 'acknowledge' && effect.executorRegistrationId === at.registration.registrationId;
  return (
    workloadCurrencyRefusal(draft, { ...at, effect }, ownLate) ??
    proofBindingRefusal(draft, { ...at, effect }) ??
    archivedRefusal(effect)
  );
}

/** What a reconciler signs as the new state is what its evidence says. */
function toStateRefusal({ kind, command }: TransitionCase): Refusal | undefined {
  const { fields } = command.evidence;
  if (kind.rpc !== 'reconcile' || !('terminalState' in fields)) return undefined;
  return fields.terminalState === command.proof.statement.toState
    ? undefined
    : refusal('PROOF_BINDING_MISMATCH', 'The evidence and the proof name different states.', {
        metadata: { field: 'to_state' },
      });
}

/** A repeat of a start is told what is left: counted from it, the whole window would outlast a negative settlement. */
function leaveToSend(
  { rpc }: TransitionKind,
  effect: EffectRow,
  now: Micros,
): Pick<TransitionReply, 'sendWindow'> {
  return rpc === 'start' ? { sendWindow: sendWindowLeft(effect, now) } : {};
}

function step<K extends EvidenceKind>(
  draft: Draft,
  at: TransitionCase<K>,
  advance: Advance<K>,
): Omit<TransitionReply, 'duplicate'> {
  const { command, registration, effect } = at;
  const { change, audit, output } = advance(draft, at);
  spendNonce(draft, at);
  const next = takeStep(
    draft,
    effect,
    { ...change, evidenceDigest: command.evidence.digest },
    {
      commandId: command.commandId,
      actorSpiffeId: command.caller.spiffeId,
      evidenceDigest: command.evidence.digest,
      proofDigest: command.proof.statementDigest,
      registrationId: registration.registrationId,
      grantCurrent: isGrantCurrent(draft, effect),
      ...audit,
    },
  );
  putReceipt(draft, at, { step: next.step, late: false });
  return { effect: next, output };
}

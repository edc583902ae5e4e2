import type { Draft } from '../working-set.js';
import { evidenceTime } from './rules/time-window.js';
import type { TransitionCase } from './transition-command.js';

/** Keeps what the workload proved at a step: evidence and proof in their exact bytes, leaf and time of receipt. */
export function putReceipt(
  draft: Draft,
  { command, effect, registration }: TransitionCase,
  place: { readonly step: bigint; readonly late: boolean },
): void {
  const { statement } = command.proof;
  draft.put('transitions', {
    effectId: effect.effectId,
    step: place.step,
    fromState: statement.fromState,
    toState: statement.toState,
    late: place.late,
    registrationId: registration.registrationId,
    role: registration.role,
    workloadId: registration.workloadId,
    spiffeId: command.caller.spiffeId,
    leafDigest: command.caller.leafDigest,
    keyThumbprint: command.proof.keyThumbprint,
    credentialEpoch: registration.credentialEpoch,
    attemptId: command.evidence.fields.attemptId,
    evidence: command.evidence.bytes,
    evidenceDigest: command.evidence.digest,
    proof: command.proof.proofBytes,
    proofEncoding: command.proof.encoding,
    statementDigest: command.proof.statementDigest,
    skew: draft.now - evidenceTime(command.evidence.fields),
    receivedAt: draft.now,
  });
}

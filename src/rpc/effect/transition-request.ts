import type { TransitionProof } from '../../gen/surety/effect/v1/proof_pb.js';
import { SignedMessageError } from '../../identity/signed-message-error.js';
import {
  type TransitionProofInput,
  type VerifiedProof,
  verifyTransitionProof,
} from '../../identity/transition-proof.js';
import type { EvidenceKind } from '../../ledger/effect/evidence.js';
import type { TransitionCommand } from '../../ledger/effect/transition-command.js';
import { refusal } from '../../ledger/refusal.js';
import { Refused } from '../../ledger/run-decision.js';
import { decodeEvidence } from '../evidence.js';
import type { CallContext, HandlerTools } from '../handler.js';
import { Violations } from '../validate.js';
import { MAX_EFFECT_ID_OCTETS } from './read-request.js';

/** What the requests of the four transitions have in common. */
export interface TransitionRequest {
  readonly effectId: string;
  readonly evidence: Uint8Array;
  readonly proof?: TransitionProof | undefined;
}

/**
 * Reads a transition: the form of its fields, the exact evidence, and the proof, whose signature is verified here, before
 * the lane. What the proof says is judged in the transaction (effects.md, Transitions 3).
 *
 * @throws {Refused} FIELD_INVALID with every violation of the request, or of the signed statement (`proof.nonce`);
 *   PROOF_SIGNATURE_INVALID with the rule, and in `field` where the proof stands
 */
export async function readTransition<K extends EvidenceKind>(
  tools: Pick<HandlerTools, 'proofKeys'>,
  kind: K,
  request: TransitionRequest,
  context: CallContext,
): Promise<TransitionCommand<K>> {
  const violations = new Violations();
  const effectId = violations.id('effect_id', request.effectId, 1, MAX_EFFECT_ID_OCTETS);
  const proof = readProof(violations, request.proof);
  const evidence = decodeEvidence(kind, request.evidence, violations);
  const { domainId, caller, requestId } = context;
  return {
    domainId,
    commandId: requestId,
    caller,
    effectId,
    evidence,
    proof: await verify(tools, proof as TransitionProofInput, domainId),
  };
}

function readProof(
  violations: Violations,
  proof: TransitionProof | undefined,
): TransitionProofInput | undefined {
  switch (proof?.encoding.case) {
    case 'jws':
      return { jws: proof.encoding.value };
    case 'dsse':
      return { dsse: proof.encoding.value };
    case undefined:
      violations.refuse('proof', 'must hold a jws or a dsse envelope');
      return undefined;
  }
}

async function verify(
  { proofKeys }: Pick<HandlerTools, 'proofKeys'>,
  input: TransitionProofInput,
  domainId: string,
): Promise<VerifiedProof> {
  try {
    return await verifyTransitionProof(input, domainId, proofKeys);
  } catch (error) {
    if (!(error instanceof SignedMessageError)) throw error;
    if (error.reason === 'FIELD_INVALID') {
      throw new Refused(refusal('FIELD_INVALID', error.message, { violations: error.violations }));
    }
    const field = 'jws' in input ? 'proof.jws' : 'proof.dsse';
    throw new Refused(refusal(error.reason, error.message, { metadata: { rule: error.rule, field } }));
  }
}

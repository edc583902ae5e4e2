import { refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Draft } from '../working-set.js';
import { type CurrentCaller, ownerNotCurrent } from './action-callers.js';
import type { EvidenceSignature } from './commands.js';
import { MAX_GATES } from './limits.js';
import type { ActionReceiptRow } from './records.js';

/** Who answers for a gate, and how. */
export interface Approver {
  readonly spiffeId: string;
  readonly keys: readonly string[];
  readonly signingKeyThumbprint: string;
  readonly signature: Buffer | null;
  readonly boundedGrantId: string | null;
}

/**
 * The calling owner with its signature.
 *
 * @throws {Refused} OWNER_NOT_CURRENT where another key signed than the registered one
 */
export function signingOwner(
  { owner, keys }: Extract<CurrentCaller, { as: 'owner' }>,
  signature: EvidenceSignature,
): Approver {
  const { keyThumbprint } = signature;
  if (owner.signingKeyThumbprint !== keyThumbprint) throw ownerNotCurrent('key');
  return {
    spiffeId: owner.spiffeId,
    keys: [...new Set([...keys, keyThumbprint])].sort(),
    signingKeyThumbprint: keyThumbprint,
    signature: signature.jws,
    boundedGrantId: null,
  };
}

/** The columns of a receipt that say who answers for it. */
export function approverColumns(approver: Approver) {
  return {
    approverSpiffeId: approver.spiffeId,
    approverKeys: approver.keys,
    signingKeyThumbprint: approver.signingKeyThumbprint,
    signature: approver.signature,
    boundedGrantId: approver.boundedGrantId,
    requestId: null,
  } satisfies Partial<ActionReceiptRow>;
}

/**
 * An approval and a decision are one gate's each, in the whole domain.
 *
 * Needs the reads `approvals` and `gateDecisions`.
 *
 * @throws {Refused} APPROVAL_REUSED
 */
export function requireUnused(draft: Draft, approvalId: string | undefined, decisionId: string): void {
  const field =
    approvalId !== undefined && draft.find('gateOfApproval', approvalId).length > 0
      ? 'approval_id'
      : draft.find('gateOfDecision', decisionId).length > 0
        ? 'decision_id'
        : undefined;
  if (field === undefined) return;
  throw new Refused(
    refusal('APPROVAL_REUSED', "The approval or the decision is another gate's.", { metadata: { field } }),
  );
}

/** Needs the read `receiptsOf` of the gates. @throws {Refused} RECEIPT_LIMIT_REACHED */
export function requireRoomForGate(draft: Draft, actionId: string): void {
  if (draft.find('receiptsOf', actionId, 'gate').length < MAX_GATES) return;
  throw new Refused(refusal('RECEIPT_LIMIT_REACHED', 'The action has as many gates as it may have.'));
}

import { sameDigest, sha256 } from '../../encoding.js';
import { refusal } from '../../refusal.js';
import { Refused } from '../../run-decision.js';
import type { Draft } from '../../working-set.js';
import { conditionDigest } from '../action-digest.js';
import type { BeginDispatch, DispatchChecks } from '../commands.js';
import { BOUNDED_GRANT } from '../gate-shapes.js';
import type { JsonObject } from '../i-json.js';
import { GATE_KIND } from '../receipts.js';
import type { ActionReceiptRow, ActionRow, BoundedGrantRow } from '../records.js';
import { GATE_PASSED } from '../states.js';
import { requireApprover } from './approver.js';
import { requireIndependent, type Somebody } from './approver-independence.js';
import { grantNotUsable, requireBoundedGrant } from './bounded-grant.js';
import { evidenceMembers, gateInvalid, requireApproval, requireShape } from './gate-evidence.js';

/** A gate that allows the dispatch, and the bounded grant of which that consumes a use. */
export interface PassedGate {
  readonly gate: ActionReceiptRow;
  readonly grant: BoundedGrantRow | undefined;
}

/**
 * The gate, judged again at the moment of use, against rows of this transaction (actions.md, I4 and BeginDispatch): exactly
 * one, the one that the caller names; its evidence; its shape; whoever answers for it; and the domain's condition.
 *
 * Needs the reads `gateContext` of the action and `allGateShapes`.
 *
 * @param leaseholder whom the approver must be independent of, besides the proposer
 * @throws {Refused} GATE_INVALID, APPROVAL_EXPIRED, OWNER_NOT_CURRENT, OWNER_SCOPE_MISSING, APPROVER_NOT_INDEPENDENT,
 *   BOUNDED_GRANT_NOT_USABLE, CONDITION_DENIED, CHECK_STALE
 */
export function requireGate(
  draft: Draft,
  action: ActionRow,
  command: BeginDispatch,
  leaseholder: Somebody,
): PassedGate {
  const gate = onlyGate(draft, action, command);
  const members = evidenceMembers(gate.evidence);
  if (!members) throw gateInvalid('form');
  const { approvalId, decisionId } = command;
  requireApproval(draft, action, members, { approvalId, decisionId, decision: 'approved' });
  const shape = requireShape(draft, members);
  const grant =
    shape === BOUNDED_GRANT
      ? requireGrantOf(draft, action, gate, members)
      : requireSigned(draft, action, gate, command.checks);
  requireIndependence(action, gate, leaseholder);
  requireCondition(draft, action, gate, command.checks);
  return { gate, grant };
}

function onlyGate(draft: Draft, action: ActionRow, command: BeginDispatch): ActionReceiptRow {
  const gates = draft.find('receiptsOf', action.actionId, 'gate');
  const [gate] = gates;
  if (!gate || gates.length > 1) throw gateInvalid('count');
  if (gate.receiptKey !== command.gateReceiptKey) throw gateInvalid('key');
  if (gate.kind !== GATE_KIND) throw gateInvalid('kind');
  if (gate.status !== GATE_PASSED) throw gateInvalid('status');
  if (gate.externalId !== command.approvalId) throw gateInvalid('approval_id');
  if (gate.decisionId !== command.decisionId) throw gateInvalid('decision_id');
  if (!sameDigest(sha256(gate.evidence), gate.evidenceDigest)) throw gateInvalid('digest');
  return gate;
}

/** Under a bounded grant, the grant's own signature stands for the owner's (actions.md, Owner's signature). */
function requireGrantOf(
  draft: Draft,
  action: ActionRow,
  gate: ActionReceiptRow,
  members: JsonObject,
): BoundedGrantRow {
  const grantId = gate.boundedGrantId;
  if (grantId === null || members.get('grant_id') !== grantId) throw gateInvalid('grant_id');
  const grant = draft.get('bounded_grants', grantId);
  if (!grant) throw grantNotUsable('missing');
  if (grant.ownerSpiffeId !== gate.approverSpiffeId) throw gateInvalid('signature');
  requireApprover(draft.get('owners', grant.ownerSpiffeId), grant.signingKeyThumbprint, action);
  requireBoundedGrant(draft, action, grant, members);
  return grant;
}

/** The owner's signature, verified once more before the transaction over what is stored. */
function requireSigned(
  draft: Draft,
  action: ActionRow,
  gate: ActionReceiptRow,
  { signature }: DispatchChecks,
): undefined {
  if (gate.signature === null || gate.signingKeyThumbprint === null || gate.approverSpiffeId === null) {
    throw gateInvalid('signature');
  }
  requireApprover(draft.get('owners', gate.approverSpiffeId), gate.signingKeyThumbprint, action);
  const checked =
    signature !== null &&
    sameDigest(signature.signatureDigest, sha256(gate.signature)) &&
    sameDigest(signature.evidenceDigest, gate.evidenceDigest);
  if (!checked) throw checkStale('signature');
  if (!signature.verified || signature.keyThumbprint !== gate.signingKeyThumbprint) {
    throw gateInvalid('signature');
  }
}

function requireIndependence(action: ActionRow, gate: ActionReceiptRow, leaseholder: Somebody): void {
  if (gate.approverSpiffeId === null) throw gateInvalid('signature');
  const approver: Somebody = { spiffeId: gate.approverSpiffeId, keys: gate.approverKeys };
  const proposer: Somebody = { spiffeId: action.proposerSpiffeId, keys: action.proposerKeys };
  requireIndependent(approver, proposer, 'proposer');
  requireIndependent(approver, leaseholder, 'leaseholder');
}

/** The domain's condition for the type; its verdict came in, on bytes whose digests are compared here. */
function requireCondition(
  draft: Draft,
  action: ActionRow,
  gate: ActionReceiptRow,
  { condition }: DispatchChecks,
): void {
  const row = draft.get('action_conditions', action.type);
  if (row?.status !== 'active') return;
  const evaluated =
    condition !== null &&
    sameDigest(condition.conditionDigest, conditionDigest(row.expression)) &&
    sameDigest(condition.payloadDigest, action.payloadDigest) &&
    sameDigest(condition.evidenceDigest, gate.evidenceDigest);
  if (!evaluated) throw checkStale('condition');
  if (condition.verdict === 'true') return;
  throw new Refused(
    refusal('CONDITION_DENIED', "The domain's condition for the type does not hold.", {
      metadata: { rule: condition.verdict },
    }),
  );
}

function checkStale(rule: 'signature' | 'condition'): Refused {
  const message = 'What was checked before the transaction has changed meanwhile; repeat the call.';
  return new Refused(refusal('CHECK_STALE', message, { metadata: { rule } }));
}

import { SignedMessageError } from '../../identity/signed-message-error.js';
import { verifyEvidenceSignature } from '../../identity/verify-signed-message.js';
import { conditionDigest } from '../../ledger/action/action-digest.js';
import type { BeginDispatch, DispatchChecks } from '../../ledger/action/commands.js';
import type { ActionReceiptRow, ActionRow } from '../../ledger/action/records.js';
import { sha256 } from '../../ledger/encoding.js';
import type { Reader } from '../../store/reader.js';
import { gather } from './action-viewer.js';
import { evaluateCondition } from './condition.js';
import { ownerKeys } from './owner-keys.js';

/**
 * The checks of a dispatch that cost a signature or an evaluation, made before the lane on what is stored now: the
 * transaction compares the digests of what they looked at with its own rows (actions.md, I4), and refuses with CHECK_STALE
 * where anything differs. Nothing is decided or told here; an action that is not there has no checks.
 */
export async function dispatchChecks(
  reader: Reader,
  command: Omit<BeginDispatch, 'checks'>,
): Promise<DispatchChecks> {
  const { domainId, actionId, gateReceiptKey } = command;
  const draft = await gather(reader, domainId, { actions: [actionId], gateContext: [actionId] });
  const action = draft.get('actions', actionId);
  const gate = draft.find('receiptsOf', actionId, 'gate').find((row) => row.receiptKey === gateReceiptKey);
  if (!action || !gate) return { signature: null, condition: null };
  const condition = draft.get('action_conditions', action.type);
  const expression = condition?.status === 'active' ? condition.expression : undefined;
  const [signature, verdict] = await Promise.all([
    gate.signature === null ? null : checkSignature(reader, domainId, gate, gate.signature),
    expression === undefined ? null : checkCondition(expression, action, gate),
  ]);
  return { signature, condition: verdict };
}

async function checkSignature(
  reader: Reader,
  domainId: string,
  gate: ActionReceiptRow,
  token: Buffer,
): Promise<DispatchChecks['signature']> {
  const seen = { signatureDigest: sha256(token), evidenceDigest: sha256(gate.evidence) };
  const keys = ownerKeys(reader, domainId);
  try {
    const { keyThumbprint } = await verifyEvidenceSignature(token.toString('latin1'), gate.evidence, keys);
    return { ...seen, keyThumbprint, verified: true };
  } catch (error) {
    if (!(error instanceof SignedMessageError)) throw error;
    return { ...seen, keyThumbprint: gate.signingKeyThumbprint ?? '', verified: false };
  }
}

async function checkCondition(
  expression: string,
  action: ActionRow,
  gate: ActionReceiptRow,
): Promise<DispatchChecks['condition']> {
  const { payload } = action;
  const { evidence } = gate;
  return {
    conditionDigest: conditionDigest(expression),
    payloadDigest: sha256(payload),
    evidenceDigest: sha256(evidence),
    verdict: await evaluateCondition(expression, { action, payload, evidence }),
  };
}

import type { GetDispatchViewResponse } from '../../gen/surety/action/v1/action_service_pb.js';
import { type Receipt, ReceiptClass } from '../../gen/surety/action/v1/receipt_pb.js';
import { isJsonObject, parseIJson } from '../../ledger/action/i-json.js';

/** The approval that a dispatch names. */
export interface NamedGate {
  readonly gateReceiptKey: string;
  readonly approvalId: string;
  readonly decisionId: string;
}

/** Of the receipt by which an action's proposer says which effect it reserved for it. */
export const EFFECT_RECEIPT_KIND = 'effect_reservation';

/** The one gate of a view. @returns undefined where there are more, none, or one without a decision */
export function gateOfView({ receipts }: Pick<GetDispatchViewResponse, 'receipts'>): NamedGate | undefined {
  const gates = receipts.filter(({ receiptClass }) => receiptClass === ReceiptClass.GATE);
  const [gate] = gates;
  if (!gate || gates.length > 1) return undefined;
  const decisionId = decisionOf(gate);
  return decisionId === undefined
    ? undefined
    : { gateReceiptKey: gate.receiptKey, approvalId: gate.externalId, decisionId };
}

/**
 * The effect that an action carries: the external id of the receipt of kind {@link EFFECT_RECEIPT_KIND} that its proposer
 * recorded. Another party's says nothing, and of several the first counts; the service compares the effect with the dispatch.
 */
export function effectOfView({
  action,
  receipts,
}: Pick<GetDispatchViewResponse, 'action' | 'receipts'>): string | undefined {
  const own = receipts.filter(
    ({ receiptClass, kind, actorSpiffeId }) =>
      receiptClass === ReceiptClass.GENERAL &&
      kind === EFFECT_RECEIPT_KIND &&
      actorSpiffeId === action?.proposerSpiffeId,
  );
  own.sort((one, other) => Number(one.eventNumber - other.eventNumber));
  const effectId = own[0]?.externalId ?? '';
  return effectId === '' ? undefined : effectId;
}

function decisionOf({ evidence }: Receipt): string | undefined {
  const read = parseIJson(evidence);
  if (!('value' in read) || !isJsonObject(read.value)) return undefined;
  const decisionId = read.value.get('decision_id');
  return typeof decisionId === 'string' && decisionId !== '' ? decisionId : undefined;
}

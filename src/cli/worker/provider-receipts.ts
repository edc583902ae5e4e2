import type { Receipt } from '../../gen/surety/action/v1/receipt_pb.js';
import { isJsonObject, parseIJson } from '../../ledger/action/i-json.js';
import type { ReceiptWish } from '../client/worker-session.js';
import { digest } from '../client/workload-session.js';
import type { ProviderAnswer } from './provider.js';

/** Receipts that this worker records of the provider's answers. */
export type ProviderReceiptKind = 'provider_acceptance' | 'provider_reading';

/**
 * A receipt of an answer. Its key is made of all that it says: recorded again by a process that was started again it is the
 * same receipt, and another answer is another one.
 */
export function providerReceipt(
  kind: ProviderReceiptKind,
  executionDigest: Uint8Array,
  { id, answerDigest }: Exclude<ProviderAnswer, { is: 'doubt' }>,
): ReceiptWish & { readonly receiptKey: string } {
  const members = {
    execution_digest: hex(executionDigest),
    provider_id: id,
    answer_digest: hex(answerDigest),
  };
  const evidence = Uint8Array.from(Buffer.from(JSON.stringify(members)));
  return { receiptKey: `${kind}-${hex(digest(evidence))}`, kind, status: 'done', externalId: id, evidence };
}

/** SHA-256 of the result that an acceptance names: of the provider's answer, or of another worker's evidence. */
export function resultDigest({ evidence, evidenceDigest }: Receipt): Uint8Array<ArrayBuffer> {
  const read = parseIJson(evidence);
  const named = 'value' in read && isJsonObject(read.value) ? read.value.get('answer_digest') : undefined;
  const isDigest = typeof named === 'string' && /^[\da-f]{64}$/.test(named);
  return isDigest ? Uint8Array.from(Buffer.from(named, 'hex')) : Uint8Array.from(evidenceDigest);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

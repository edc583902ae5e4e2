import type { ActionReceiptRow, ActionRow } from '../../src/ledger/action/records.js';
import { isEnded, NEXT_STATE } from '../../src/ledger/action/states.js';
import type { ChangeLog } from '../../src/ledger/working-set.js';
import type { MemoryStore } from './memory-store.js';
import { must } from './store-rule.js';

/** The rules that the schema keeps of governed actions by itself, said once more and apart from it (0005_actions.sql). */
export function checkAction(
  store: MemoryStore,
  before: ActionRow | undefined,
  after: ActionRow,
  batch: ChangeLog,
): void {
  must(after.maxAttempts === 1 && after.attemptCount <= 1, 'there is one attempt');
  must((after.leaseToken === null) === (after.leaseHolder === null), 'a lease is whole');
  must((after.leaseToken === null) === (after.leaseExpiresAt === null), 'a lease is whole');
  must(!isEnded(after.state) || after.leaseToken === null, 'what has ended has no lease');
  must((after.state === 'FAILED') === (after.failureReason !== null), 'a failure has its reason');
  must(isEnded(after.state) === (after.endedAt !== null), 'an end has its time');
  must(after.observationCount <= (after.maxObservations ?? 0), 'observations are bounded');
  if (!before) {
    must(after.state === 'PROPOSED' && after.attemptCount === 0, 'an action begins as PROPOSED');
    must(store.find('actionOfKey', after.idempotencyKey).length === 0, 'a key is one action');
    return;
  }
  must(after.eventCount > before.eventCount && after.lastSeq > before.lastSeq, 'event by event');
  must(after.attemptCount >= before.attemptCount, 'an attempt is never taken back');
  must(before.attemptCount === 0 || after.effectId === before.effectId, 'a dispatch never changes');
  if (before.state !== after.state) {
    must(!isEnded(before.state), 'an end is final');
    const edge = after.state === 'FAILED' || NEXT_STATE[before.state] === after.state;
    must(edge, `no edge ${before.state}>${after.state}`);
  }
  const dispatched = after.attemptCount > before.attemptCount;
  must(!dispatched || has(batch, 'action_receipts', after.actionId), 'a dispatch has its contract');
  const failed = after.state === 'FAILED' && before.state !== 'FAILED';
  must(!failed || has(batch, 'dead_letters', after.actionId), 'a failure has its dead letter');
}

/** Unique: the contract of an action, the approval and the decision of a gate. */
export function checkReceipt(store: MemoryStore, receipt: ActionReceiptRow, batch: ChangeLog): void {
  const others = [...store.all('action_receipts'), ...receiptsOf(batch)].filter((row) => row !== receipt);
  const twice = (same: (row: ActionReceiptRow) => boolean): boolean => others.some(same);
  const { receiptClass: kind, actionId, status, externalId, decisionId } = receipt;
  must(
    kind !== 'recovery' || !twice((row) => row.receiptClass === kind && row.actionId === actionId),
    'an action has one contract',
  );
  if (kind !== 'gate') return;
  must(!twice((row) => row.decisionId === decisionId), 'a decision is one gate');
  const approval = status === 'passed';
  must(
    !approval ||
      !twice((row) => row.status === status && row.receiptClass === kind && row.externalId === externalId),
    'an approval is one gate',
  );
}

function has(batch: ChangeLog, table: 'action_receipts' | 'dead_letters', actionId: string): boolean {
  return batch.rows.some(
    (change) =>
      change.table === table &&
      change.before === undefined &&
      (change.after as { readonly actionId?: string } | undefined)?.actionId === actionId,
  );
}

function receiptsOf(batch: ChangeLog): ActionReceiptRow[] {
  return batch.rows.flatMap(({ table, after }) =>
    table === 'action_receipts' && after ? [after as ActionReceiptRow] : [],
  );
}

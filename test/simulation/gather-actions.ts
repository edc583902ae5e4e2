import type { ActionRow } from '../../src/ledger/action/records.js';
import { WORKED_STATES } from '../../src/ledger/action/states.js';
import {
  ANY_ACTION,
  type LeaseHolderKey,
  type LeaseRequestKey,
  type Reads,
  type ReadyKey,
  type ReceiptKey,
  type ReceiptsKey,
  type RequestEventKey,
} from '../../src/ledger/reads.js';
import type { WorkingSet } from '../../src/ledger/working-set.js';
import { MAX_EXPIRED_LEASES, READY_SLACK } from '../../src/store/gather-actions.js';
import { load, loadIndex } from './loading.js';
import type { Gathering, MemoryStore } from './memory-store.js';

/** What the reads of governed actions mean, against a store in memory. */

const MAX_RECEIPTS = 101;

type ActionReads =
  | 'actions'
  | 'actionKeys'
  | 'effectActions'
  | 'readyActions'
  | 'expiredLeases'
  | 'actionReceipts'
  | 'receiptsOf'
  | 'gateContext'
  | 'approvals'
  | 'gateDecisions'
  | 'requestEvents'
  | 'leaseHolders'
  | 'leaseRequests'
  | 'deadLetters'
  | 'boundedGrants';

const byTurn = (a: ActionRow, b: ActionRow): number =>
  compare(a.nextAttemptAt, b.nextAttemptAt) ||
  compare(a.createdAt, b.createdAt) ||
  compare(a.actionId, b.actionId);

function compare<T extends bigint | string>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function nowOf(store: MemoryStore): bigint {
  return store.now > store.head.lastTime ? store.now : store.head.lastTime;
}

function loadReceipts(store: MemoryStore, set: WorkingSet, actionId: string, receiptClass: string) {
  return loadIndex(store, set, 'receiptsOf', [actionId, receiptClass], (rows) =>
    rows.sort((a, b) => compare(a.receiptKey, b.receiptKey)).slice(0, MAX_RECEIPTS),
  );
}

function loadRecovery(store: MemoryStore, set: WorkingSet, action: ActionRow): void {
  if (action.state !== 'DISPATCHED') return;
  loadReceipts(store, set, action.actionId, 'recovery');
  loadReceipts(store, set, action.actionId, 'observation');
}

function inScope(action: ActionRow, key: ReadyKey): boolean {
  return (
    key.states.includes(action.state) &&
    (key.source === null || action.source === key.source) &&
    (key.sourcePrefix === null || action.source.startsWith(key.sourcePrefix)) &&
    (key.types.length === 0 || key.types.includes(action.type)) &&
    (key.actionIds.length === 0 || key.actionIds.includes(action.actionId))
  );
}

export const GATHER_ACTIONS: { readonly [Name in ActionReads & keyof Reads]: Gathering[Name] } = {
  actions: (store, set, id: string) => load(store, set, 'actions', id),
  actionKeys: (store, set, key: string) => loadIndex(store, set, 'actionOfKey', [key]),
  effectActions: (store, set, id: string) => loadIndex(store, set, 'actionOfEffect', [id]),
  readyActions: (store, set, key: ReadyKey) => {
    set.markIndex('unleasedActions', [ANY_ACTION]);
    const ready = store
      .all('actions')
      .filter((action) => action.leaseToken === null && WORKED_STATES.has(action.state))
      .filter((action) => action.nextAttemptAt <= nowOf(store) && inScope(action, key))
      .sort(byTurn)
      .slice(0, store.takers + READY_SLACK);
    for (const action of ready) {
      set.loadIndexed('unleasedActions', [ANY_ACTION], action);
      loadRecovery(store, set, action);
    }
  },
  expiredLeases: (store, set, key: string) => {
    const expired = loadIndex(store, set, 'leasedActions', [key], (rows) =>
      rows
        .filter(({ leaseExpiresAt }) => leaseExpiresAt !== null && leaseExpiresAt <= nowOf(store))
        .sort(
          (a, b) =>
            compare(a.leaseExpiresAt ?? 0n, b.leaseExpiresAt ?? 0n) || compare(a.actionId, b.actionId),
        )
        .slice(0, MAX_EXPIRED_LEASES),
    );
    for (const action of expired) loadRecovery(store, set, action);
  },
  actionReceipts: (store, set, key: ReceiptKey) =>
    load(store, set, 'action_receipts', key.actionId, key.receiptClass, key.receiptKey),
  receiptsOf: (store, set, key: ReceiptsKey) => loadReceipts(store, set, key.actionId, key.receiptClass),
  gateContext: (store, set, id: string) => {
    const action = load(store, set, 'actions', id);
    const gates = loadReceipts(store, set, id, 'gate');
    if (!action) return;
    load(store, set, 'tools', action.toolName);
    load(store, set, 'action_conditions', action.type);
    for (const gate of gates) {
      if (gate.approverSpiffeId !== null) load(store, set, 'owners', gate.approverSpiffeId);
      if (gate.boundedGrantId !== null) load(store, set, 'bounded_grants', gate.boundedGrantId);
    }
  },
  approvals: (store, set, id: string) => loadIndex(store, set, 'gateOfApproval', [id]),
  gateDecisions: (store, set, id: string) => loadIndex(store, set, 'gateOfDecision', [id]),
  requestEvents: (store, set, key: RequestEventKey) =>
    loadIndex(store, set, 'eventOfRequest', [key.actionId, key.requestDigest]),
  leaseHolders: (store, set, key: LeaseHolderKey) =>
    loadIndex(store, set, 'leasesOfHolder', [key.actionId, key.spiffeId], (rows) =>
      rows.sort((a, b) => compare(a.leaseToken, b.leaseToken)).slice(0, 1),
    ),
  leaseRequests: (store, set, key: LeaseRequestKey) => {
    for (const lease of loadIndex(store, set, 'leaseOfRequest', [key.spiffeId, key.requestId])) {
      load(store, set, 'actions', lease.actionId);
    }
  },
  deadLetters: (store, set, id: string) => load(store, set, 'dead_letters', id),
  boundedGrants: (store, set, id: string) => {
    const grant = load(store, set, 'bounded_grants', id);
    if (grant) load(store, set, 'owners', grant.ownerSpiffeId);
  },
};

import { ANY_ACTION } from '../ledger/reads.js';
import type { WorkingSet } from '../ledger/working-set.js';
import { type Planner, single, texts } from './gather-planner.js';
import type { Value } from './connection.js';
import { encodeArray, encodeValue } from './row-codec.js';

/**
 * Ready actions are read one for each command of the batch that takes one, and so many more: those that are skipped because
 * their payload contradicts its digest, or because nothing is left to observe them with.
 */
export const READY_SLACK = 20;
/** Expired leases of one batch. A batch is a moment; the sweep comes for the rest. */
export const MAX_EXPIRED_LEASES = 20;

const RECOVERY_CLASSES = ['recovery', 'observation'] as const;

/** Plans the reads of governed actions (actions.md). */
export function planActions(plan: Planner): void {
  plan.byKey('actions', single(plan.keys('actions')));
  plan.byKey('dead_letters', single(plan.keys('deadLetters')));
  plan.byKey(
    'action_receipts',
    plan.keys('actionReceipts').map((key) => [key.actionId, key.receiptClass, key.receiptKey]),
  );
  planLookups(plan);
  planLeases(plan);
  planReady(plan);
  planReceipts(plan);
  planGates(plan);
  planBoundedGrants(plan);
}

function planLookups(plan: Planner): void {
  for (const [name, statement, index] of [
    ['actionKeys', 'actions_of_keys', 'actionOfKey'],
    ['effectActions', 'actions_of_effects', 'actionOfEffect'],
    ['approvals', 'gates_of_approvals', 'gateOfApproval'],
    ['gateDecisions', 'gates_of_decisions', 'gateOfDecision'],
  ] as const) {
    const keys = plan.keys(name);
    if (keys.length === 0) continue;
    plan.indexed(statement, index, [texts(keys)]);
    plan.mark((set) => keys.forEach((key) => set.markIndex(index, [key])));
  }
  const requests = plan.keys('requestEvents');
  if (requests.length === 0) return;
  plan.indexed('events_of_requests', 'eventOfRequest', [
    texts(requests.map((key) => key.actionId)),
    encodeArray(
      'bytea',
      requests.map((key) => key.requestDigest),
    ),
  ]);
  plan.mark((set) =>
    requests.forEach((key) => set.markIndex('eventOfRequest', [key.actionId, key.requestDigest])),
  );
}

function planLeases(plan: Planner): void {
  const holders = plan.keys('leaseHolders');
  if (holders.length > 0) {
    const ids = texts(holders.map((key) => key.actionId));
    plan.indexed('leases_of_holders', 'leasesOfHolder', [ids, texts(holders.map((key) => key.spiffeId))]);
    plan.mark((set) =>
      holders.forEach((key) => set.markIndex('leasesOfHolder', [key.actionId, key.spiffeId])),
    );
  }
  const requests = plan.keys('leaseRequests');
  if (requests.length === 0) return;
  const values = [texts(requests.map((key) => key.spiffeId)), texts(requests.map((key) => key.requestId))];
  plan.indexed('leases_of_requests', 'leaseOfRequest', values);
  plan.joined('actions_of_lease_requests', 'actions', values);
  plan.mark((set) =>
    requests.forEach((key) => set.markIndex('leaseOfRequest', [key.spiffeId, key.requestId])),
  );
}

/** What is handed out, and what is taken back before (actions.md, LeaseNext). */
function planReady(plan: Planner): void {
  const scopes = plan.keys('readyActions');
  if (scopes.length > 0) {
    const lists = (pick: (scope: (typeof scopes)[number]) => readonly string[]): Value =>
      texts(scopes.map((scope) => encodeValue('text[]', pick(scope)) as string));
    const values = [
      texts(scopes.map((scope) => scope.source ?? scope.sourcePrefix ?? '')),
      encodeArray(
        'bool',
        scopes.map((scope) => scope.source !== null),
      ),
      lists((scope) => scope.types),
      lists((scope) => scope.actionIds),
      lists((scope) => scope.states),
      String(plan.count('readyActions') + READY_SLACK),
    ];
    plan.indexed('ready_actions', 'unleasedActions', values);
    if (scopes.some(({ states }) => states.includes('DISPATCHED'))) {
      plan.indexed('recovery_of_ready_actions', 'receiptsOf', values);
    }
    plan.mark((set) => {
      set.markIndex('unleasedActions', [ANY_ACTION]);
      for (const actionId of set.candidateKeys('unleasedActions', [ANY_ACTION])) markRecovery(set, actionId);
    });
  }
  if (plan.keys('expiredLeases').length === 0) return;
  const limit = [String(MAX_EXPIRED_LEASES)];
  plan.indexed('expired_leases', 'leasedActions', limit);
  plan.indexed('recovery_of_expired_leases', 'receiptsOf', limit);
  plan.mark((set) => {
    set.markIndex('leasedActions', [ANY_ACTION]);
    for (const actionId of set.candidateKeys('leasedActions', [ANY_ACTION])) markRecovery(set, actionId);
  });
}

/** Only what is DISPATCHED has a contract; the statements read no other's. */
function markRecovery(set: WorkingSet, actionId: string): void {
  if (set.getByText('actions', actionId)?.state !== 'DISPATCHED') return;
  for (const receiptClass of RECOVERY_CLASSES) set.markIndex('receiptsOf', [actionId, receiptClass]);
}

function planReceipts(plan: Planner): void {
  const keys = plan.keys('receiptsOf');
  if (keys.length === 0) return;
  const ids = texts(keys.map((key) => key.actionId));
  plan.indexed('receipts_of', 'receiptsOf', [ids, texts(keys.map((key) => key.receiptClass))]);
  plan.mark((set) => keys.forEach((key) => set.markIndex('receiptsOf', [key.actionId, key.receiptClass])));
}

/** What a gate rests on, found by way of the action and its gates. */
function planGates(plan: Planner): void {
  const ids = plan.keys('gateContext');
  if (ids.length === 0) return;
  const values = [texts(ids)];
  plan.byKey('actions', single(ids));
  plan.joined('tools_of_actions', 'tools', values);
  plan.joined('conditions_of_actions', 'action_conditions', values);
  plan.indexed('gates_of_actions', 'receiptsOf', values);
  plan.joined('owners_of_gates', 'owners', values);
  plan.joined('bounded_grants_of_gates', 'bounded_grants', values);
  plan.mark((set) => ids.forEach((id) => markGates(set, id)));
}

function markGates(set: WorkingSet, actionId: string): void {
  set.markIndex('receiptsOf', [actionId, 'gate']);
  const action = set.get('actions', actionId);
  if (!action) return;
  set.markKey('tools', [action.toolName]);
  set.markKey('action_conditions', [action.type]);
  for (const key of set.candidateKeys('receiptsOf', [actionId, 'gate'])) {
    const gate = set.getByText('action_receipts', key);
    if (gate?.approverSpiffeId != null) set.markKey('owners', [gate.approverSpiffeId]);
    if (gate?.boundedGrantId != null) set.markKey('bounded_grants', [gate.boundedGrantId]);
  }
}

function planBoundedGrants(plan: Planner): void {
  const ids = plan.keys('boundedGrants');
  plan.byKey('bounded_grants', single(ids));
  if (ids.length === 0) return;
  plan.joined('owners_of_bounded_grants', 'owners', [texts(ids)]);
  plan.mark((set) => {
    for (const id of ids) {
      const grant = set.get('bounded_grants', id);
      if (grant) set.markKey('owners', [grant.ownerSpiffeId]);
    }
  });
}

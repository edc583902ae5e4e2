import { GATE_PASSED, WORKED_STATES } from './action/states.js';
import { ANY_ACTION, EVERY_SHAPE } from './reads.js';
import { keyText, type TableName, type Tables } from './tables.js';
import { isTerminal } from './types.js';

/** A way to find rows other than by their key. `keyOf` says under which text a row stands, undefined: not in it. */
interface IndexOf<T extends TableName> {
  readonly table: T;
  readonly keyOf: (row: Tables[T]) => string | undefined;
}

function index<T extends TableName>(table: T, keyOf: IndexOf<T>['keyOf']): IndexOf<T> {
  return { table, keyOf };
}

/** The indexes that decisions use. Their contents are gathered per key, like rows. */
export const INDEXES = {
  credentialsOfSpiffeId: index('credentials', (row) => row.spiffeId),
  entitlementsOf: index('entitlements', (row) => keyText([row.principalId, row.action, row.resource])),
  denialsOf: index('decisions', (row) => (row.denialKey ? keyText([row.denialKey]) : undefined)),
  registrationsOfSpiffeId: index('registrations', (row) => row.spiffeId),
  versionsOfRegistration: index('registration_versions', (row) => row.registrationId),
  versionsWithKey: index('registration_versions', (row) => row.proofKeyThumbprint),
  effectOfIdentity: index('effects', (row) => keyText([row.identityDigest])),
  unsettledOf: index('effects', (row) =>
    isTerminal(row.state) ? undefined : keyText([row.eventId, row.grantId]),
  ),
  keyHolder: index('effects', (row) => (row.holdsKey ? keyText([row.sink, row.keyDigest]) : undefined)),
  /** Those that succeeded and let their key go; one that holds it is the holder. */
  keySucceeded: index('effects', (row) =>
    row.state === 'SUCCEEDED' && !row.holdsKey ? keyText([row.sink, row.keyDigest]) : undefined,
  ),
  tombstoneOfIdentity: index('effect_tombstones', (row) => keyText([row.identityDigest])),
  /** The archived effect that stands for a key: its holder, or else one that succeeded under it. */
  keyArchived: index('effect_tombstones', (row) =>
    row.state === 'SUCCEEDED' ? keyText([row.sink, row.keyDigest]) : undefined,
  ),
  unknownOf: index('effects', (row) => (row.state === 'UNKNOWN' ? row.sink : undefined)),
  transitionsOfEffect: index('transitions', (row) => row.effectId),
  parentsOfRecord: index('provenance_parents', (row) => keyText([row.provenanceDigest])),
  stepsOfRecord: index('provenance_steps', (row) => keyText([row.provenanceDigest])),
  shapesOfDomain: index('gate_shapes', () => EVERY_SHAPE),
  actionOfKey: index('actions', (row) => row.idempotencyKey),
  actionOfEffect: index('actions', (row) => row.effectId ?? undefined),
  unleasedActions: index('actions', (row) =>
    row.leaseToken === null && WORKED_STATES.has(row.state) ? ANY_ACTION : undefined,
  ),
  leasedActions: index('actions', (row) => (row.leaseToken === null ? undefined : ANY_ACTION)),
  receiptsOf: index('action_receipts', (row) => keyText([row.actionId, row.receiptClass])),
  gateOfApproval: index('action_receipts', (row) =>
    row.receiptClass === 'gate' && row.status === GATE_PASSED ? row.externalId : undefined,
  ),
  gateOfDecision: index('action_receipts', (row) => row.decisionId ?? undefined),
  eventOfRequest: index('action_events', (row) =>
    row.requestDigest ? keyText([row.actionId, row.requestDigest]) : undefined,
  ),
  leasesOfHolder: index('action_leases', (row) => keyText([row.actionId, row.holderSpiffeId])),
  leaseOfRequest: index('action_leases', (row) => keyText([row.holderSpiffeId, row.requestId])),
  clearancesOfRecord: index('clearance_receipts', (row) => keyText([row.provenanceDigest])),
} as const;

export type IndexName = keyof typeof INDEXES;

/** The table that an index finds rows in. */
export type IndexTable<I extends IndexName> = (typeof INDEXES)[I]['table'];

/** The names of the indexes that find rows in a table. */
export const INDEXES_OF: ReadonlyMap<TableName, readonly IndexName[]> = byTable();

function byTable(): Map<TableName, IndexName[]> {
  const names = new Map<TableName, IndexName[]>();
  for (const name of Object.keys(INDEXES) as IndexName[]) {
    const { table } = INDEXES[name];
    const before = names.get(table);
    if (before) before.push(name);
    else names.set(table, [name]);
  }
  return names;
}

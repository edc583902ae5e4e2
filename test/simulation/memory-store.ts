import { auditCodec } from '../../src/lane/audit-codec.js';
import { harnessActor } from '../../src/ledger/admission/admit-call.js';
import { DEFAULT_LIMITS, DEFAULT_SERVICE_REQUESTS_PER_MINUTE } from '../../src/ledger/admission/limits.js';
import { NO_COUNTS } from '../../src/ledger/admission/records.js';
import { genesisHash } from '../../src/ledger/audit/chain.js';
import type { DomainHead } from '../../src/ledger/audit/records.js';
import type { DomainRow } from '../../src/ledger/authority/records.js';
import { type EffectPlace, isBoundTo } from '../../src/ledger/effect/rules/visible.js';
import type { RegistrationRow } from '../../src/ledger/identity/records.js';
import { INDEXES, type IndexName, type IndexTable } from '../../src/ledger/indexes.js';
import type { Reads } from '../../src/ledger/reads.js';
import { type KeyPart, keyText, rowKey, type TableName, type Tables } from '../../src/ledger/tables.js';
import { MINUTE } from '../../src/ledger/types.js';
import { type ChangeLog, WorkingSet } from '../../src/ledger/working-set.js';
import { checkCounters } from './counter-rules.js';
import { GATHER_ACTIONS } from './gather-actions.js';
import { load, loadIndex } from './loading.js';
import { checkChange } from './store-rules.js';

type AnyRow = Tables[TableName];

/** What each read means, against a store in memory: the reference that the statements in SQL are held against. */
export type Gathering = {
  readonly [Name in keyof Required<Reads>]: (store: MemoryStore, set: WorkingSet, key: never) => void;
};

/** The facts of the simulated store. */
export const FACTS = {
  incarnation: 1n,
  audience: 'spiffe://surety.test/surety',
  serviceDomainId: 'surety.test',
} as const;

const LAST_CREDENTIALS = 32;
const MAX_SHAPES = 65;
const MAX_DENIALS = 32;

/**
 * One domain in memory with what the database promises: rows by key, its indexes, whole batches or nothing, and the
 * rules that it refuses by itself (store-rules.ts).
 */
export class MemoryStore {
  now = 1_767_225_600_000_000n;
  head: DomainHead;
  domain: DomainRow = {
    status: 'active',
    policyRevision: 1n,
    revocationEpoch: 1n,
    frozen: false,
    freezeReason: null,
    allowStanding: true,
    limits: DEFAULT_LIMITS,
    revision: 1n,
    createdAt: 0n,
  };
  /** Raised as a restore does. */
  incarnation: bigint = FACTS.incarnation;
  /** How many effects the batch that is gathered could settle. */
  settling = 0;
  /** How many commands of the batch that is gathered take a ready action. */
  takers = 0;
  private readonly tables = new Map<TableName, Map<string, AnyRow>>();
  private readonly indexed = new Map<IndexName, Map<string, Set<string>>>();

  constructor(readonly domainId: string) {
    this.head = {
      seq: 0n,
      chainHash: genesisHash(domainId),
      incarnation: 0n,
      fenceCounter: 0n,
      lastTime: 0n,
      counters: NO_COUNTS,
    };
  }

  all<T extends TableName>(table: T): Tables[T][] {
    return [...(this.tables.get(table)?.values() ?? [])] as Tables[T][];
  }

  get<T extends TableName>(table: T, ...parts: readonly KeyPart[]): Tables[T] | undefined {
    return this.tables.get(table)?.get(keyText(parts)) as Tables[T] | undefined;
  }

  find<I extends IndexName>(name: I, ...parts: readonly KeyPart[]): Tables[IndexTable<I>][] {
    const { table } = INDEXES[name];
    const keys = this.indexed.get(name)?.get(keyText(parts)) ?? [];
    return [...keys].map((key) => this.tables.get(table)?.get(key)) as Tables[IndexTable<I>][];
  }

  /** Puts a row there as an administrator's command would; no rule is asked. */
  put<T extends TableName>(table: T, row: Tables[T]): void {
    this.set(table, rowKey(table, row), row);
  }

  /** A working set with what a batch names, as `gatherBatch` makes one. */
  gather(all: readonly Reads[]): WorkingSet {
    this.settling = new Set(all.flatMap((reads) => reads.effectContext ?? [])).size;
    const set = new WorkingSet({
      domainId: this.domainId,
      facts: { ...FACTS, incarnation: this.incarnation },
      codec: auditCodec,
      now: this.now > this.head.lastTime ? this.now : this.head.lastTime,
      head: this.head,
      domain: this.domain,
    });
    this.takers = all.reduce((sum, reads) => sum + (reads.readyActions?.length ?? 0), 0);
    for (const reads of all) {
      for (const [name, keys] of Object.entries(reads)) {
        for (const key of keys) GATHER[name as keyof Reads](this, set, key as never);
      }
    }
    return set;
  }

  /** Takes a batch over, whole. Throws, and takes over nothing, where the database would refuse it. */
  commit(changes: ChangeLog): void {
    for (const change of changes.rows) checkChange(this, change, changes);
    checkCounters(this, changes);
    for (const { table, before, after } of changes.rows) {
      this.set(table, rowKey(table, (after ?? before) as AnyRow), after);
    }
    this.head = changes.head ?? this.head;
    this.domain = changes.domain ?? this.domain;
  }

  private set(table: TableName, key: string, row: AnyRow | undefined): void {
    let rows = this.tables.get(table);
    if (!rows) this.tables.set(table, (rows = new Map()));
    const before = rows.get(key);
    if (row) rows.set(key, row);
    else rows.delete(key);
    for (const [name, definition] of Object.entries(INDEXES)) {
      if (definition.table !== table) continue;
      const keyOf = definition.keyOf as (row: AnyRow) => string | undefined;
      const [old, next] = [before && keyOf(before), row && keyOf(row)];
      if (old === next) continue;
      const index = this.indexOf(name as IndexName);
      if (old !== undefined) index.get(old)?.delete(key);
      if (next === undefined) continue;
      const keys = index.get(next);
      if (keys) keys.add(key);
      else index.set(next, new Set([key]));
    }
  }

  private indexOf(name: IndexName): Map<string, Set<string>> {
    let index = this.indexed.get(name);
    if (!index) this.indexed.set(name, (index = new Map()));
    return index;
  }
}

function loadHarness(store: MemoryStore, set: WorkingSet, harnessId: string): void {
  const harness = load(store, set, 'harnesses', harnessId);
  if (!harness) return;
  load(store, set, harness.ownerKind === 'principal' ? 'principals' : 'guests', harness.ownerId);
}

function loadSink(store: MemoryStore, set: WorkingSet, sink: string): void {
  load(store, set, 'sinks', sink);
  load(store, set, 'sink_counters', sink);
}

function loadEntitlements(
  store: MemoryStore,
  set: WorkingSet,
  id: string,
  action: string,
  resource: string,
): void {
  loadIndex(store, set, 'entitlementsOf', [id, action, resource]);
  loadIndex(store, set, 'entitlementsOf', [id, action, '*']);
}

function loadEvent(store: MemoryStore, set: WorkingSet, eventId: string): void {
  const event = load(store, set, 'events', eventId);
  if (event) load(store, set, 'provenance_records', event.objectType, eventId, 1n);
}

function loadRecord(store: MemoryStore, set: WorkingSet, type: string, id: string, version: bigint) {
  const record = load(store, set, 'provenance_records', type, id, version);
  if (!record) return undefined;
  loadIndex(store, set, 'stepsOfRecord', [record.provenanceDigest]);
  loadIndex(store, set, 'parentsOfRecord', [record.provenanceDigest]);
  return record;
}

function loadEffect(store: MemoryStore, set: WorkingSet, effectId: string) {
  const effect = load(store, set, 'effects', effectId);
  if (effect) load(store, set, 'audit_entries', effect.lastSeq);
  const archived = load(store, set, 'effect_tombstones', effectId);
  if (archived) load(store, set, 'audit_entries', archived.lastSeq);
  return effect;
}

const first = <Row>(rows: Row[]): Row[] => rows.slice(0, 1);
/** The archived holder of a key, or else any that succeeded under it. */
const holderFirst = (rows: Tables['effect_tombstones'][]): Tables['effect_tombstones'][] =>
  first(rows.sort((a, b) => Number(b.holdsKey) - Number(a.holdsKey)));
const descending = (a: bigint, b: bigint): number => (a < b ? 1 : a > b ? -1 : 0);

const timeOf = ({ now, head }: MemoryStore): bigint => (now > head.lastTime ? now : head.lastTime);
const longestFirst = (a: RegistrationRow, b: RegistrationRow): number =>
  descending(a.expiresAt, b.expiresAt) || (a.registrationId < b.registrationId ? 1 : -1);
/** As far as the rows of the store alone say that a registration is in force. */
const isLasting = (store: MemoryStore, row: RegistrationRow): boolean =>
  row.status === 'active' &&
  row.revocationEpoch === store.domain.revocationEpoch &&
  row.expiresAt > timeOf(store);
const isForEffect = (row: RegistrationRow, effect: EffectPlace): boolean =>
  isBoundTo(row, effect) ||
  row.registrationId === effect.executorRegistrationId ||
  row.registrationId === effect.reconcilerRegistrationId;

/** One entry per kind of read: the compiler sees to it. */
export const GATHER: Gathering = {
  callerHarness: (store, set, spiffeId: string) => {
    const caller = load(store, set, 'callers', spiffeId);
    if (caller?.kind === 'harness') {
      loadHarness(store, set, caller.refId);
      load(store, set, 'actor_counters', harnessActor(caller.refId));
    }
    loadIndex(store, set, 'credentialsOfSpiffeId', [spiffeId], (rows) =>
      rows
        .sort((a, b) => descending(a.expiresAt, b.expiresAt) || (a.credentialId < b.credentialId ? 1 : -1))
        .filter(
          (row, i) => i < LAST_CREDENTIALS || (row.status === 'active' && row.expiresAt > timeOf(store)),
        ),
    );
  },
  callers: (store, set, id: string) => load(store, set, 'callers', id),
  harnesses: (store, set, id: string) => loadHarness(store, set, id),
  principals: (store, set, id: string) => load(store, set, 'principals', id),
  guests: (store, set, id: string) => load(store, set, 'guests', id),
  credentials: (store, set, id: string) => load(store, set, 'credentials', id),
  sinks: (store, set, id: string) => loadSink(store, set, id),
  grants: (store, set, id: string) => load(store, set, 'grants', id),
  entitlementsById: (store, set, id: string) => load(store, set, 'entitlements', id),
  entitlements: (store, set, key: { principalId: string; action: string; resource: string }) =>
    loadEntitlements(store, set, key.principalId, key.action, key.resource),
  entitlementsOfCaller: (store, set, key: { spiffeId: string; action: string; resource: string }) => {
    // The SQL joins caller and harness without loading them; the actor's own read does.
    const caller = store.get('callers', key.spiffeId);
    const harness = caller?.kind === 'harness' ? store.get('harnesses', caller.refId) : undefined;
    if (harness?.ownerKind === 'principal') {
      loadEntitlements(store, set, harness.ownerId, key.action, key.resource);
    } else if (harness) {
      // A guest has none of its own: asked for and not there.
      set.markIndex('entitlementsOf', [harness.ownerId, key.action, key.resource]);
      set.markIndex('entitlementsOf', [harness.ownerId, key.action, '*']);
    }
  },
  events: (store, set, id: string) => loadEvent(store, set, id),
  decisions: (store, set, id: string) => {
    load(store, set, 'decision_uses', id);
    const decision = load(store, set, 'decisions', id);
    if (decision?.entitlementId != null) load(store, set, 'entitlements', decision.entitlementId);
    if (decision?.grantId != null) load(store, set, 'grants', decision.grantId);
  },
  denials: (store, set, key: Buffer) =>
    loadIndex(store, set, 'denialsOf', [key], (rows) =>
      rows
        .sort((a, b) => descending(a.decidedAt, b.decidedAt))
        .filter((row, _, [newest]) => row.decidedAt >= (newest?.decidedAt ?? 0n) - 5n * MINUTE)
        .slice(0, MAX_DENIALS),
    ),
  registrations: (store, set, id: string) => load(store, set, 'registrations', id),
  registrationsOfSpiffeId: (store, set, id: string) =>
    loadIndex(store, set, 'registrationsOfSpiffeId', [id], (rows) => {
      const lasting = rows.sort(longestFirst);
      return [...lasting.filter((row) => isLasting(store, row)), ...first(lasting)];
    }),
  registrationsForEffect: (store, set, { spiffeId, effectId }: { spiffeId: string; effectId: string }) =>
    loadIndex(store, set, 'registrationsOfSpiffeId', [spiffeId], (rows) => {
      const lasting = rows.sort(longestFirst);
      const kinds = new Set<string>();
      const effect = store.get('effects', effectId) ?? store.get('effect_tombstones', effectId);
      return lasting.filter((row, i) => {
        if (!isLasting(store, row)) return i === 0;
        const kind = keyText([
          row.role,
          row.certificateDigest?.toString('hex') ?? '',
          String(row.parentEventId === null),
        ]);
        const isFirst = !kinds.has(kind);
        kinds.add(kind);
        return isFirst || (effect !== undefined && isForEffect(row, effect));
      });
    }),
  registrationVersions: (store, set, id: string) => loadIndex(store, set, 'versionsOfRegistration', [id]),
  keyHolders: (store, set, id: string) => loadIndex(store, set, 'versionsWithKey', [id]),
  proofKeys: (store, set, id: string) => load(store, set, 'proof_keys', id),
  effects: (store, set, id: string) => loadEffect(store, set, id),
  effectContext: (store, set, id: string) => {
    load(store, set, 'pending_work', id);
    const effect = loadEffect(store, set, id);
    if (!effect) {
      // The record of the output outlives the effect, and is found by its name.
      if (store.get('provenance_records', 'tool_output', `effect-output:${id}`, 1n)) {
        loadRecord(store, set, 'tool_output', `effect-output:${id}`, 1n);
      }
      return;
    }
    loadEvent(store, set, effect.eventId);
    load(store, set, 'grants', effect.grantId);
    loadSink(store, set, effect.sink);
    load(store, set, 'actor_counters', harnessActor(effect.harnessId));
    load(store, set, 'harnesses', effect.harnessId);
    load(store, set, effect.actorKind === 'principal' ? 'principals' : 'guests', effect.actorId);
    loadRecord(store, set, 'tool_output', `effect-output:${id}`, 1n);
  },
  effectExecutors: (store, set, id: string) => {
    const effect = store.get('effects', id);
    if (effect?.executorRegistrationId != null) {
      loadIndex(store, set, 'versionsOfRegistration', [effect.executorRegistrationId]);
    }
  },
  keysOfEffects: (store, set, id: string) => {
    const effect = store.get('effects', id);
    if (!effect) return;
    loadIndex(store, set, 'keyHolder', [effect.sink, effect.keyDigest]);
    loadIndex(store, set, 'keyArchived', [effect.sink, effect.keyDigest], holderFirst);
  },
  effectIdentities: (store, set, { identityDigest: digest }: { identityDigest: Buffer }) => {
    for (const effect of loadIndex(store, set, 'effectOfIdentity', [digest]))
      load(store, set, 'audit_entries', effect.lastSeq);
    for (const archived of loadIndex(store, set, 'tombstoneOfIdentity', [digest]))
      load(store, set, 'audit_entries', archived.lastSeq);
  },
  archives: (store, set, number: bigint) => load(store, set, 'archives', number),
  unsettled: (store, set, key: { eventId: string; grantId: string }) =>
    loadIndex(store, set, 'unsettledOf', [key.eventId, key.grantId], (rows) =>
      first(rows.sort((a, b) => (a.effectId < b.effectId ? -1 : 1))),
    ),
  effectKeys: (store, set, key: { sink: string; keyDigest: Buffer }) => {
    loadIndex(store, set, 'keySucceeded', [key.sink, key.keyDigest], first);
    loadIndex(store, set, 'keyArchived', [key.sink, key.keyDigest], holderFirst);
    for (const holder of loadIndex(store, set, 'keyHolder', [key.sink, key.keyDigest])) {
      load(store, set, 'audit_entries', holder.lastSeq);
    }
  },
  transitions: (store, set, key: { effectId: string; step: bigint }) =>
    load(store, set, 'transitions', key.effectId, key.step),
  transitionsOf: (store, set, id: string) => loadIndex(store, set, 'transitionsOfEffect', [id]),
  transitionNonces: (store, set, key: { registrationId: string; nonceDigest: Buffer }) =>
    load(store, set, 'transition_nonces', key.registrationId, key.nonceDigest),
  replayNonces: (store, set, key: Buffer) => load(store, set, 'replay_nonces', key),
  replayCallers: (store, set, id: string) => load(store, set, 'replay_callers', id),
  provenance: (store, set, key: { objectType: string; objectId: string; version: bigint }) => {
    const record = loadRecord(store, set, key.objectType, key.objectId, key.version);
    if (record) loadIndex(store, set, 'clearancesOfRecord', [record.provenanceDigest]);
  },
  clearanceReceipts: (store, set, key: { approverSpiffeId: string; receiptId: string }) =>
    load(store, set, 'clearance_receipts', key.approverSpiffeId, key.receiptId),
  operators: (store, set, id: string) => load(store, set, 'operators', id),
  owners: (store, set, id: string) => load(store, set, 'owners', id),
  platformOperators: (_store, set, id: string) => set.loadPlatformOperator(id, undefined),
  adminCommands: (store, set, id: string) => load(store, set, 'admin_commands', id),
  gateShapes: (store, set, id: string) => load(store, set, 'gate_shapes', id),
  allGateShapes: (store, set, key: string) =>
    loadIndex(store, set, 'shapesOfDomain', [key], (rows) =>
      rows.sort((a, b) => (a.gateShapeId < b.gateShapeId ? -1 : 1)).slice(0, MAX_SHAPES),
    ),
  actionConditions: (store, set, id: string) => load(store, set, 'action_conditions', id),
  tools: (store, set, id: string) => load(store, set, 'tools', id),
  oldestUnknown: (store, set, sink: string) =>
    loadIndex(store, set, 'unknownOf', [sink], (rows) =>
      rows.sort((a, b) => descending(b.unknownAt ?? 0n, a.unknownAt ?? 0n)).slice(0, store.settling + 1),
    ),
  actorCounters: (store, set, id: string) => load(store, set, 'actor_counters', id),
  shares: (_store, set) => set.loadShares({ service: DEFAULT_SERVICE_REQUESTS_PER_MINUTE, others: 0 }),
  ...GATHER_ACTIONS,
  otherDomains: (_store, set, id: string) => set.loadOtherDomain(id, false),
};

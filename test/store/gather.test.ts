import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { fieldsDigest } from '../../src/ledger/action/gate-shapes.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { ANY_ACTION, EVERY_SHAPE, type Reads } from '../../src/ledger/reads.js';
import type { TableName, Tables } from '../../src/ledger/tables.js';
import { DAY } from '../../src/ledger/types.js';
import { NotGatheredError, type WorkingSet } from '../../src/ledger/working-set.js';
import { gatherBatch } from '../../src/store/batch-transaction.js';
import { PipelineConnection } from '../../src/store/connection.js';
import { TYPES } from '../../src/store/row-codec.js';
import { columnName, TABLES } from '../../src/store/tables.js';
import {
  acknowledgeCall,
  done,
  reconcileCall,
  reserveCall,
  reserved,
  seedWorkers,
  started,
  submit,
  unknownCall,
} from '../fault/effect-life.js';
import { GATHER, MemoryStore } from '../simulation/memory-store.js';
import { manyActions, seedActions } from '../support/action-rows.js';
import { advanceClock, archiveDirectly, archiver } from '../support/archive-world.js';
import {
  DOMAIN,
  type EffectWorld,
  HARNESS,
  nowMicros,
  openWorld,
  type Replica,
  SERVICE_DOMAIN,
  seedGrant,
} from '../support/effect-world.js';

// architecture.md, Gather: the statements in SQL read exactly what the reference in memory reads, absences included.

let world: EffectWorld;
let replica: Replica;
let store: MemoryStore;
let connection: PipelineConnection;

beforeAll(async () => {
  world = await openWorld();
  replica = world.replica();
  await live();
  await seedOddities();
  await bury();
  store = await inMemory();
  connection = await PipelineConnection.open({
    url: world.database.serviceUrl,
    applicationName: 'surety-test',
  });
});
afterAll(async () => {
  await connection.end();
  await world.close();
});

/** Effects in every state, from every source, with denials on the way. */
async function live(): Promise<void> {
  const workers = await seedWorkers(world);
  await reserved(replica, workers);
  await started(replica, workers);
  for (const state of ['SUCCEEDED', 'FAILED', 'CANCELLED'] as const) {
    await done(submit(replica, acknowledgeCall(workers.executor, await started(replica, workers), state)));
  }
  const unknown = await done(submit(replica, unknownCall(workers.executor, await started(replica, workers))));
  await submit(replica, acknowledgeCall(workers.executor, { ...unknown, state: 'EXECUTING' }));
  await done(
    submit(
      replica,
      reconcileCall(
        workers.reconciler,
        await done(submit(replica, unknownCall(workers.executor, await started(replica, workers)))),
      ),
    ),
  );
  const exhausted = await seedGrant(world, { maxUses: 1n });
  for (let i = 0; i < 3; i += 1) await submit(replica, await reserveCall(replica, exhausted.grantId));
  await submit(replica, await reserveCall(replica, exhausted.grantId, { effectKey: 'a key' }));
}

/** Archived effects, one of whose keys is tried again. */
async function bury(): Promise<void> {
  const workers = await seedWorkers(world);
  const settled = [];
  for (const state of ['SUCCEEDED', 'FAILED', 'SUCCEEDED'] as const) {
    settled.push(
      await done(submit(replica, acknowledgeCall(workers.executor, await started(replica, workers), state))),
    );
  }
  await advanceClock(world, 2n * DAY);
  const { archived } = await archiveDirectly(
    world,
    archiver(world),
    settled.map(({ effectId }) => effectId),
  );
  expect(archived).toHaveLength(3);
}

/** Rows that the paths of the joins part at: guests, harnesses without owner, callers without harness. */
async function seedOddities(): Promise<void> {
  const year = nowMicros() + 31_536_000_000_000n;
  await world.seed('guests', [{ guestId: 'gustav', expiresAt: year, status: 'active', revision: 1n }]);
  await world.seed('principals', [{ principalId: 'gustav', status: 'suspended', revision: 3n }]);
  const harness = { assurance: 'attested', credentialEpoch: 2n, status: 'active', revision: 1n } as const;
  await world.seed('harnesses', [
    { ...harness, harnessId: 'for-a-guest', ownerKind: 'guest', ownerId: 'gustav' },
    { ...harness, harnessId: 'for-nobody', ownerKind: 'principal', ownerId: 'nobody' },
  ]);
  await world.seed('callers', [
    { spiffeId: 'spiffe://acme.test/guest', kind: 'harness', refId: 'for-a-guest' },
    { spiffeId: 'spiffe://acme.test/orphan', kind: 'harness', refId: 'for-nobody' },
    { spiffeId: 'spiffe://acme.test/dangling', kind: 'harness', refId: 'nothing' },
    { spiffeId: 'spiffe://acme.test/posing', kind: 'executor', refId: 'planner' },
  ]);
  await world.seed('entitlements', [
    entitlement('exact', 'gustav', 'refund', 'order-1184'),
    entitlement('all', 'gustav', 'refund', '*'),
    entitlement('one', 'paula', 'refund', 'order-1184'),
  ]);
  await world.seed(
    'credentials',
    Array.from({ length: 40 }, (_, i) => ({
      credentialId: `guest-${i}`,
      harnessId: 'for-a-guest',
      credentialEpoch: BigInt(1 + (i % 5)),
      spiffeId: 'spiffe://acme.test/guest',
      binding: 'spiffe_id' as const,
      certificateDigest: null,
      notBefore: 0n,
      // Each its own, so that the limit has one order.
      expiresAt: year + (BigInt(i * 7919) % 41n),
      status: i % 3 ? ('active' as const) : ('revoked' as const),
      revision: 1n,
    })),
  );
  await seedGateRecords();
  await seedActions(world, manyActions(await storeNow()));
  await world.seed('operators', [operator('spiffe://acme.test/operator')]);
  await world.seed('proof_keys', [{ thumbprint: 'thumb', publicJwk: '{}', firstSeenAt: 1n }]);
  await world.seed('replay_callers', [{ spiffeId: HARNESS.spiffeId, firstBucket: 1n, counts: [1, 0, 2] }]);
  await world.seed('replay_nonces', [
    { nonceKey: sha256('nonce'), consumptionId: 'one', consumedAt: 1n, expiresAt: year },
  ]);
  const effect = await reserved(replica, await seedWorkers(world));
  await world.seed('effects', [
    {
      ...effect,
      effectId: 'of a guest',
      identityDigest: sha256('identity of a guest'),
      keyDigest: sha256('key of a guest'),
      fence: effect.fence + 1_000_000n,
      actorKind: 'guest',
      actorId: 'gustav',
      harnessId: 'for-a-guest',
    },
  ]);
  await world.admin.query(
    `INSERT INTO operators SELECT $1, 'spiffe://surety.test/platform', signing_key_jwk, signing_key_thumbprint, roles, NULL, status, revision
      FROM operators`,
    [SERVICE_DOMAIN],
  );
}

/** What gates are judged by. */
async function seedGateRecords(): Promise<void> {
  const record = { status: 'active', revision: 1n } as const;
  const names = ['invoice', 'order'];
  await world.seed(
    'gate_shapes',
    names.map((name) => ({
      gateShapeId: name,
      fieldNames: [name, 'until'],
      fieldKinds: ['text', 'expiry'] as const,
      fieldValues: ['', ''],
      fieldsDigest: fieldsDigest([name, 'until']),
      ...record,
    })),
  );
  await world.seed('action_conditions', [{ actionType: 'mail.send', expression: 'true', ...record }]);
  await world.seed('tools', [{ toolName: 'shredder', nonGrantable: true, ...record }]);
}

function entitlement(id: string, principalId: string, action: string, resource: string) {
  return {
    entitlementId: id,
    principalId,
    action,
    resource,
    policyRevision: 1n,
    expiresAt: nowMicros(),
    revokedAt: null,
    revision: 1n,
  };
}

function operator(spiffeId: string) {
  return {
    spiffeId,
    signingKeyJwk: '{}',
    signingKeyThumbprint: 'thumb',
    roles: ['ADMIN'] as const,
    scopeDomainId: null,
    status: 'active' as const,
    revision: 1n,
  };
}

/** The store's clock, with the offset of a test. */
async function storeNow(): Promise<bigint> {
  const { rows } = await world.admin.query('SELECT surety_now()::text AS now');
  return BigInt((rows[0] as { now: string }).now);
}

/** The domain as it is in Postgres, copied. */
async function inMemory(): Promise<MemoryStore> {
  const client = new pg.Client({ connectionString: world.database.url, types: TYPES });
  await client.connect();
  const copy = new MemoryStore(DOMAIN);
  copy.now = await storeNow();
  for (const table of Object.keys(TABLES) as TableName[]) {
    const { rows } = await client.query(`SELECT * FROM ${table} WHERE domain_id = $1`, [DOMAIN]);
    for (const row of rows) copy.put(table, namedRow(table, row));
  }
  await client.end();
  return copy;
}

/** A row as the driver gave it, column by column, with the fields of its type. */
function namedRow<T extends TableName>(table: T, raw: Readonly<Record<string, unknown>>): Tables[T] {
  const fields = Object.keys(TABLES[table].columns);
  return Object.fromEntries(fields.map((field) => [field, raw[columnName(field)]])) as unknown as Tables[T];
}

/** What a working set knows: rows and absences by table, row keys by index. */
function contents(set: WorkingSet | undefined): unknown {
  const { cells, indexed } = set as unknown as {
    cells: Map<string, Map<string, { current: unknown }>>;
    indexed: Map<string, Map<string, Set<string>>>;
  };
  const sorted = <V, W>(map: Map<string, V>, value: (v: V) => W): [string, W][] =>
    [...map].map(([key, v]): [string, W] => [key, value(v)]).sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    rows: sorted(cells, (byKey) => sorted(byKey, ({ current }) => current)).filter(
      ([, rows]) => rows.length > 0,
    ),
    indexes: sorted(indexed, (byKey) => sorted(byKey, (keys) => [...keys].sort())).filter(
      ([, rows]) => rows.length > 0,
    ),
  };
}

/** Every key of each kind of read that there is, and some that there are not. */
function everyKey(): { readonly [Name in keyof Reads]: NonNullable<Reads[Name]> } {
  const ids = <T extends TableName>(table: T, field: string): string[] => [
    ...new Set(store.all(table).map((row) => (row as unknown as Record<string, string>)[field] as string)),
    'absent',
  ];
  const effects = store.all('effects');
  const spiffeIds = ids('callers', 'spiffeId');
  const actions = ['refund', 'effect.cancel', 'nothing'];
  const resources = ['order-1184', '*', 'order-2'];
  const scopes = <Key extends string>(name: Key, values: readonly string[]) =>
    values.flatMap((value) =>
      actions.flatMap((action) => resources.map((resource) => ({ [name]: value, action, resource }))),
    ) as (Record<Key, string> & { action: string; resource: string })[];
  const absentDigest = sha256('absent');
  return {
    callerHarness: spiffeIds,
    callers: spiffeIds,
    harnesses: ids('harnesses', 'harnessId'),
    principals: ids('principals', 'principalId'),
    guests: ids('guests', 'guestId'),
    credentials: ids('credentials', 'credentialId'),
    sinks: ids('sinks', 'sink'),
    oldestUnknown: ids('sinks', 'sink'),
    actorCounters: ids('actor_counters', 'actor'),
    grants: ids('grants', 'grantId'),
    entitlementsById: ids('entitlements', 'entitlementId'),
    entitlements: scopes('principalId', ids('principals', 'principalId')),
    entitlementsOfCaller: scopes('spiffeId', spiffeIds),
    events: ids('events', 'eventId'),
    decisions: ids('decisions', 'decisionId'),
    denials: [...store.all('decisions').flatMap(({ denialKey }) => denialKey ?? []), absentDigest],
    registrations: ids('registrations', 'registrationId'),
    registrationsOfSpiffeId: ids('registrations', 'spiffeId'),
    registrationsForEffect: ids('registrations', 'spiffeId').flatMap((spiffeId) =>
      [...ids('effects', 'effectId'), ...ids('effect_tombstones', 'effectId')].map((effectId) => ({
        spiffeId,
        effectId,
      })),
    ),
    registrationVersions: ids('registrations', 'registrationId'),
    keyHolders: ids('registrations', 'proofKeyThumbprint'),
    proofKeys: ids('proof_keys', 'thumbprint'),
    effects: [...ids('effects', 'effectId'), ...ids('effect_tombstones', 'effectId')],
    effectContext: [...ids('effects', 'effectId'), ...ids('effect_tombstones', 'effectId')],
    effectExecutors: ids('effects', 'effectId'),
    keysOfEffects: [...ids('effects', 'effectId'), ...ids('effect_tombstones', 'effectId')],
    effectIdentities: [
      ...effects.map(({ eventId, identityDigest }) => ({ eventId, identityDigest })),
      ...store.all('effect_tombstones').map(({ eventId, identityDigest }) => ({ eventId, identityDigest })),
      { eventId: 'no', identityDigest: absentDigest },
    ],
    archives: [0n, 1n, 2n],
    unsettled: [
      ...effects.map(({ eventId, grantId }) => ({ eventId, grantId })),
      { eventId: 'no', grantId: 'no' },
    ],
    effectKeys: [
      ...effects.map(({ sink, keyDigest }) => ({ sink, keyDigest })),
      ...store.all('effect_tombstones').map(({ sink, keyDigest }) => ({ sink, keyDigest })),
      { sink: 'bank', keyDigest: absentDigest },
    ],
    transitions: effects.flatMap(({ effectId, step }) => [
      { effectId, step },
      { effectId, step: 2n },
    ]),
    transitionsOf: ids('effects', 'effectId'),
    transitionNonces: [
      ...store
        .all('transition_nonces')
        .map(({ registrationId, nonceDigest }) => ({ registrationId, nonceDigest })),
      { registrationId: 'absent', nonceDigest: absentDigest },
    ],
    replayNonces: [...store.all('replay_nonces').map(({ nonceKey }) => nonceKey), absentDigest],
    replayCallers: spiffeIds,
    provenance: [
      ...store
        .all('provenance_records')
        .map(({ objectType, objectId, version }) => ({ objectType, objectId, version })),
      { objectType: 'event', objectId: 'absent', version: 1n },
    ],
    clearanceReceipts: [{ approverSpiffeId: 'spiffe://acme.test/owner/absent', receiptId: 'absent' }],
    operators: ids('operators', 'spiffeId'),
    owners: ids('owners', 'spiffeId'),
    adminCommands: ['absent'],
    gateShapes: ids('gate_shapes', 'gateShapeId'),
    allGateShapes: [EVERY_SHAPE],
    actionConditions: ids('action_conditions', 'actionType'),
    tools: ids('tools', 'toolName'),
    ...actionKeys(ids, absentDigest),
  };
}

function actionKeys(ids: (table: TableName, field: string) => string[], absentDigest: Buffer) {
  const receipts = store.all('action_receipts');
  const leases = store.all('action_leases');
  const nothing = { source: null, sourcePrefix: null, types: [], actionIds: [] };
  const scopes = [
    nothing,
    { ...nothing, source: 'inbox' },
    { ...nothing, source: 'inbo', types: ['mail.send'] },
    { ...nothing, sourcePrefix: 'inbox' },
    { ...nothing, sourcePrefix: 'in', types: ['mail.draft', 'nothing'] },
    { ...nothing, source: 'absent' },
    { ...nothing, actionIds: ids('actions', 'actionId').slice(0, 40) },
    { ...nothing, actionIds: ids('actions', 'actionId'), source: 'crm' },
    { ...nothing, actionIds: ['absent'] },
    nothing,
    nothing,
  ];
  const states = [['GATED', 'ACCEPTED', 'VERIFIED'], ['GATED'], ['DISPATCHED']];
  return {
    actions: ids('actions', 'actionId'),
    actionKeys: ids('actions', 'idempotencyKey'),
    effectActions: ['absent'],
    readyActions: scopes.map((scope, i) => ({ ...scope, states: states[i % states.length] ?? [] })),
    expiredLeases: [ANY_ACTION] as const,
    actionReceipts: [
      ...receipts.map(({ actionId, receiptClass, receiptKey }) => ({ actionId, receiptClass, receiptKey })),
      { actionId: 'absent', receiptClass: 'gate', receiptKey: 'absent' },
    ],
    receiptsOf: ids('actions', 'actionId').flatMap((actionId) =>
      ['gate', 'recovery', 'observation', 'general'].map((receiptClass) => ({ actionId, receiptClass })),
    ),
    gateContext: ids('actions', 'actionId'),
    approvals: ids('action_receipts', 'externalId'),
    gateDecisions: ['absent', ...receipts.flatMap(({ decisionId }) => decisionId ?? [])],
    requestEvents: [
      ...store
        .all('action_events')
        .flatMap(({ actionId, requestDigest }) => (requestDigest ? [{ actionId, requestDigest }] : [])),
      { actionId: 'absent', requestDigest: absentDigest },
    ],
    leaseHolders: leases.map(({ actionId, holderSpiffeId }) => ({ actionId, spiffeId: holderSpiffeId })),
    leaseRequests: [
      ...leases.map(({ holderSpiffeId, requestId }) => ({ spiffeId: holderSpiffeId, requestId })),
      { spiffeId: 'spiffe://acme.test/worker/absent', requestId: 'absent' },
    ],
    deadLetters: ids('actions', 'actionId'),
    boundedGrants: ids('bounded_grants', 'boundedGrantId'),
  };
}

describe('what is gathered', () => {
  const KINDS = [
    'callerHarness',
    'callers',
    'harnesses',
    'principals',
    'guests',
    'credentials',
    'sinks',
    'grants',
    'entitlementsById',
    'entitlements',
    'entitlementsOfCaller',
    'events',
    'decisions',
    'denials',
    'registrations',
    'registrationsOfSpiffeId',
    'registrationsForEffect',
    'registrationVersions',
    'keyHolders',
    'proofKeys',
    'effects',
    'effectContext',
    'effectExecutors',
    'keysOfEffects',
    'effectIdentities',
    'archives',
    'unsettled',
    'effectKeys',
    'oldestUnknown',
    'actorCounters',
    'transitions',
    'transitionsOf',
    'transitionNonces',
    'replayNonces',
    'replayCallers',
    'provenance',
    'clearanceReceipts',
    'operators',
    'owners',
    'adminCommands',
    'gateShapes',
    'allGateShapes',
    'actionConditions',
    'tools',
    'actions',
    'actionKeys',
    'effectActions',
    'readyActions',
    'expiredLeases',
    'actionReceipts',
    'receiptsOf',
    'gateContext',
    'approvals',
    'gateDecisions',
    'requestEvents',
    'leaseHolders',
    'leaseRequests',
    'deadLetters',
    'boundedGrants',
  ] as const satisfies readonly (keyof Reads)[];

  /**
   * As every decision does: what looks up an actor's entitlements is named with the actor's read, and what is about an
   * effect with its context.
   */
  function withTheirs(reads: Reads): Reads {
    const spiffeIds = reads.entitlementsOfCaller?.map(({ spiffeId }) => spiffeId) ?? [];
    const effectIds = [...(reads.effectExecutors ?? []), ...(reads.keysOfEffects ?? [])];
    return {
      ...reads,
      ...(spiffeIds.length > 0 ? { callerHarness: [...spiffeIds, ...(reads.callerHarness ?? [])] } : {}),
      ...(effectIds.length > 0 ? { effectContext: [...effectIds, ...(reads.effectContext ?? [])] } : {}),
    };
  }

  test.each(KINDS)('%s: each key alone, and all together', async (kind) => {
    const keys = everyKey()[kind] as readonly unknown[];
    expect(keys.length).toBeGreaterThan(0);
    const sample = keys.length > 30 ? keys.filter((_, i) => i % Math.ceil(keys.length / 30) === 0) : keys;
    for (const reads of [...sample.map((key) => [key]), keys].map((some) => withTheirs({ [kind]: some }))) {
      expect(contents(await replica.reader.gather(DOMAIN, reads))).toEqual(contents(store.gather([reads])));
    }
  });

  test('every kind of read is held against the reference', () => {
    const held: readonly string[] = [...KINDS, 'platformOperators', 'shares', 'otherDomains'];
    expect([...held].sort()).toEqual(Object.keys(GATHER).sort());
  });

  test('is the same in any company, by the lane and by the reader', async () => {
    const keys = everyKey();
    const some = fc.record(
      Object.fromEntries(
        KINDS.map((kind) => [
          kind,
          fc.array(fc.constantFrom(...(keys[kind] as readonly unknown[])), { maxLength: 3 }),
        ]),
      ),
      { requiredKeys: [] },
    ) as fc.Arbitrary<Reads>;
    await fc.assert(
      fc.asyncProperty(fc.array(some, { minLength: 1, maxLength: 4 }), async (batch) => {
        const all = batch.map(withTheirs);
        const gathered = await gatherBatch(connection, {
          domainId: DOMAIN,
          reads: all,
          codec: auditCodec,
          seen: undefined,
        });
        await connection.flight([{ text: 'ROLLBACK' }]);
        if (gathered.kind !== 'gathered') throw new Error(gathered.kind);
        expect(contents(gathered.set)).toEqual(contents(store.gather(all)));
      }),
      { numRuns: 60 },
    );
  });

  test('is of its domain alone', async () => {
    const keys = everyKey();
    const elsewhere = await replica.reader.gather(SERVICE_DOMAIN, withTheirs(keys));
    const { rows } = contents(elsewhere) as { rows: [string, [string, unknown][]][] };
    expect(rows.flatMap(([, byKey]) => byKey.filter(([, row]) => row !== undefined))).toEqual([]);
  });

  test('names what was not asked for', async () => {
    const set = await replica.reader.gather(DOMAIN, { grants: ['absent'] });
    expect(set?.get('grants', 'absent')).toBeUndefined();
    expect(() => set?.get('grants', 'another')).toThrow(NotGatheredError);
    expect(() => set?.candidateKeys('effectOfIdentity', [sha256('x')])).toThrow(NotGatheredError);
    expect(() => set?.platformOperator(HARNESS.spiffeId)).toThrow(NotGatheredError);
    expect(() => set?.domainExists('another.test')).toThrow(NotGatheredError);
  });

  test('of the platform: operators of the service domain, and which domains there are', async () => {
    const reads = {
      platformOperators: ['spiffe://surety.test/platform', 'spiffe://acme.test/operator'],
      otherDomains: [SERVICE_DOMAIN, 'another.test'],
    };
    const read = await replica.reader.gather(DOMAIN, reads);
    const gathered = await gatherBatch(connection, {
      domainId: DOMAIN,
      reads: [reads],
      codec: auditCodec,
      seen: undefined,
    });
    await connection.flight([{ text: 'ROLLBACK' }]);
    for (const set of [read, gathered.kind === 'gathered' ? gathered.set : undefined]) {
      expect(set?.platformOperator('spiffe://surety.test/platform')).toMatchObject({ roles: ['ADMIN'] });
      expect(set?.platformOperator('spiffe://acme.test/operator')).toBeUndefined();
      expect(set?.domainExists(SERVICE_DOMAIN)).toBe(true);
      expect(set?.domainExists('another.test')).toBe(false);
    }
  });

  test('of a domain that is not there: nothing', async () => {
    expect(await replica.reader.gather('another.test', {})).toBeUndefined();
  });
});

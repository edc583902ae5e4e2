import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  EventService,
  GetEventRequestSchema,
  PublishEventRequestSchema,
} from '../../src/gen/surety/event/v1/event_service_pb.js';
import {
  GetRecordRequestSchema,
  ListVersionsRequestSchema,
  ProvenanceService,
  RegisterOriginRequestSchema,
  VerifyReferenceRequestSchema,
} from '../../src/gen/surety/provenance/v1/provenance_service_pb.js';
import {
  DataClass,
  ObjectType,
  OriginKind,
  RecordReferenceSchema,
} from '../../src/gen/surety/provenance/v1/record_pb.js';
import {
  ConsumeNonceRequestSchema,
  ReplayService,
} from '../../src/gen/surety/replay/v1/replay_service_pb.js';
import { microsToTimestamp } from '../../src/identity/timestamp.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { eventService } from '../../src/rpc/event-service.js';
import { provenanceService } from '../../src/rpc/provenance-service.js';
import { replayService } from '../../src/rpc/replay-service.js';
import {
  callerOf,
  DOMAIN,
  type EffectWorld,
  EXECUTOR_A,
  freshId,
  HARNESS,
  nowMicros,
  openWorld,
  type Replica,
  seedRegistration,
} from '../support/effect-world.js';
import { contextOf, handlersOf, reasonOf, toolsOf } from '../support/handlers.js';

const AUDITOR = callerOf('spiffe://acme.test/auditor/ann');
const MINUTE = 60_000_000n;

let world: EffectWorld;
let replica: Replica;

beforeAll(async () => {
  world = await openWorld();
  replica = world.replica();
  await world.seed('operators', [
    {
      spiffeId: AUDITOR.spiffeId,
      signingKeyJwk: null,
      signingKeyThumbprint: null,
      roles: ['AUDITOR'],
      scopeDomainId: null,
      status: 'active',
      revision: 1n,
    },
  ]);
});

afterAll(() => world.close());

const digest = (text: string) => Uint8Array.from(sha256(text));
const harness = () => contextOf(HARNESS, 'harness');

/** Runs SQL with the triggers of append-only tables off, as a superuser could. */
async function tamper(table: string, sql: string, parameters: unknown[]): Promise<void> {
  await world.admin.query(`ALTER TABLE ${table} DISABLE TRIGGER USER`);
  await world.admin.query(sql, parameters);
  await world.admin.query(`ALTER TABLE ${table} ENABLE TRIGGER USER`);
}

describe('EventService', () => {
  const events = () => handlersOf(EventService, eventService(toolsOf(replica)));
  const request = (over: object = {}) =>
    create(PublishEventRequestSchema, {
      eventId: 'event-a',
      type: 'task.assigned',
      recipientHarnessIds: ['planner'],
      classification: DataClass.C1_INTERNAL,
      payloadDigest: digest('payload'),
      origin: {
        kind: OriginKind.HUMAN_INPUT,
        sourceId: 'ticket-7',
        sourceDigest: digest('ticket'),
        observedTime: microsToTimestamp(1_767_225_600_000_001n),
        principalId: 'paula',
        harnessId: 'planner',
      },
      allowedSinks: ['mail', 'bank'],
      ...over,
    });

  test('publishes, repeats and reads an event', async () => {
    const first = await events().publishEvent(request(), harness());
    expect(first).toMatchObject({
      duplicate: false,
      event: { eventId: 'event-a', domainId: DOMAIN, originHarnessId: 'planner', hops: 0 },
      reference: { domainId: DOMAIN, objectType: ObjectType.TASK, objectId: 'event-a', version: 1n },
    });
    // The order of a set means nothing.
    const again = await events().publishEvent(request({ allowedSinks: ['bank', 'mail'] }), harness());
    expect(again).toEqual({ ...first, duplicate: true });
    const read = await events().getEvent(create(GetEventRequestSchema, { eventId: 'event-a' }), harness());
    expect(read).toEqual({ event: first.event, reference: first.reference });
  });

  test('names the field in which a repeat differs', async () => {
    const other = events().publishEvent(request({ payloadDigest: digest('other') }), harness());
    await expect(other).rejects.toMatchObject({
      refusal: { reason: 'EVENT_IDENTITY_CONFLICT', metadata: { field: 'payload_digest' } },
    });
  });

  test('names every malformed field at once', async () => {
    const bad = request({
      eventId: 'effect-output:x',
      type: '',
      payloadDigest: new Uint8Array(31),
      classification: 0,
      recipientHarnessIds: ['a', 'a'],
      allowedSinks: ['*', 'bank'],
      origin: { kind: 9, sourceId: 'a\nb', sourceDigest: new Uint8Array(2), principalId: 'paula' },
    });
    const refused = await events()
      .publishEvent(bad, harness())
      .then(
        () => [],
        (error) => error.refusal.violations.map((violation: { field: string }) => violation.field),
      );
    expect(new Set(refused)).toEqual(
      new Set([
        'event_id',
        'type',
        'payload_digest',
        'classification',
        'recipient_harness_ids',
        'allowed_sinks',
        'origin.kind',
        'origin.source_id',
        'origin.source_digest',
        'origin.observed_time',
        'origin.harness_id',
      ]),
    );
  });

  test('an event that is not there, and one of strangers, look alike', async () => {
    const read = (eventId: string) =>
      reasonOf(events().getEvent(create(GetEventRequestSchema, { eventId }), harness()));
    expect(await read('nowhere')).toBe('EVENT_NOT_VISIBLE');
  });
});

describe('ProvenanceService', () => {
  const provenance = () => handlersOf(ProvenanceService, provenanceService(toolsOf(replica)));
  const origin = {
    kind: OriginKind.EXTERNAL_INPUT,
    sourceId: 'mailbox',
    sourceDigest: digest('mail'),
    observedTime: microsToTimestamp(1_767_225_600_000_001n),
  };
  const register = (objectId: string, over: object = {}) =>
    provenance().registerOrigin(
      create(RegisterOriginRequestSchema, {
        objectType: ObjectType.ARTIFACT,
        objectId,
        version: 1n,
        contentDigest: digest(objectId),
        classification: DataClass.C2_RESTRICTED,
        allowedSinks: ['bank'],
        origin,
        ...over,
      }),
      harness(),
    );
  const get = (objectId: string, version = 0n, context = harness()) =>
    provenance().getRecord(
      create(GetRecordRequestSchema, { objectType: ObjectType.ARTIFACT, objectId, version }),
      context,
    );

  test('registers versions, each with its predecessor, and reads the newest', async () => {
    const first = await register('doc');
    expect(first).toMatchObject({
      duplicate: false,
      record: { tainted: true, reviewed: false, scanPending: true },
    });
    const predecessorDigest = first.record?.reference?.provenanceDigest;
    const second = await register('doc', { version: 2n, predecessorDigest });
    expect(await register('doc', { version: 2n, predecessorDigest })).toEqual({ ...second, duplicate: true });
    expect(await get('doc')).toEqual({ record: second.record });
    expect(await get('doc', 1n, contextOf(AUDITOR, 'auditor'))).toEqual({ record: first.record });
  });

  test('what is not there is not visible', async () => {
    expect(await reasonOf(get('nothing'))).toBe('NOT_VISIBLE');
    expect(await reasonOf(get('doc', 9n))).toBe('NOT_VISIBLE');
    expect(await reasonOf(get('doc', 1n, contextOf(HARNESS, 'auditor')))).toBe('NOT_VISIBLE');
  });

  test('lists versions in pages', async () => {
    let predecessorDigest: Uint8Array | undefined;
    for (let version = 1n; version <= 5n; version += 1n) {
      const { record } = await register('paged', {
        version,
        ...(predecessorDigest ? { predecessorDigest } : {}),
      });
      predecessorDigest = record?.reference?.provenanceDigest;
    }
    const versions: unknown[] = [];
    let pageToken = '';
    do {
      const page = await provenance().listVersions(
        create(ListVersionsRequestSchema, {
          objectType: ObjectType.ARTIFACT,
          objectId: 'paged',
          pageSize: 2,
          pageToken,
        }),
        harness(),
      );
      versions.push(...(page.records ?? []).map((record) => record.reference?.version));
      pageToken = page.nextPageToken ?? '';
    } while (pageToken !== '');
    expect(versions).toEqual([1n, 2n, 3n, 4n, 5n]);
  });

  test('VerifyReference answers facts', async () => {
    const { record } = await register('referred');
    const verify = (over: object, expectation: object = {}) =>
      provenance().verifyReference(
        create(VerifyReferenceRequestSchema, {
          reference: create(RecordReferenceSchema, { ...record?.reference, ...over }),
          expectation,
        }),
        harness(),
      );
    expect(await verify({})).toEqual({ matches: true, mismatches: [], tainted: true });
    expect(await verify({}, { requiredSinks: ['mail'], classification: DataClass.C0_PUBLIC })).toEqual({
      matches: false,
      mismatches: ['expectation.classification', 'expectation.required_sinks'],
      tainted: true,
    });
    expect(await verify({ objectId: 'nothing' })).toEqual({
      matches: false,
      mismatches: ['record'],
      tainted: false,
    });
    const none = create(VerifyReferenceRequestSchema, {
      expectation: { requiredSinks: [''], policyRevision: -1n },
    });
    await expect(provenance().verifyReference(none, harness())).rejects.toMatchObject({
      refusal: {
        reason: 'FIELD_INVALID',
        violations: [
          { field: 'reference', rule: 'is required' },
          { field: 'expectation.policy_revision' },
          { field: 'expectation.required_sinks[0]' },
        ],
      },
    });
  });

  test('every read hashes the record again, and names one that was changed', async () => {
    await register('changed');
    const where = "WHERE object_id = 'changed'";
    await tamper('provenance_records', `UPDATE provenance_records SET tainted = false ${where}`, []);
    const corrupt = {
      refusal: { reason: 'DATA_CORRUPT', metadata: { record: 'provenance:artifact/changed/1' } },
    };
    await expect(get('changed')).rejects.toMatchObject(corrupt);
    await expect(register('changed')).rejects.toMatchObject(corrupt);
    const page = create(ListVersionsRequestSchema, { objectType: ObjectType.ARTIFACT, objectId: 'changed' });
    await expect(provenance().listVersions(page, harness())).rejects.toMatchObject(corrupt);
    const reference = create(RecordReferenceSchema, {
      domainId: DOMAIN,
      objectType: ObjectType.ARTIFACT,
      objectId: 'changed',
      version: 1n,
      provenanceDigest: digest('x'),
      contentDigest: digest('changed'),
      classification: DataClass.C2_RESTRICTED,
      policyRevision: 1n,
    });
    const request = create(VerifyReferenceRequestSchema, { reference });
    await expect(provenance().verifyReference(request, harness())).rejects.toMatchObject(corrupt);
  });

  test('the database itself keeps records as they were written', async () => {
    const change = world.admin.query("UPDATE provenance_records SET tainted = false WHERE object_id = 'doc'");
    await expect(change).rejects.toThrow('append-only');
  });
});

describe('ReplayService', () => {
  beforeAll(() => seedRegistration(world, EXECUTOR_A));

  const replay = (on: Replica) => handlersOf(ReplayService, replayService(toolsOf(on)));
  const consume = (
    nonce: string,
    over: object = {},
    on = replica,
    context = contextOf(EXECUTOR_A, 'executor'),
  ) =>
    replay(on).consumeNonce(
      create(ConsumeNonceRequestSchema, {
        scope: 'webhooks',
        nonce,
        consumptionId: freshId('consumption'),
        expireTime: microsToTimestamp(nowMicros() + 5n * MINUTE),
        ...over,
      }),
      context,
    );

  test('consumes a nonce once; only the same consumption id is answered again', async () => {
    const consumptionId = freshId('consumption');
    const first = await consume('n-1', { consumptionId });
    expect(first.duplicate).toBe(false);
    expect(await consume('n-1', { consumptionId })).toEqual({ ...first, duplicate: true });
    expect(await reasonOf(consume('n-1'))).toBe('NONCE_REPLAYED');
  });

  test('another caller, and another scope, have nonces of their own', async () => {
    await consume('n-2');
    expect((await consume('n-2', {}, replica, harness())).duplicate).toBe(false);
    expect((await consume('n-2', { scope: 'other' })).duplicate).toBe(false);
  });

  test('an empty nonce is an argument error, told with every other', async () => {
    const call = consume('', { scope: '', consumptionId: 'short', expireTime: undefined });
    await expect(call).rejects.toMatchObject({
      refusal: {
        reason: 'FIELD_INVALID',
        violations: [
          { field: 'scope' },
          { field: 'nonce' },
          { field: 'consumption_id' },
          { field: 'expire_time' },
        ],
      },
    });
  });

  test('two replicas and twenty verifications at once: exactly one consumes it', async () => {
    const other = world.replica();
    for (const nonce of ['race-1', 'race-2', 'race-3']) {
      const calls = Array.from({ length: 20 }, (_, i) =>
        reasonOf(consume(nonce, {}, i % 2 === 0 ? replica : other)),
      );
      const reasons = await Promise.all(calls);
      expect(reasons.filter((reason) => reason === 'none')).toHaveLength(1);
      expect(reasons.filter((reason) => reason === 'NONCE_REPLAYED')).toHaveLength(19);
    }
  });

  test('only for who is in force: a harness, and a workload by any of its registrations', async () => {
    const as = async (table: string, status: string) =>
      world.admin.query(`UPDATE ${table} SET status = $1 WHERE domain_id = $2`, [status, DOMAIN]);
    const nonce = (name: string) => [
      reasonOf(consume(name)),
      reasonOf(consume(name, {}, replica, harness())),
    ];
    await as('harnesses', 'revoked');
    expect(await Promise.all(nonce('n-5'))).toEqual(['none', 'HARNESS_INACTIVE']);
    await as('harnesses', 'active');
    await as('registrations', 'revoked');
    expect(await Promise.all(nonce('n-6'))).toEqual(['WORKLOAD_NOT_CURRENT', 'none']);
    await seedRegistration(world, EXECUTOR_A);
    expect(await reasonOf(consume('n-6'))).toBe('none');
    await as('registrations', 'active');
  });

  test('appends nothing to the log, and counts the live nonces of each caller', async () => {
    const head = () =>
      world.admin
        .query('SELECT seq FROM domain_heads WHERE domain_id = $1', [DOMAIN])
        .then(({ rows }) => rows[0].seq);
    const before = await head();
    await consume('n-3');
    await consume('n-4');
    expect(await head()).toBe(before);
    const { rows } = await world.admin.query(
      `SELECT (SELECT count(*) FROM replay_nonces) AS nonces,
        (SELECT sum(live) FROM replay_callers, unnest(counts) AS live) AS counted`,
    );
    expect(rows[0].counted).toBe(rows[0].nonces);
  });
});

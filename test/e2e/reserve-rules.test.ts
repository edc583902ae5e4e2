import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { digest } from '../../src/cli/client/workload-session.js';
import { PolicyService } from '../../src/gen/surety/authority/v1/policy_service_pb.js';
import { Reason } from '../../src/gen/surety/error/v1/reason_pb.js';
import { RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { DataClass } from '../../src/gen/surety/provenance/v1/record_pb.js';
import {
  ACME,
  AUDITOR,
  type E2eWorld,
  GLOBEX,
  HARNESS,
  openE2eWorld,
  refusedWith,
} from '../support/e2e-world.js';
import {
  addGuestHarness,
  addHarness,
  bySuperuser,
  credential,
  entitle,
  findingsOfLog,
  isPending,
  MAILER,
  publishAs,
  put,
  putHarness,
  type ReserveRequest,
  reservation,
  reserveAs,
  traces,
  usesOf,
  VISITOR,
  WHOLE_LOG,
} from '../support/e2e-parties.js';

describe('effects.md, Reserve', () => {
  let world: E2eWorld;

  beforeAll(async () => {
    world = await openE2eWorld({ globex: true });
    await addHarness(world, { spiffeId: MAILER, harnessId: 'mailer', principalId: 'mona' });
    await addGuestHarness(world, { spiffeId: VISITOR, harnessId: 'visitor', guestId: 'gus' });
  });
  afterAll(() => world.close());

  /** A refusal that leaves no trace. */
  async function expectUnrecorded(
    request: ReserveRequest,
    reason: string,
    code = 'PERMISSION_DENIED',
    spiffeId = HARNESS,
  ): Promise<void> {
    const before = await traces(world);
    const error = await refusedWith(reserveAs(world, spiffeId, request));
    expect(error).toMatchObject({ code, reason });
    expect(error.metadata).not.toHaveProperty('decision_id');
    expect(await traces(world)).toEqual(before);
  }

  /** A refusal of which the decision and its entry of the log are kept, and nothing else. Answers its id. */
  async function expectRecorded(request: ReserveRequest, reason: keyof typeof Reason, spiffeId = HARNESS) {
    const before = await traces(world);
    const error = await refusedWith(reserveAs(world, spiffeId, request));
    expect(error).toMatchObject({ code: 'PERMISSION_DENIED', reason });
    const decisionId = error.metadata['decision_id'] ?? '';
    expect(await traces(world)).toEqual({
      ...before,
      seq: String(Number(before['seq']) + 1),
      chain: expect.not.stringMatching(String(before['chain'])),
      decisions: String(Number(before['decisions']) + 1),
    });
    const { decision } = await world
      .channel(AUDITOR)
      .service(PolicyService)
      .getDecision({ domainId: ACME, decisionId });
    expect(decision).toMatchObject({ allowed: false, reason: Reason[reason], used: false });
    expect(decision).toMatchObject({ action: request.action, resource: request.resource });
    return decisionId;
  }

  test('all of it is there in one transaction: decision, use, pending work, reservation, audit', async () => {
    const request = await reservation(world);
    const before = await traces(world);
    const reply = await reserveAs(world, HARNESS, request);
    const more = (name: string, by: number) => String(Number(before[name]) + by);
    expect(await traces(world)).toMatchObject({
      seq: more('seq', 2),
      fence_counter: more('fence_counter', 1),
      effects: more('effects', 1),
      decisions: more('decisions', 1),
      pending: more('pending', 1),
      uses: more('uses', 1),
      decision_uses: before['decision_uses'],
    });
    expect(reply.auditPosition).toBe(BigInt(more('seq', 2)));
    expect(await isPending(world, reply.effectId)).toBe(true);
    expect(await usesOf(world, request.grantId ?? '')).toBe(1);
    const { decision } = await world
      .channel(HARNESS)
      .service(PolicyService)
      .getDecision({ decisionId: reply.decisionId });
    expect(decision).toMatchObject({
      allowed: true,
      reason: Reason.UNSPECIFIED,
      entitlementId: 'paula-refund.create',
      grantId: request.grantId,
      requestDigest: Buffer.from(request.request?.value ?? []),
      policyRevision: 1n,
    });
  });

  describe('2: the parent event', () => {
    test('an event that is absent, of others, or of another domain is EVENT_NOT_VISIBLE', async () => {
      await expectUnrecorded(await reservation(world, { eventId: 'nowhere' }), 'EVENT_NOT_VISIBLE');
      const theirs = await publishAs(world, MAILER);
      await expectUnrecorded(await reservation(world, { eventId: theirs }), 'EVENT_NOT_VISIBLE');
      const abroad = await publishAs(world, `spiffe://${GLOBEX}/harness/planner`);
      await expectUnrecorded(await reservation(world, { eventId: abroad }), 'EVENT_NOT_VISIBLE');
    });

    test('its origin and its recipients may reserve for it', async () => {
      const eventId = await publishAs(world, MAILER, { recipientHarnessIds: ['planner', 'visitor'] });
      const own = await world.grant({ principalId: 'mona', harnessId: 'mailer' });
      const theirs = await reservation(world, { eventId, grantId: own, effectKey: 'mailer' });
      await reserveAs(world, MAILER, theirs);
      const ours = await reservation(world, {
        eventId,
        effectKey: 'planner',
        request: { case: 'requestDigest', value: digest('ours') },
      });
      await reserveAs(world, HARNESS, ours);
      await expectUnrecorded(
        await reservation(world, { eventId: await publishAs(world, MAILER), grantId: own }),
        'EVENT_NOT_VISIBLE',
        'PERMISSION_DENIED',
        VISITOR,
      );
    });

    test('its classification equals the data class', async () => {
      const dataClasses = [DataClass.C1_INTERNAL, DataClass.C2_RESTRICTED, DataClass.C3_SEALED];
      const grantId = await world.grant({ dataClasses });
      for (const dataClass of [DataClass.C1_INTERNAL, DataClass.C3_SEALED]) {
        await expectUnrecorded(await reservation(world, { grantId, dataClass }), 'EVENT_CLASS_MISMATCH');
      }
    });

    test('its effect deadline is ahead', async () => {
      const deadline = (await world.now()) + 30_000;
      const eventId = await publishAs(world, HARNESS, { effectDeadlineTime: timestampFromMs(deadline) });
      const request = await reservation(world, { eventId });
      await reserveAs(world, HARNESS, await reservation(world, { eventId, effectKey: 'in time' }));
      await world.advance(30_000);
      await expectUnrecorded(
        { ...request, request: { case: 'requestDigest', value: digest('late') } },
        'EVENT_DEADLINE_PASSED',
      );
    });

    test('its provenance record is there and matches it', async () => {
      const changed = await reservation(world);
      await bySuperuser(
        world,
        `UPDATE provenance_records SET content_digest = sha256('x') WHERE object_id = $1`,
        [changed.eventId],
      );
      await expectUnrecorded(changed, 'PROVENANCE_MISSING', 'FAILED_PRECONDITION');
      const missing = await reservation(world);
      await bySuperuser(world, 'DELETE FROM provenance_records WHERE object_id = $1', [missing.eventId]);
      await expectUnrecorded(missing, 'PROVENANCE_MISSING', 'FAILED_PRECONDITION');
    });
  });

  describe("3: the grant's shape", () => {
    test('it exists, is neither revoked nor expired, and names this principal and harness', async () => {
      await expectUnrecorded(await reservation(world, { grantId: 'none' }), 'GRANT_MISSING');

      const revoked = await world.grant();
      await put(world, { case: 'revokeGrant', value: { grantId: revoked } });
      await expectUnrecorded(await reservation(world, { grantId: revoked }), 'GRANT_REVOKED');

      const expired = await world.grant({ expireTime: timestampFromMs((await world.now()) + 10_000) });
      await world.advance(10_000);
      await expectUnrecorded(await reservation(world, { grantId: expired }), 'GRANT_EXPIRED');

      const theirs = await world.grant({ principalId: 'mona', harnessId: 'mailer' });
      await expectUnrecorded(await reservation(world, { grantId: theirs }), 'GRANT_FOREIGN');
      const guests = await world.grant({ principalId: '', guestId: 'gus', harnessId: 'visitor' });
      await expectUnrecorded(await reservation(world, { grantId: guests }), 'GRANT_FOREIGN');
    });

    test.each<[string, ReserveRequest]>([
      ['GRANT_ACTION_NOT_COVERED', { action: 'refund.creat' }],
      ['GRANT_ACTION_NOT_COVERED', { action: 'refund.create.more' }],
      ['GRANT_RESOURCE_NOT_COVERED', { resource: 'order-118' }],
      ['GRANT_RESOURCE_NOT_COVERED', { resource: 'ORDER-1184' }],
      ['GRANT_RESOURCE_NOT_COVERED', { resource: '*' }],
      ['GRANT_INPUT_SOURCE_NOT_COVERED', { inputSource: 'crm ' }],
      ['GRANT_OUTPUT_SINK_NOT_COVERED', { outputSink: 'payment' }],
    ])('its five sets contain the five values exactly: %s of %o', async (reason, change) => {
      await expectUnrecorded(await reservation(world, change), reason);
    });

    test('… the data class too', async () => {
      const eventId = await publishAs(world, HARNESS, { classification: DataClass.C1_INTERNAL });
      const request = await reservation(world, { eventId, dataClass: DataClass.C1_INTERNAL });
      await expectUnrecorded(request, 'GRANT_DATA_CLASS_NOT_COVERED');
    });

    test.each([
      ['actions', { actions: [] }],
      ['resources', { resources: ['*'] }],
      ['input_sources', { inputSources: ['crm', '*'] }],
      ['output_sinks', { outputSinks: [] }],
      ['data_classes', { dataClasses: [] }],
    ])('a set is never empty and has no wildcard: %s', async (field, wish) => {
      const error = await refusedWith(world.grant(wish));
      expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', reason: 'FIELD_INVALID' });
      expect(error.violations[0]?.field).toContain(`create_grant.grant.${field}`);
    });

    test('a sink that the domain does not name could never be reconciled', async () => {
      const grantId = await world.grant({ outputSinks: ['fax'] });
      await expectUnrecorded(await reservation(world, { grantId, outputSink: 'fax' }), 'SINK_UNKNOWN');
    });
  });

  describe('4: the policy decision', () => {
    const voids = async () =>
      reservation(world, { grantId: await world.grant({ actions: ['refund.void'] }), action: 'refund.void' });

    test('a denial is recorded; the same one within 60 s is the stored one, after that a new one', async () => {
      const request = await voids();
      const first = await expectRecorded(request, 'ENTITLEMENT_MISSING');
      const before = await traces(world);
      const again = await refusedWith(reserveAs(world, HARNESS, request));
      expect(again).toMatchObject({ reason: 'ENTITLEMENT_MISSING', metadata: { decision_id: first } });
      expect(await traces(world)).toEqual(before);
      await world.advance(60_000);
      expect(await expectRecorded(request, 'ENTITLEMENT_MISSING')).not.toBe(first);
    });

    test('another question, or another reason, is another denial', async () => {
      const request = await voids();
      const first = await expectRecorded(request, 'ENTITLEMENT_MISSING');
      const reworded: ReserveRequest = {
        ...request,
        request: { case: 'requestDigest', value: digest('other') },
      };
      expect(await expectRecorded(reworded, 'ENTITLEMENT_MISSING')).not.toBe(first);
      const entitlement = {
        entitlementId: 'voids',
        principalId: 'paula',
        action: 'refund.void',
        resource: 'order-1184',
        expireTime: timestampFromMs((await world.now()) + 60_000),
      };
      await put(world, { case: 'putEntitlement', value: { entitlement } });
      await put(world, { case: 'revokeEntitlement', value: { entitlementId: 'voids' } });
      expect(await expectRecorded(request, 'ENTITLEMENT_STALE')).not.toBe(first);
    });

    test("it is decided under the event's policy revision, which must still be the domain's", async () => {
      const old = await reservation(world);
      await put(world, { case: 'bumpPolicyRevision', value: {} });
      // The sweep cancels what was reserved under the old one, and is waited for.
      await world.advance(1);
      await expectRecorded(old, 'POLICY_REVISION_STALE');
      // A new event does not renew what else is of the old revision.
      const newEvent = await reservation(world, { grantId: old.grantId ?? '' });
      await expectRecorded(newEvent, 'ENTITLEMENT_STALE');
      await entitle(world);
      await entitle(world, 'mona');
      await expectRecorded(newEvent, 'GRANT_BINDING_STALE');
      await reserveAs(world, HARNESS, { ...newEvent, grantId: await world.grant() });
    });

    test('an actor that is not in force is denied for the record, whatever it lacks', async () => {
      const eventId = await publishAs(world, MAILER);
      const grantId = await world.grant({ principalId: 'mona', harnessId: 'mailer' });
      const request = await reservation(world, { eventId, grantId });
      const mailer = { harnessId: 'mailer', principalId: 'mona' };
      const principal = (status: RecordStatus) =>
        put(world, { case: 'putPrincipal', value: { principal: { principalId: 'mona', status } } });
      const domain = (status: RecordStatus) =>
        put(world, { case: 'updateDomain', value: { status, allowStandingRegistrations: true } });

      await putHarness(world, { ...mailer, status: RecordStatus.SUSPENDED });
      await expectRecorded(request, 'HARNESS_INACTIVE', MAILER);
      await putHarness(world, mailer);
      await principal(RecordStatus.SUSPENDED);
      await expectRecorded(request, 'PRINCIPAL_INACTIVE', MAILER);
      await principal(RecordStatus.ACTIVE);
      await domain(RecordStatus.SUSPENDED);
      await expectRecorded(request, 'DOMAIN_INACTIVE', MAILER);
      await domain(RecordStatus.ACTIVE);
      await reserveAs(world, MAILER, request);
    });

    test('a guest has no entitlement and needs none: its grant is its authority', async () => {
      const eventId = await publishAs(world, VISITOR);
      const grantId = await world.grant({ principalId: '', guestId: 'gus', harnessId: 'visitor' });
      const reply = await reserveAs(world, VISITOR, await reservation(world, { eventId, grantId }));
      const { decision } = await world
        .channel(VISITOR)
        .service(PolicyService)
        .getDecision({ decisionId: reply.decisionId });
      expect(decision).toMatchObject({ allowed: true, guestId: 'gus', entitlementId: '', grantId });
    });
  });

  describe('6: the use of the grant', () => {
    test('a grant is consumed use by use; exhausted is a recorded denial', async () => {
      const grantId = await world.grant({ maxUses: 2n });
      for (const _ of [1, 2]) await reserveAs(world, HARNESS, await reservation(world, { grantId }));
      const request = await reservation(world, { grantId });
      const first = await expectRecorded(request, 'GRANT_EXHAUSTED');
      const before = await traces(world);
      const again = await refusedWith(reserveAs(world, HARNESS, request));
      expect(again.metadata['decision_id']).toBe(first);
      expect(await traces(world)).toEqual(before);
      expect(await usesOf(world, grantId)).toBe(2);
    });

    test('its binding to the credential epoch at issuance must still hold', async () => {
      const grantId = await world.grant({ principalId: 'mona', harnessId: 'mailer' });
      await put(world, { case: 'bumpCredentialEpoch', value: { harnessId: 'mailer' } });
      await credential(world, { spiffeId: MAILER, harnessId: 'mailer' });
      await world.advance(1);
      const request = await reservation(world, { eventId: await publishAs(world, MAILER), grantId });
      await expectRecorded(request, 'GRANT_BINDING_STALE', MAILER);
      const renewed = await world.grant({ principalId: 'mona', harnessId: 'mailer' });
      await reserveAs(world, MAILER, { ...request, grantId: renewed });
    });
  });

  test('the first reason wins, in the order of the rules 2 to 6', async () => {
    const taken = await reservation(world, { effectKey: 'taken' });
    await reserveAs(world, HARNESS, taken);
    const used = await world.grant({ actions: ['refund.create', 'refund.void'], maxUses: 1n });
    await reserveAs(world, HARNESS, await reservation(world, { grantId: used }));
    const eventId = await world.publish();
    const wrong: ReserveRequest = {
      ...taken,
      eventId: 'nowhere',
      grantId: 'none',
      action: 'refund.void',
    };
    await expectUnrecorded(wrong, 'EVENT_NOT_VISIBLE');
    await expectUnrecorded({ ...wrong, eventId }, 'GRANT_MISSING');
    const granted = { ...wrong, eventId, grantId: used };
    await put(world, { case: 'revokeEntitlement', value: { entitlementId: 'paula-refund.create' } });
    await expectRecorded({ ...granted, action: 'refund.create' }, 'ENTITLEMENT_STALE');
    await entitle(world);
    const allowed = { ...granted, action: 'refund.create' };
    await expectUnrecorded(allowed, 'EFFECT_KEY_BUSY', 'FAILED_PRECONDITION');
    await expectRecorded({ ...allowed, effectKey: 'free' }, 'GRANT_EXHAUSTED');
  });

  describe('8: fences', () => {
    test('positive, incarnation · 2^40 + a counter, strictly increasing in the order of the log', async () => {
      const grantId = await world.grant();
      const requests = await Promise.all(Array.from({ length: 20 }, () => reservation(world, { grantId })));
      const replies = await Promise.all(requests.map((request) => reserveAs(world, HARNESS, request)));
      replies.sort((a, b) => Number(a.auditPosition - b.auditPosition));
      const fences = replies.map(({ fence }) => fence);
      const first = fences[0] ?? 0n;
      expect(first >> 40n).toBe(1n);
      expect(fences).toEqual(fences.map((_, index) => first + BigInt(index)));
      expect((await traces(world))['fence_counter']).toBe(String((fences.at(-1) ?? 0n) - (1n << 40n)));
    });

    test('each domain counts its own', async () => {
      const { rows } = await world.sql.query('SELECT fence_counter FROM domain_heads WHERE domain_id = $1', [
        GLOBEX,
      ]);
      expect(rows[0].fence_counter).toBe('0');
    });
  });

  test('the log of all this verifies', async () => {
    expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
  });
});

import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SuretyError } from '../../src/cli/client/surety-error.js';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_HARNESS } from '../../src/cli/demo/set-up-domain.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { DataClass } from '../../src/gen/surety/provenance/v1/record_pb.js';
import { ACME, type E2eWorld, HARNESS, openE2eWorld, refusedWith } from '../support/e2e-world.js';
import {
  addGuestHarness,
  addHarness,
  credential,
  entitle,
  findingsOfLog,
  MAILER,
  publishAs,
  put,
  putHarness,
  type ReserveRequest,
  reservation,
  reserveAs,
  resourceOf,
  traces,
  usesOf,
  VISITOR,
  WHOLE_LOG,
} from '../support/e2e-parties.js';

describe('effects.md, Reserve 1: idempotency', () => {
  let world: E2eWorld;
  let executor: WorkloadSession;

  beforeAll(async () => {
    world = await openE2eWorld();
    executor = await world.executor();
    await addHarness(world, { spiffeId: MAILER, harnessId: 'mailer', principalId: 'mona' });
    await addGuestHarness(world, { spiffeId: VISITOR, harnessId: 'visitor', guestId: 'gus' }, 3_600_000);
  });
  afterAll(() => world.close());

  /** The first reply again, and nothing moved for it. */
  async function expectFirstReply(
    request: ReserveRequest,
    first: Awaited<ReturnType<typeof reserveAs>>,
    currentState = EffectState.PREPARED,
    spiffeId = HARNESS,
  ): Promise<void> {
    const before = await traces(world);
    const again = await reserveAs(world, spiffeId, request);
    expect(again).toEqual({ ...first, duplicate: true, currentState });
    expect(await traces(world)).toEqual(before);
  }

  test('an exact repeat answers the first ids, fence, audit position and leaf, and consumes nothing', async () => {
    const request = await reservation(world);
    const first = await reserveAs(world, HARNESS, request);
    expect(first).toMatchObject({ duplicate: false, currentState: EffectState.PREPARED });
    expect(first.auditLeaf).toHaveLength(32);
    await expectFirstReply(request, first);
    expect(await usesOf(world, request.grantId as string)).toBe(1);
  });

  test('… also where the grant is exhausted by now', async () => {
    const request = await reservation(world, { grantId: await world.grant({ maxUses: 1n }) });
    const first = await reserveAs(world, HARNESS, request);
    await expectFirstReply(request, first);
  });

  test.each(['EXECUTING', 'UNKNOWN', 'SUCCEEDED', 'FAILED'] as const)(
    '… and the state by now: %s',
    async (name) => {
      const state = EffectState[name];
      const request = await reservation(world);
      const first = await reserveAs(world, HARNESS, request);
      await world.effectIn(state, executor, request);
      await expectFirstReply(request, first, state);
    },
  );

  test('… also where grant and event have expired and the sweep has cancelled it', async () => {
    const now = await world.now();
    const eventId = await publishAs(world, HARNESS, { effectDeadlineTime: timestampFromMs(now + 40_000) });
    const grantId = await world.grant({ expireTime: timestampFromMs(now + 30_000) });
    const request = await reservation(world, { eventId, grantId });
    const first = await reserveAs(world, HARNESS, request);
    await world.advance(40_000);
    await expectFirstReply(request, first, EffectState.CANCELLED);
  });

  test('… also where the grant is revoked, the domain frozen and the policy another one', async () => {
    const request = await reservation(world);
    const first = await reserveAs(world, HARNESS, request);
    await put(world, { case: 'setFreeze', value: { frozen: true } });
    await expectFirstReply(request, first);
    await put(world, { case: 'setFreeze', value: { frozen: false } });
    await put(world, { case: 'revokeGrant', value: { grantId: request.grantId as string } });
    await put(world, { case: 'bumpPolicyRevision', value: {} });
    await world.advance(1);
    await expectFirstReply(request, first, EffectState.CANCELLED);
    await entitle(world);
    await entitle(world, 'mona');
  });

  test('a body and its digest are the same identity; another body is another effect', async () => {
    const body = new TextEncoder().encode('{"amount": 12}');
    const request = await reservation(world, { request: { case: 'requestBody', value: body } });
    const first = await reserveAs(world, HARNESS, request);
    const byDigest: ReserveRequest = { ...request, request: { case: 'requestDigest', value: digest(body) } };
    await expectFirstReply(byDigest, first);
    // What is hashed is what is sent: the same JSON with another space is another request.
    const spaced = new TextEncoder().encode('{"amount":12}');
    const other = await reserveAs(world, HARNESS, {
      ...request,
      request: { case: 'requestBody', value: spaced },
      effectKey: 'another change',
    });
    expect(other.effectId).not.toBe(first.effectId);
  });

  describe('each field of the request, altered by itself, is EFFECT_IDENTITY_CONFLICT', () => {
    const second = 1_000;
    let request: ReserveRequest;
    let effectId: string;
    let otherGrant: string;

    beforeAll(async () => {
      const wish = {
        actions: ['refund.create', 'refund.void'],
        resources: ['order-1184', 'order-1185'],
        inputSources: ['crm', 'mail'],
        dataClasses: [DataClass.C2_RESTRICTED, DataClass.C3_SEALED],
        repeatable: true,
      };
      otherGrant = await world.grant(wish);
      request = await reservation(world, {
        grantId: await world.grant(wish),
        effectKey: 'altered',
        reservationTtl: durationFromMs(3600 * second),
        executionDeadline: durationFromMs(60 * second),
      });
      ({ effectId } = await reserveAs(world, HARNESS, request));
    });

    test.each<[string, () => ReserveRequest]>([
      ['grant_id', () => ({ grantId: otherGrant })],
      ['grant_id', () => ({ grantId: 'no such grant' })],
      ['action', () => ({ action: 'refund.void' })],
      ['resource', () => ({ resource: 'order-1185' })],
      ['input_source', () => ({ inputSource: 'mail' })],
      ['data_class', () => ({ dataClass: DataClass.C3_SEALED })],
      ['effect_key', () => ({ effectKey: 'altered ' })],
      ['effect_key', () => ({ effectKey: '' })],
      ['repeatable', () => ({ repeatable: true })],
      ['reservation_ttl', () => ({ reservationTtl: durationFromMs(3600 * second + 1) })],
      ['execution_deadline', () => ({ executionDeadline: durationFromMs(60 * second - 1) })],
    ])('%s', async (field, change) => {
      const before = await traces(world);
      const error = await refusedWith(reserveAs(world, HARNESS, { ...request, ...change() }));
      expect(error).toMatchObject({
        code: 'ALREADY_EXISTS',
        reason: 'EFFECT_IDENTITY_CONFLICT',
        metadata: { field },
      });
      expect(resourceOf(error)).toMatchObject({ resourceType: 'effect', resourceName: effectId });
      expect(await traces(world)).toEqual(before);
    });

    test.each<[string, ReserveRequest]>([
      ['reservation_ttl', { reservationTtl: durationFromMs(86_400 * second) }],
      ['execution_deadline', { executionDeadline: durationFromMs(900 * second) }],
    ])('%s: what the default is, said out loud, is not what was said before', async (field, change) => {
      const silent = await reservation(world);
      await reserveAs(world, HARNESS, silent);
      const error = await refusedWith(reserveAs(world, HARNESS, { ...silent, ...change }));
      expect(error).toMatchObject({ reason: 'EFFECT_IDENTITY_CONFLICT', metadata: { field } });
    });
  });

  test('an actor that is neither its actor nor a party of the event gets NOT_VISIBLE, altered or not', async () => {
    const request = await reservation(world);
    await reserveAs(world, HARNESS, request);
    const before = await traces(world);
    for (const change of [{}, { resource: 'order-1185' }]) {
      const error = await refusedWith(reserveAs(world, MAILER, { ...request, ...change }));
      expect(error).toMatchObject({ code: 'PERMISSION_DENIED', reason: 'NOT_VISIBLE', metadata: {} });
    }
    expect(await traces(world)).toEqual(before);
  });

  test('a recipient of the event gets the conflict, and the origin where a recipient reserved it', async () => {
    const eventId = await publishAs(world, HARNESS, { recipientHarnessIds: ['mailer'] });
    const own = await reservation(world, { eventId });
    await reserveAs(world, HARNESS, own);
    const grantOfMailer = await world.grant({ principalId: 'mona', harnessId: 'mailer' });
    const theirs: ReserveRequest = { ...own, grantId: grantOfMailer };
    const conflict = {
      code: 'ALREADY_EXISTS',
      reason: 'EFFECT_IDENTITY_CONFLICT',
      metadata: { field: 'actor' },
    };
    // Without its id: whose it is not may not see it.
    const conflicts = (error: SuretyError) => {
      expect(error).toMatchObject(conflict);
      expect(resourceOf(error)).toBeUndefined();
    };
    conflicts(await refusedWith(reserveAs(world, MAILER, own)));
    conflicts(await refusedWith(reserveAs(world, MAILER, theirs)));

    const later: ReserveRequest = {
      ...theirs,
      request: { case: 'requestDigest', value: digest('another') },
      effectKey: 'theirs',
    };
    await reserveAs(world, MAILER, later);
    conflicts(await refusedWith(reserveAs(world, HARNESS, later)));
  });

  describe('whoever repeats must be in force now, and need not be what it was then', () => {
    let request: ReserveRequest;
    let first: Awaited<ReturnType<typeof reserveAs>>;

    beforeAll(async () => {
      const eventId = await publishAs(world, MAILER);
      const grantId = await world.grant({ principalId: 'mona', harnessId: 'mailer' });
      request = await reservation(world, { eventId, grantId });
      first = await reserveAs(world, MAILER, request);
    });

    const repeated = () => refusedWith(reserveAs(world, MAILER, request));
    const harness = (change: object) =>
      putHarness(world, { harnessId: 'mailer', principalId: 'mona', ...change });
    const principal = (status: RecordStatus) =>
      put(world, { case: 'putPrincipal', value: { principal: { principalId: 'mona', status } } });

    test('another assurance of the harness changes nothing', async () => {
      await harness({ bindingAssurance: 'self-asserted' });
      await expectFirstReply(request, first, EffectState.PREPARED, MAILER);
    });

    test('a harness that is suspended is refused, and answered once it is back', async () => {
      await harness({ status: RecordStatus.SUSPENDED });
      expect(await repeated()).toMatchObject({ code: 'PERMISSION_DENIED', reason: 'HARNESS_INACTIVE' });
      await harness({});
      await expectFirstReply(request, first, EffectState.PREPARED, MAILER);
    });

    test('a principal that is suspended is refused, and answered once it is back', async () => {
      await principal(RecordStatus.SUSPENDED);
      expect(await repeated()).toMatchObject({ code: 'PERMISSION_DENIED', reason: 'PRINCIPAL_INACTIVE' });
      await principal(RecordStatus.ACTIVE);
      await expectFirstReply(request, first, EffectState.PREPARED, MAILER);
    });

    test('a domain that is suspended is refused', async () => {
      const status = (value: RecordStatus) =>
        put(world, {
          case: 'updateDomain',
          value: { status: value, allowStandingRegistrations: true },
        });
      await status(RecordStatus.SUSPENDED);
      expect(await repeated()).toMatchObject({ code: 'PERMISSION_DENIED', reason: 'DOMAIN_INACTIVE' });
      await status(RecordStatus.ACTIVE);
      await expectFirstReply(request, first, EffectState.PREPARED, MAILER);
    });

    test('a routine rotation leaves nothing stuck: with the new credential the repeat is answered', async () => {
      await put(world, { case: 'bumpCredentialEpoch', value: { harnessId: 'mailer' } });
      expect(await repeated()).toMatchObject({ code: 'PERMISSION_DENIED', reason: 'CREDENTIAL_MISSING' });
      await credential(world, { spiffeId: MAILER, harnessId: 'mailer' });
      // The grant is of the old epoch: the sweep has cancelled what was only reserved, or is about to.
      await world.advance(1);
      await expectFirstReply(request, first, EffectState.CANCELLED, MAILER);
    });

    test('a credential that is revoked or expired is refused, and another one answered', async () => {
      const { rows } = await world.sql.query(
        `SELECT credential_id FROM credentials WHERE domain_id = $1 AND spiffe_id = $2
          ORDER BY credential_epoch DESC LIMIT 1`,
        [ACME, MAILER],
      );
      await put(world, { case: 'revokeCredential', value: { credentialId: rows[0].credential_id } });
      expect(await repeated()).toMatchObject({ reason: 'CREDENTIAL_INACTIVE' });
      await credential(world, { spiffeId: MAILER, harnessId: 'mailer' }, 30_000);
      await expectFirstReply(request, first, EffectState.CANCELLED, MAILER);
      await world.advance(30_000);
      expect(await repeated()).toMatchObject({ reason: 'CREDENTIAL_OUTSIDE_VALIDITY' });
      await credential(world, { spiffeId: MAILER, harnessId: 'mailer' });
      await expectFirstReply(request, first, EffectState.CANCELLED, MAILER);
    });

    test("a guest's repeat is answered while its time lasts", async () => {
      const eventId = await publishAs(world, VISITOR);
      const grantId = await world.grant({ principalId: '', guestId: 'gus', harnessId: 'visitor' });
      const asGuest = await reservation(world, { eventId, grantId });
      const reply = await reserveAs(world, VISITOR, asGuest);
      await expectFirstReply(asGuest, reply, EffectState.PREPARED, VISITOR);
      await world.advance(3_600_000);
      expect(await refusedWith(reserveAs(world, VISITOR, asGuest))).toMatchObject({
        code: 'PERMISSION_DENIED',
        reason: 'GUEST_EXPIRED',
      });
    });
  });

  test('a harness does not repeat for another principal: the actor is principal and harness', () => {
    // The owner of a harness never changes, so that nobody inherits what another has reserved.
    const change = putHarness(world, { harnessId: DEMO_HARNESS, principalId: 'mona' });
    return expect(change).rejects.toMatchObject({ reason: 'RECORD_EXISTS' });
  });

  test('the log of all this verifies', async () => {
    expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
  });
});

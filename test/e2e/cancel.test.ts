import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import {
  DEMO_DATA_CLASS,
  DEMO_HARNESS,
  DEMO_INPUT_SOURCE,
  DEMO_PRINCIPAL,
  DEMO_SINK,
} from '../../src/cli/demo/set-up-domain.js';
import { PolicyService } from '../../src/gen/surety/authority/v1/policy_service_pb.js';
import { EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService, RetryAdvice } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { Reason } from '../../src/gen/surety/error/v1/reason_pb.js';
import { RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import {
  ACME,
  type E2eWorld,
  type GrantWish,
  HARNESS,
  openE2eWorld,
  refusedWith,
} from '../support/e2e-world.js';
import {
  addGuestHarness,
  addHarness,
  bySuperuser,
  cancel,
  credential,
  decide,
  entitle,
  findingsOfLog,
  isPending,
  MAILER,
  publishAs,
  put,
  putHarness,
  reconcileAs,
  reservation,
  reserveAs,
  traces,
  usesOf,
  VISITOR,
  WHOLE_LOG,
} from '../support/e2e-parties.js';

const { CANCELLED } = EffectState;

/** What a decision that names a grant says besides action and resource. */
const DIMENSIONS = { inputSource: DEMO_INPUT_SOURCE, outputSink: DEMO_SINK, dataClass: DEMO_DATA_CLASS };

describe('effects.md, Cancel', () => {
  let world: E2eWorld;
  let executor: WorkloadSession;

  beforeAll(async () => {
    // No sweep but those that `advance` makes: what ends with its grant must stay PREPARED until it is cancelled here.
    world = await openE2eWorld({ env: { SURETY_SWEEP_INTERVAL_MS: '600000' } });
    executor = await world.executor();
    await addHarness(world, { spiffeId: MAILER, harnessId: 'mailer', principalId: 'mona' });
    await addGuestHarness(world, { spiffeId: VISITOR, harnessId: 'visitor', guestId: 'gus' });
  });
  afterAll(() => world.close());

  const decided = async (...args: Parameters<typeof decide> extends [unknown, ...infer R] ? R : never) =>
    (await decide(world, ...args)).decision?.decisionId ?? '';

  /** A refusal that leaves the effect PREPARED and no trace. */
  async function expectRefused(
    call: () => Promise<unknown>,
    effectId: string,
    expected: object,
  ): Promise<void> {
    const before = await traces(world);
    expect(await refusedWith(call())).toMatchObject(expected);
    expect(await traces(world)).toEqual(before);
    expect(await isPending(world, effectId)).toBe(true);
  }

  test('the actor cancels what is PREPARED: pending work released, decision used, use stays consumed', async () => {
    const { effectId, fence } = await world.reserve();
    const decisionId = await decided(effectId);
    const before = await traces(world);
    const result = await cancel(world, effectId, decisionId);
    expect(result).toMatchObject({
      effectId,
      state: CANCELLED,
      stateSource: StateSource.ACTOR,
      fence,
      attemptId: '',
      duplicate: false,
      step: 2n,
      auditPosition: BigInt(Number(before['seq']) + 1),
    });
    // What was never sent has no output.
    expect(result.outputReference).toBeUndefined();
    expect(await traces(world)).toMatchObject({
      seq: String(Number(before['seq']) + 1),
      pending: String(Number(before['pending']) - 1),
      decision_uses: String(Number(before['decision_uses']) + 1),
      uses: before['uses'],
    });
    const effect = await executor.look(effectId);
    expect(effect).toMatchObject({ state: CANCELLED, stateSource: StateSource.ACTOR, holdsKey: false });
    expect(effect.settleTime).toEqual(result.transitionTime);
    expect(await usesOf(world, effect.grantId)).toBe(1);
    const { decision } = await world.channel(HARNESS).service(PolicyService).getDecision({ decisionId });
    expect(decision).toMatchObject({ used: true, allowed: true, action: 'effect.cancel' });
  });

  test("repeating one's own cancel answers the first result as a duplicate and needs no decision", async () => {
    const { effectId } = await world.reserve();
    const first = await cancel(world, effectId);
    const before = await traces(world);
    for (const decisionId of ['', 'none', 'dec_of_somebody']) {
      expect(await cancel(world, effectId, decisionId)).toEqual({ ...first, duplicate: true });
    }
    expect(await traces(world)).toEqual(before);
    const retry = await world.channel(HARNESS).service(EffectService).checkRetry({ effectId });
    expect(retry.advice).toBe(RetryAdvice.NEW_EVENT);
  });

  describe('from PREPARED only; the conflict names the state found and what led to it', () => {
    test.each([
      ['EXECUTING', 'executor'],
      ['UNKNOWN', 'executor'],
      ['SUCCEEDED', 'executor'],
      ['FAILED', 'executor'],
      ['CANCELLED', 'executor'],
    ] as const)('%s', async (state, source) => {
      const { effect } = await world.effectIn(EffectState[state], executor);
      const before = await traces(world);
      const error = await refusedWith(cancel(world, effect.effectId, ''));
      expect(error).toMatchObject({
        code: 'FAILED_PRECONDITION',
        reason: 'EFFECT_STATE_CONFLICT',
        metadata: { state, source },
      });
      expect(await traces(world)).toEqual(before);
    });

    test('CANCELLED by expiry', async () => {
      const grantId = await world.grant();
      const { effectId } = await world.reserve({ grantId });
      await put(world, { case: 'revokeGrant', value: { grantId } });
      await world.advance(1);
      expect(await refusedWith(cancel(world, effectId))).toMatchObject({
        reason: 'EFFECT_STATE_CONFLICT',
        metadata: { state: 'CANCELLED', source: 'expiry' },
      });
    });

    test('CANCELLED by a reconciler', async () => {
      const reconciler = await world.reconciler();
      const unknown = await world.effectIn(EffectState.UNKNOWN, executor);
      await world.advance(121_000);
      await reconcileAs(world, reconciler, unknown, CANCELLED);
      expect(await refusedWith(cancel(world, unknown.effect.effectId))).toMatchObject({
        reason: 'EFFECT_STATE_CONFLICT',
        metadata: { state: 'CANCELLED', source: 'reconciler' },
      });
    });
  });

  test('only the actor: to others, parties of the event among them, it looks like an effect that is absent', async () => {
    const eventId = await publishAs(world, HARNESS, { recipientHarnessIds: ['mailer'] });
    const { effectId } = await world.reserve({ eventId });
    const decisionId = await decided(effectId, {}, MAILER);
    const foreign = await refusedWith(cancel(world, effectId, decisionId, MAILER));
    const absent = await refusedWith(cancel(world, 'eff_none', decisionId, MAILER));
    expect(foreign).toMatchObject({ code: 'PERMISSION_DENIED', reason: 'NOT_VISIBLE', metadata: {} });
    expect([absent.message, absent.metadata]).toEqual([foreign.message, foreign.metadata]);
    expect(await isPending(world, effectId)).toBe(true);
  });

  describe('the decision', () => {
    const notUsable = (rule: string) => ({
      code: 'PERMISSION_DENIED',
      reason: 'DECISION_NOT_USABLE',
      metadata: { rule },
    });

    test.each<[string, (effectId: string) => Promise<string>]>([
      ['decision', async () => ''],
      ['decision', async () => 'dec_none'],
      ['decision', (effectId) => decided(effectId, {}, MAILER)],
      ['allowed', (effectId) => decided(effectId, { eligibilityDenials: ['paused'] })],
      ['action', (effectId) => decided(effectId, { action: 'refund.create' })],
      ['resource', (effectId) => decided(`${effectId}x`)],
      ['resource', () => decided('*')],
      ['request_digest', (effectId) => decided(effectId, { requestDigest: digest(' ') })],
    ])('… breaks the rule `%s` (%#)', async (rule, decisionOf) => {
      const { effectId } = await world.reserve();
      const decisionId = await decisionOf(effectId);
      await expectRefused(() => cancel(world, effectId, decisionId), effectId, notUsable(rule));
    });

    test('is recorded for this actor, and one for another effect is for that one', async () => {
      const [one, other] = [await world.reserve(), await world.reserve()];
      const decisionId = await decided(one.effectId);
      const call = () => cancel(world, other.effectId, decisionId);
      await expectRefused(call, other.effectId, notUsable('resource'));
      expect((await cancel(world, one.effectId, decisionId)).state).toBe(CANCELLED);
    });

    test('is at most 300 s old', async () => {
      const [early, late] = [await world.reserve(), await world.reserve()];
      const [first, second] = [await decided(early.effectId), await decided(late.effectId)];
      // The microsecond is for test/ledger/authority/usable-decision.test.ts.
      await world.advance(150_000);
      expect((await cancel(world, early.effectId, first)).state).toBe(CANCELLED);
      await world.advance(150_000);
      await expectRefused(() => cancel(world, late.effectId, second), late.effectId, notUsable('age'));
      expect((await cancel(world, late.effectId)).state).toBe(CANCELLED);
    });

    test('backs one mutation: one that is used is used', async () => {
      const { effectId } = await world.reserve();
      const decisionId = await decided(effectId);
      await bySuperuser(
        world,
        'INSERT INTO decision_uses (domain_id, decision_id, used_by, used_at) VALUES ($1, $2, $3, 1)',
        [ACME, decisionId, 'something else'],
      );
      await expectRefused(() => cancel(world, effectId, decisionId), effectId, notUsable('used'));
    });

    test('rests on an entitlement that is still current', async () => {
      const { effectId } = await world.reserve();
      const decisionId = await decided(effectId);
      const entitlementId = `${DEMO_PRINCIPAL}-effect.cancel`;
      await put(world, { case: 'revokeEntitlement', value: { entitlementId } });
      await expectRefused(() => cancel(world, effectId, decisionId), effectId, notUsable('backing'));
      const denied = await decide(world, effectId);
      expect(denied.decision).toMatchObject({ allowed: false, reason: Reason.ENTITLEMENT_STALE });
      await entitle(world);
      expect((await cancel(world, effectId, decisionId)).state).toBe(CANCELLED);
    });

    test('where it names a grant, rests on that too', async () => {
      const { effectId } = await world.reserve();
      const grantId = await world.grant({ actions: ['effect.cancel'], resources: [effectId] });
      const decisionId = await decided(effectId, { grantId, ...DIMENSIONS });
      await put(world, { case: 'revokeGrant', value: { grantId } });
      await expectRefused(() => cancel(world, effectId, decisionId), effectId, notUsable('backing'));
    });

    test('is of the current policy revision', async () => {
      const { effectId } = await world.reserve();
      const decisionId = await decided(effectId);
      await put(world, { case: 'bumpPolicyRevision', value: {} });
      await entitle(world);
      await entitle(world, 'mona');
      await expectRefused(() => cancel(world, effectId, decisionId), effectId, notUsable('policy_revision'));
      // The grant is stale, and the event too; what they are for may still be called off.
      expect((await cancel(world, effectId)).stateSource).toBe(StateSource.ACTOR);
    });
  });

  test('the actor must be in force, and may have another credential by now', async () => {
    const { effectId } = await world.reserve();
    const decisionId = await decided(effectId);
    const harness = { harnessId: DEMO_HARNESS, principalId: DEMO_PRINCIPAL };
    const call = () => cancel(world, effectId, decisionId);
    await putHarness(world, { ...harness, status: RecordStatus.SUSPENDED });
    await expectRefused(call, effectId, { code: 'PERMISSION_DENIED', reason: 'HARNESS_INACTIVE' });
    await putHarness(world, harness);
    await put(world, { case: 'bumpCredentialEpoch', value: { harnessId: DEMO_HARNESS } });
    await expectRefused(call, effectId, { code: 'PERMISSION_DENIED', reason: 'CREDENTIAL_MISSING' });
    await credential(world, { spiffeId: HARNESS, harnessId: DEMO_HARNESS });
    expect((await call()).state).toBe(CANCELLED);
  });

  describe('a guest', () => {
    const guests = { principalId: '', guestId: 'gus', harnessId: 'visitor' };

    async function reserved(): Promise<{ effectId: string; grantId: string }> {
      const grantId = await world.grant(guests);
      const request = await reservation(world, { eventId: await publishAs(world, VISITOR), grantId });
      return { ...(await reserveAs(world, VISITOR, request)), grantId };
    }
    const cancelGrant = (effectId: string, wish: GrantWish = {}) =>
      world.grant({ ...guests, actions: ['effect.cancel'], resources: [effectId], ...wish });

    test('reserves and cancels, its decision backed by a grant for exactly this', async () => {
      const { effectId, grantId } = await reserved();
      const bare = await decide(world, effectId, {}, VISITOR);
      expect(bare.decision).toMatchObject({ allowed: false, reason: Reason.GRANT_REQUIRED, guestId: 'gus' });
      const reserving = await decide(world, effectId, { grantId, ...DIMENSIONS }, VISITOR);
      expect(reserving.decision).toMatchObject({ allowed: false, reason: Reason.GRANT_ACTION_NOT_COVERED });
      const backing = await cancelGrant(effectId);
      const decisionId = await decided(effectId, { grantId: backing, ...DIMENSIONS }, VISITOR);
      const result = await cancel(world, effectId, decisionId, VISITOR);
      expect(result).toMatchObject({ state: CANCELLED, stateSource: StateSource.ACTOR });
      expect(await isPending(world, effectId)).toBe(false);
      expect(await cancel(world, effectId, '', VISITOR)).toEqual({ ...result, duplicate: true });
    });

    test.each<[string, (grantId: string) => Promise<void>]>([
      ['revoked', (grantId) => put(world, { case: 'revokeGrant', value: { grantId } })],
      ['expired', () => world.advance(60_000)],
    ])('cannot use a decision whose grant is %s by now', async (_, end) => {
      const { effectId } = await reserved();
      const expireTime = timestampFromMs((await world.now()) + 60_000);
      const backing = await cancelGrant(effectId, { expireTime });
      const decisionId = await decided(effectId, { grantId: backing, ...DIMENSIONS }, VISITOR);
      await end(backing);
      await expectRefused(() => cancel(world, effectId, decisionId, VISITOR), effectId, {
        reason: 'DECISION_NOT_USABLE',
        metadata: { rule: 'backing' },
      });
    });
  });

  test('what is wrong with the request is told at once', async () => {
    const error = await refusedWith(cancel(world, '', 'a\nb'));
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', reason: 'FIELD_INVALID' });
    expect(error.violations.map(({ field }) => field)).toEqual(['effect_id', 'decision_id']);
  });

  test('the log of all this verifies', async () => {
    expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
  });
});

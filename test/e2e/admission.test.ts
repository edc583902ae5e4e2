import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { SuretyError } from '../../src/cli/client/surety-error.js';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { digest } from '../../src/cli/client/workload-session.js';
import { DEMO_ACTION, DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { expectSound, fingerprint } from '../fault/store-invariants.js';
import {
  addHarness,
  cancel,
  decide,
  MAILER,
  publishAs,
  put,
  reservation,
  reserveAs,
  usesOf,
} from '../support/e2e-parties.js';
import { type E2eWorld, HARNESS, refusedWith } from '../support/e2e-world.js';
import { type Target, TransitionRig } from '../support/transition-rig.js';
import { counted, nextMinute, quotaOf, setLimits, setSink } from './admission-calls.js';

// authority.md, Admission, and effects.md, Cost of not knowing, of a real service: what callers are told, what it costs
// them, and what is left of a batch that never came to be.

const { FAILED, SUCCEEDED } = EffectState;

let rig: TransitionRig;
let world: E2eWorld;
let executor: WorkloadSession;
let reconciler: WorkloadSession;

beforeAll(async () => {
  rig = await TransitionRig.open();
  world = rig.world;
  executor = await world.executor();
  reconciler = await world.reconciler();
  await addHarness(world, { spiffeId: MAILER, harnessId: 'mailer', principalId: 'martin' });
});
afterAll(() => rig?.close());

beforeEach(async () => {
  await setLimits(world);
  await setSink(world);
  await put(world, { case: 'resetBreaker', value: { sink: DEMO_SINK } });
  await nextMinute(rig.clock);
});

/** That calls are refused like this, and that nobody pays for it. */
async function expectHeld(
  calls: readonly (() => Promise<unknown>)[],
  told: object,
  quota: string | undefined,
) {
  const before = await fingerprint(world.sql);
  const refusals: SuretyError[] = [];
  for (const call of calls) refusals.push(await refusedWith(call()));
  for (const refused of refusals) {
    expect(refused).toMatchObject(told);
    expect(quotaOf(refused)).toBe(quota && `quota/${quota}`);
  }
  expect(await fingerprint(world.sql)).toEqual(before);
}

const failing = async (target: Target): Promise<void> => {
  await rig.done('acknowledge', executor, target, { to: FAILED });
};

describe('quotas', () => {
  test('every kind of ordinary call is told when to come back, and costs nothing; the next minute serves it', async () => {
    await setLimits(world, { actorRequestsPerMinute: 10 });
    const grantId = await world.grant();
    const request = await reservation(world, { grantId });
    const prepared: Target[] = [];
    for (let i = 0; i < 8; i += 1) prepared.push(await rig.prepared());
    expect((await counted(world)).actors).toContainEqual(
      expect.objectContaining({ actor: 'harness:planner', calls: 9, safety_calls: 0 }),
    );
    await rig.move(17_000_001n);
    const calls = [
      () => reserveAs(world, HARNESS, request),
      () => world.publish(),
      () => decide(world, 'order-1', { action: DEMO_ACTION }),
      () => decide(world, 'no effect'),
      () => rig.done('start', executor, prepared[0] as Target),
    ];
    const told = {
      code: 'RESOURCE_EXHAUSTED',
      reason: 'QUOTA_EXHAUSTED',
      retryAfterMs: 42_999.999,
      metadata: { limit: '10' },
    };
    await expectHeld(calls, told, 'actor_requests_per_minute');
    expect(await usesOf(world, grantId)).toBe(0);
    // Another actor has its own; the safety lane has no limit.
    await publishAs(world, MAILER);
    for (const { effectId } of prepared.slice(1, 3)) await cancel(world, effectId);
    // Nor can the log be flooded by it: the decision that stands answers.
    const standing = await decide(world, (prepared[3] as Target).effectId);
    const before = await fingerprint(world.sql);
    for (let i = 0; i < 4; i += 1) {
      const { decision, duplicate } = await decide(world, (prepared[3] as Target).effectId);
      expect({ decision, duplicate }).toEqual({ decision: standing.decision, duplicate: true });
    }
    expect(await fingerprint(world.sql)).toEqual(before);

    await rig.move(42_999_999n);
    expect(await reserveAs(world, HARNESS, request)).toMatchObject({ duplicate: false });
    expect(await usesOf(world, grantId)).toBe(1);
    expect((await counted(world)).actors).toContainEqual(
      expect.objectContaining({ actor: 'harness:planner', calls: 1, safety_calls: 0, window_calls: 1 }),
    );
  });

  test('a limit of the domain, with the pending work', async () => {
    await setLimits(world, { pendingCeiling: (await counted(world)).domain.pending + 2 });
    const held = async () => reserveAs(world, HARNESS, await reservation(world, { eventId, grantId }));
    const [eventId, grantId] = [await world.publish(), await world.grant()];
    const [target] = [await rig.executing(executor), await rig.prepared()];
    const told = { code: 'RESOURCE_EXHAUSTED', reason: 'QUOTA_EXHAUSTED', retryAfterMs: 5_000 };
    await expectHeld([held], told, 'pending_work');
    await rig.done('acknowledge', executor, target, { to: SUCCEEDED });
    await held();
  });

  test('recorded denials are refused once the quota is used up, and a stored one is answered', async () => {
    await setLimits(world, { actorRequestsPerMinute: 10 });
    const ask = (n: number) =>
      decide(world, `order-${n}`, { action: 'not.entitled', requestDigest: digest(`${n}`) });
    for (let n = 0; n < 9; n += 1) expect((await ask(n)).decision?.allowed).toBe(false);
    const told = { code: 'RESOURCE_EXHAUSTED', reason: 'QUOTA_EXHAUSTED', retryAfterMs: 60_000 };
    await expectHeld([() => ask(9), () => ask(10)], told, 'actor_requests_per_minute');
    const before = await fingerprint(world.sql);
    expect((await ask(3)).decision?.allowed).toBe(false);
    expect(await fingerprint(world.sql)).toEqual(before);
  });

  test('one who is ahead of others is held till the next window', async () => {
    await setLimits(world, { fairnessBurst: 3 });
    await rig.move(4_000_000n);
    await publishAs(world, MAILER);
    for (let i = 0; i < 4; i += 1) await world.publish();
    const told = {
      code: 'RESOURCE_EXHAUSTED',
      reason: 'FAIRNESS_HOLD',
      retryAfterMs: 6_000,
      metadata: { limit: '3' },
    };
    await expectHeld([() => world.publish()], told, 'fairness_burst');
    await publishAs(world, MAILER);
    await world.publish();
    await rig.move(6_000_000n);
    for (let i = 0; i < 9; i += 1) await world.publish();
  });

  test('an event that too many led to: coming back does not help', async () => {
    await setLimits(world, { maxHops: 1 });
    const parentEventId = await publishAs(world, HARNESS, { parentEventId: await world.publish() });
    const refused = await refusedWith(publishAs(world, HARNESS, { parentEventId }));
    expect(refused).toMatchObject({
      code: 'RESOURCE_EXHAUSTED',
      reason: 'QUOTA_EXHAUSTED',
      retryAfterMs: undefined,
    });
    expect(quotaOf(refused)).toBe('quota/event_hops');
  });
});

describe('a sink about which too much is not known', () => {
  const reserving = () => rig.prepared();
  const told = { code: 'RESOURCE_EXHAUSTED', reason: 'UNKNOWN_CEILING', retryAfterMs: 30_000 };

  async function settle(...targets: readonly Target[]): Promise<void> {
    for (const target of targets) await rig.done('reconcile', reconciler, target, { to: SUCCEEDED });
  }

  test('takes nothing new until a reconciler has settled something', async () => {
    await setSink(world, { unknownCeiling: 2 });
    const [first, second] = [await rig.unknown(executor), await rig.unknown(executor)];
    const metadata = { rule: 'count', sink: DEMO_SINK };
    await expectHeld([reserving], { ...told, metadata }, 'unknown_ceiling');
    await settle(first);
    const third = await rig.unknown(executor);
    await expectHeld([reserving], { ...told, metadata }, 'unknown_ceiling');
    await setSink(world, { unknownCeiling: 3 });
    await rig.prepared();
    await settle(second, third);
    expect((await counted(world)).sink?.unknown).toBe(0);
  });

  test('nor while one is UNKNOWN for longer than the objective: the oldest that is left', async () => {
    await setSink(world, { unknownAge: durationFromMs(90_000) });
    const older = await rig.unknown(executor);
    await rig.move(30_000_000n);
    const younger = await rig.unknown(executor);
    await rig.move(60_000_000n);
    await rig.prepared();
    await rig.move(1n);
    const metadata = { rule: 'age', sink: DEMO_SINK };
    await expectHeld([reserving], { ...told, metadata }, 'unknown_age');
    await settle(older);
    await rig.prepared();
    await rig.move(30_000_000n);
    await expectHeld([reserving], { ...told, metadata }, 'unknown_age');
    await settle(younger);
    await rig.prepared();
  });
});

describe('a circuit breaker', () => {
  const RESET_MS = 120_000;
  const reserving = () => rig.prepared();
  const open = { code: 'UNAVAILABLE', reason: 'CIRCUIT_OPEN', metadata: { sink: DEMO_SINK } };

  /** Opens the breaker. Answers effects that were reserved before. */
  async function opened(count: number): Promise<Target[]> {
    await setSink(world, { breakerThreshold: 2, breakerReset: durationFromMs(RESET_MS) });
    const prepared: Target[] = [];
    for (let i = 0; i < count; i += 1) prepared.push(await rig.prepared());
    for (let i = 0; i < 2; i += 1) await failing(await rig.executing(executor));
    expect((await counted(world)).sink).toMatchObject({ breaker: 'open', opened_at: String(rig.now) });
    return prepared;
  }
  const starting = (target: Target) => () => rig.done('start', executor, target);

  test('opens, is tried by one execution, opens anew, is tried again and closes', async () => {
    const [first, second, third] = (await opened(3)) as [Target, Target, Target];
    await rig.move(50_000_000n);
    await expectHeld([reserving, starting(first)], { ...open, retryAfterMs: RESET_MS - 50_000 }, undefined);
    await rig.move(70_000_000n);
    await starting(first)();
    await expectHeld([reserving, starting(second)], { ...open, retryAfterMs: RESET_MS }, undefined);
    await rig.done('markUnknown', executor, first);
    expect((await counted(world)).sink).toMatchObject({ breaker: 'open', opened_at: String(rig.now) });
    await expectHeld([starting(second)], { ...open, retryAfterMs: RESET_MS }, undefined);
    await rig.move(BigInt(RESET_MS) * 1000n);
    // How the doubt about the first one ends closes nothing.
    await rig.done('reconcile', reconciler, first, { to: SUCCEEDED });
    expect((await counted(world)).sink).toMatchObject({ breaker: 'open' });
    await starting(second)();
    await expectHeld([starting(third)], open, undefined);
    await rig.done('acknowledge', executor, second, { to: SUCCEEDED });
    expect((await counted(world)).sink).toMatchObject({
      breaker: 'closed',
      failures: 0,
      probe_effect_id: null,
    });
    await starting(third)();
    await rig.prepared();
  });

  test.each(['in-commit-1', 'in-commit-4', 'before-commit'])(
    'is left open by a probe whose process dies at %s; the next one tries, with the exact call',
    async (seam) => {
      const [target] = (await opened(1)) as [Target];
      await rig.move(BigInt(RESET_MS) * 1000n);
      const victim = await world.startReplica({ SURETY_FAULT: `${seam}:crash@effect.start` });
      const request = rig.request('start', executor, target);
      const before = await fingerprint(world.sql);
      await refusedWith(rig.send('start', request, world.channel(executor.registration.spiffeId, victim)));
      expect(await victim.ended).toBe('SIGKILL');
      expect(await fingerprint(world.sql)).toEqual(before);
      expect((await counted(world)).sink).toMatchObject({ breaker: 'open', probe_effect_id: null });
      expect((await rig.send('start', request, executor.channel)).duplicate).toBe(false);
      const tried = (await counted(world)).sink;
      expect(tried).toMatchObject({ breaker: 'half_open', probe_effect_id: target.effectId });
      // The exact repeat is answered, and is no second probe.
      expect((await rig.send('start', request, executor.channel)).duplicate).toBe(true);
      expect((await counted(world)).sink).toEqual(tried);
      await rig.done('acknowledge', executor, target, { to: SUCCEEDED });
    },
  );

  test('a batch that fails and is tried again makes one probe', async () => {
    const [target, other] = (await opened(2)) as [Target, Target];
    await rig.move(BigInt(RESET_MS) * 1000n);
    const replica = await world.startReplica({ SURETY_FAULT: 'before-commit:error@effect.start' });
    const request = rig.request('start', executor, target);
    const answer = await rig.send('start', request, world.channel(executor.registration.spiffeId, replica));
    expect(answer.duplicate).toBe(false);
    expect((await counted(world)).sink).toMatchObject({
      breaker: 'half_open',
      probe_effect_id: target.effectId,
    });
    await expectHeld([starting(other)], open, undefined);
    await rig.done('acknowledge', executor, target, { to: SUCCEEDED });
    expect((await counted(world)).sink).toMatchObject({ breaker: 'closed' });
  });
});

test('after all that, every counter is what counting the rows comes to', async () => {
  await expectSound(world.sql);
});

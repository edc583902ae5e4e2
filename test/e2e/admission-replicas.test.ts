import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { AdminSession, Mutation } from '../../src/cli/client/admin-session.js';
import type { Channel } from '../../src/cli/client/service-client.js';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import { OperatorRole } from '../../src/gen/surety/authority/v1/records_pb.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { WorkloadRole } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { expectSound, fingerprint } from '../fault/store-invariants.js';
import { findingsOfLog, put, reservation, WHOLE_LOG } from '../support/e2e-parties.js';
import { ACME, type E2eWorld, GLOBEX, SERVICE_DOMAIN } from '../support/e2e-world.js';
import { type LivingHarness, type LivingOperator, ReplicatedWorld } from '../support/replicated-world.js';
import { StillClock } from '../support/still-clock.js';
import { counted, nextMinute, setLimits, setSink } from './admission-calls.js';
import { AdmissionCrowd } from './admission-crowd.js';

// authority.md, Admission, under two replicas: one domain has one count, whoever is asked.

const { EFFECT_EXECUTOR, EFFECT_RECONCILER } = WorkloadRole;
const { SUCCEEDED } = EffectState;

let living: ReplicatedWorld;
let world: E2eWorld;
let clock: StillClock;
let harnesses: LivingHarness[];
let executors: WorkloadSession[][];
let reconcilers: WorkloadSession[][];
let operator: LivingOperator;

/** A workload that goes by the clock that stands. */
async function worker(role: WorkloadRole.EFFECT_EXECUTOR | WorkloadRole.EFFECT_RECONCILER) {
  const now = (): number => Number(clock.now / 1000n);
  return (await living.newWorkload(role)).map(
    ({ channel, registration, key, service }) =>
      new WorkloadSession(channel, registration, key, service, now),
  );
}

beforeAll(async () => {
  living = await ReplicatedWorld.open({
    env: { SURETY_SWEEP_INTERVAL_MS: '3600000' },
    prepare: async (sql) => void (clock = await StillClock.install(sql)),
  });
  world = living.world;
  harnesses = [];
  while (harnesses.length < 8) harnesses.push(await living.newHarness());
  executors = await Promise.all(Array.from({ length: 4 }, () => worker(EFFECT_EXECUTOR)));
  reconcilers = await Promise.all(Array.from({ length: 2 }, () => worker(EFFECT_RECONCILER)));
  operator = await living.newOperator([OperatorRole.ADMIN]);
});
afterAll(() => living?.close());

beforeEach(async () => {
  await setLimits(world);
  await setSink(world);
  await put(world, { case: 'resetBreaker', value: { sink: DEMO_SINK } });
  await world.admin.execute(SERVICE_DOMAIN, {
    case: 'setServiceLimit',
    value: { requestsPerMinute: 6_000_000 },
  });
  await setShare(100_000);
  await nextMinute(clock);
});

function setShare(requestsPerMinute: number): Promise<void> {
  return put(world, { case: 'setShare', value: { requestsPerMinute } });
}

/** What was served, or the reason. */
async function wordOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'done';
  } catch (error) {
    if (error instanceof SuretyError && error.reason !== 'INTERNAL') return error.reason;
    throw error;
  }
}

describe('64 callers on two replicas', () => {
  test.each([
    { what: "the domain's share", share: 100, limits: { actorRequestsPerMinute: 60 } },
    { what: "the actors' quotas", share: 10_000, limits: { actorRequestsPerMinute: 21 } },
    { what: 'the pending work', share: 10_000, limits: { pendingMore: 24 } },
  ])(
    'are served up to $what, told when to come back, and counted as they were served',
    async ({ share, limits }) => {
      const { pendingMore, ...others } = { pendingMore: undefined, ...limits };
      const { pending } = (await counted(world)).domain;
      const ceiling = pendingMore === undefined ? {} : { pendingCeiling: pending + pendingMore };
      await setLimits(world, { ...others, ...ceiling });
      await setShare(share);
      const before = (await counted(world)).domain;
      expect(before).toMatchObject({ calls: 0, minute_start: String(clock.now) });

      // 40 for harnesses, one of which is greedier than the others, 16 executors, 8 reconcilers.
      const crowd = new AdmissionCrowd(living, { harnesses, executors, reconcilers });
      await crowd.run({ callers: [12, 4, 4, 4, 4, 4, 4, 4], tries: 6, executorLoops: 2, reconcilerLoops: 2 });

      const after = await counted(world);
      expect(crowd.refused.size, [...crowd.refused].join()).toBeGreaterThan(0);
      expect(after.domain.calls).toBe(crowd.served);
      expect(after.domain.safety_calls - before.safety_calls).toBe(crowd.safety);
      expect(after.domain.calls).toBeLessThanOrEqual(Math.floor(share * 0.9));
      for (const { harnessId } of harnesses) {
        const row = after.actors.find(({ actor }) => actor === `harness:${harnessId}`);
        const { ordinary, safety } = crowd.of(harnessId);
        // A harness that found no room at all has its row of an earlier minute still.
        const current = row?.minute_start === String(clock.now) ? row : { calls: 0, safety_calls: 0 };
        expect(current).toMatchObject({ calls: ordinary, safety_calls: safety });
        // Half of the share, whatever more an actor's own limit allows.
        const part = Math.floor(share / 2);
        expect(ordinary).toBeLessThanOrEqual(
          Math.floor(Math.min(others.actorRequestsPerMinute ?? Infinity, part) * 0.9),
        );
      }
      if (pendingMore !== undefined) expect(crowd.mostPending).toBeLessThanOrEqual(pendingMore);
      await expectSound(world.sql);
    },
  );

  test('whose executions fail: one probe at a time, whichever replica is asked', async () => {
    await setSink(world, { breakerThreshold: 2, breakerReset: { seconds: 60n, nanos: 0 } });
    const crowd = new AdmissionCrowd(living, { harnesses, executors, reconcilers });
    const prepared = await crowd.prepare(24);
    for (const one of prepared.splice(0, 2)) await crowd.execute(one, EffectState.FAILED);
    expect((await counted(world)).sink).toMatchObject({ breaker: 'open' });
    for (const ending of [EffectState.FAILED, SUCCEEDED]) {
      expect(new Set(await crowd.startAll(prepared))).toEqual(new Set(['CIRCUIT_OPEN']));
      await clock.move(60_000_000n);
      const words = await crowd.startAll(prepared);
      expect(words.filter((word) => word === 'done')).toHaveLength(1);
      expect(words.filter((word) => word === 'CIRCUIT_OPEN')).toHaveLength(prepared.length - 1);
      const [probe] = prepared.splice(words.indexOf('done'), 1);
      if (!probe) throw new Error('no probe');
      expect((await counted(world)).sink).toMatchObject({
        breaker: 'half_open',
        probe_effect_id: probe.effectId,
      });
      await crowd.end(probe, ending);
    }
    expect((await counted(world)).sink).toMatchObject({ breaker: 'closed', failures: 0 });
    expect(new Set(await crowd.startAll(prepared))).toEqual(new Set(['done']));
    await expectSound(world.sql);
  });

  test('a greedy one never keeps a modest one from being served', async () => {
    await setLimits(world, { fairnessBurst: 3 });
    const [greedy, modest] = harnesses as [LivingHarness, LivingHarness];
    const enough = new AbortController();
    const words: string[] = [];
    const loops = Array.from({ length: 16 }, async (_, i) => {
      while (!enough.signal.aborted)
        words.push(await wordOf(living.reserve(greedy, greedy.channels[i % 2] as Channel)));
    });
    const modestWords: string[] = [];
    for (let i = 0; i < 20; i += 1) {
      modestWords.push(await wordOf(living.reserve(modest, modest.channels[i % 2] as Channel)));
    }
    enough.abort();
    await Promise.all(loops);
    expect(modestWords).toEqual(Array(20).fill('done'));
    expect(new Set(words)).toEqual(new Set(['done', 'FAIRNESS_HOLD']));
    const rows = (await counted(world)).actors;
    const callsOf = ({ harnessId }: LivingHarness) =>
      rows.find(({ actor }) => actor === `harness:${harnessId}`);
    expect(callsOf(modest)).toMatchObject({ window_calls: 20 });
    expect(callsOf(greedy)?.window_calls).toBe(words.filter((word) => word === 'done').length);
    await expectSound(world.sql);
  });
});

test('a repeat on either replica moves no counter, also where nothing else would be served', async () => {
  const [harness] = harnesses as [LivingHarness];
  const { eventId, grantId } = harness;
  const wish = await reservation(world, { eventId, grantId, effectKey: randomUUID() });
  const reserve = (channel: Channel) => channel.service(EffectService).reserveEffect(wish);
  const { effectId } = await reserve(harness.channels[0] as Channel);
  const [first, second] = executors[0] as [WorkloadSession, WorkloadSession];
  const attemptId = `attempt-${randomUUID()}`;
  const start = await first.start(await first.look(effectId), attemptId);
  await first.channel.service(EffectService).startExecution(start);
  await setLimits(world, { actorRequestsPerMinute: 10, pendingCeiling: 1 });
  while ((await wordOf(living.publish(harness.channels[0] as Channel))) === 'done');
  let before = await fingerprint(world.sql);
  for (const [i, session] of [first, second].entries()) {
    expect(await reserve(harness.channels[i] as Channel)).toMatchObject({ effectId, duplicate: true });
    const { result } = await session.channel.service(EffectService).startExecution(start);
    expect(result).toMatchObject({ duplicate: true });
  }
  expect(await fingerprint(world.sql)).toEqual(before);
  const ended = await first.acknowledge(await first.look(effectId), SUCCEEDED, {
    attemptId,
    receiptId: `receipt-${effectId}`,
    receipt: 'done',
  });
  await first.channel.service(EffectService).acknowledgeTerminal(ended);
  before = await fingerprint(world.sql);
  for (const session of [first, second]) {
    const { result } = await session.channel.service(EffectService).acknowledgeTerminal(ended);
    expect(result).toMatchObject({ duplicate: true });
  }
  expect(await fingerprint(world.sql)).toEqual(before);
});

test('a limit that a command has changed holds at the very next call, on both replicas', async () => {
  const [harness] = harnesses as [LivingHarness];
  const publishOn = (i: number) => wordOf(living.publish(harness.channels[i] as Channel));
  for (let round = 0; round < 4; round += 1) {
    const session = operator.sessions[round % 2] as AdminSession;
    const set = (actorRequestsPerMinute: number) =>
      session.execute(ACME, { case: 'setLimits', value: { actorRequestsPerMinute } });
    for (let i = 0; i < 9; i += 1) expect(await publishOn(i % 2)).toBe('done');
    await set(10);
    expect([await publishOn(0), await publishOn(1)]).toEqual(['QUOTA_EXHAUSTED', 'QUOTA_EXHAUSTED']);
    await set(13);
    expect([await publishOn(1), await publishOn(0)]).toEqual(['done', 'done']);
    expect([await publishOn(1), await publishOn(0)]).toEqual(['QUOTA_EXHAUSTED', 'QUOTA_EXHAUSTED']);
    await set(100_000);
    await nextMinute(clock);
  }
});

describe('shares', () => {
  const [A, B] = [ACME, GLOBEX];
  const shareOf = async (domainId: string): Promise<number> => {
    const { rows } = await world.sql.query('SELECT requests_per_minute FROM domains WHERE domain_id = $1', [
      domainId,
    ]);
    return rows[0].requests_per_minute;
  };
  const standing = async (): Promise<{ sum: number; limit: number }> => {
    const { rows } = await world.sql.query(
      'SELECT (SELECT sum(requests_per_minute)::int FROM domains) AS sum, requests_per_minute AS limit FROM service_state',
    );
    return rows[0];
  };
  const share = (requestsPerMinute: number): Mutation => ({ case: 'setShare', value: { requestsPerMinute } });
  const limit = (requestsPerMinute: number): Mutation => ({
    case: 'setServiceLimit',
    value: { requestsPerMinute },
  });
  const [one, two] = [0, 1] as const;
  const execute = (replica: 0 | 1, domainId: string, mutation: Mutation) =>
    wordOf((operator.sessions[replica] as AdminSession).execute(domainId, mutation));

  test('two domains that take the last of it at the same moment on two replicas: one gets it', async () => {
    for (let round = 0; round < 12; round += 1) {
      for (const domainId of [A, B]) expect(await execute(one, domainId, share(1_000))).toBe('done');
      const given = (await standing()).sum;
      expect(await execute(two, SERVICE_DOMAIN, limit(given + 500))).toBe('done');
      const words = await Promise.all([execute(one, A, share(1_400)), execute(two, B, share(1_400))]);
      expect(words.sort()).toEqual(['FIELD_INVALID', 'done']);
      expect([await shareOf(A), await shareOf(B)].sort()).toEqual([1_000, 1_400]);
      expect(await standing()).toEqual({ sum: given + 400, limit: given + 500 });
    }
  });

  test('a share that is raised while the limit is lowered: the sum stays within it', async () => {
    for (let round = 0; round < 6; round += 1) {
      expect(await execute(one, A, share(1_000))).toBe('done');
      const { sum } = await standing();
      expect(await execute(one, SERVICE_DOMAIN, limit(sum + 500))).toBe('done');
      const words = await Promise.all([
        execute(one, A, share(1_400)),
        execute(two, SERVICE_DOMAIN, limit(sum + 100)),
        execute(two, SERVICE_DOMAIN, {
          case: 'createDomain',
          value: { domainId: `made-${round}.test`, requestsPerMinute: 450 },
        }),
      ]);
      expect(words).toContain('done');
      const after = await standing();
      expect(after.sum).toBeLessThanOrEqual(after.limit);
    }
  });
});

test('after all that, the log is whole, and every counter is what counting the rows comes to', async () => {
  expect((await counted(world)).sink).toMatchObject({ breaker: 'closed' });
  expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
  await expectSound(world.sql);
});

import { describe, expect, test } from 'vitest';
import { sha256 } from '../../../src/ledger/encoding.js';
import { registerOrigin } from '../../../src/ledger/provenance/register-origin.js';
import { consumeNonce } from '../../../src/ledger/replay/consume-nonce.js';
import { HOUR, MINUTE, SECOND } from '../../../src/ledger/types.js';
import { DOMAIN, HARNESSES, WORKLOADS } from '../../simulation/cast.js';
import { AdmissionWorld, type Call, HELPER, PLANNER, refusalOf, wordOf } from './admission-world.js';

// authority.md, Admission: requests per minute, per actor and per domain; ordinary calls stop at 90 % of a limit.

/** Calls that a quota refuses, each made ready before anything is counted. */
const ORDINARY: Readonly<Record<string, (world: AdmissionWorld) => Call>> = {
  ReserveEffect: (world) => world.reserving(),
  StartExecution: (world) => world.starting(world.reserved()),
  Decide: (world) => world.deciding(),
  PublishEvent: (world) => world.publishing(),
  RegisterOrigin: (world) => {
    const { command } = world.publishing();
    const { origin } = command as unknown as { origin: object };
    const content = { objectType: 'message', objectId: 'note', version: 1n, predecessorDigest: null };
    const more = { contentDigest: sha256('note'), classification: 2, allowedSinks: ['*'], as: 'harness' };
    return {
      ...world.publishing(),
      decision: registerOrigin,
      command: { ...command, ...content, ...more, origin },
    } as never;
  },
  ConsumeNonce: (world) =>
    ({
      kind: 'consume_nonce',
      decision: consumeNonce,
      command: {
        domainId: DOMAIN,
        commandId: 'cmd-nonce',
        caller: HARNESSES[PLANNER].caller,
        kind: 'harness',
        nonceKey: sha256('nonce'),
        consumptionId: 'verification-0001',
        expiresAt: world.now + HOUR,
      },
    }) as never,
};

/** Calls of the safety lane. */
const SAFETY: Readonly<Record<string, (world: AdmissionWorld) => Call>> = {
  'Decide for effect.cancel': (world) => world.askingToCancel(world.reserved()),
  CancelEffect: (world) => {
    const effectId = world.reserved();
    const asked = world.askingToCancel(effectId);
    world.run(asked);
    return world.cancelling(effectId, (asked.command as unknown as { decisionId: string }).decisionId);
  },
  MarkUnknown: (world) => world.ending(world.started(), 'UNKNOWN'),
  AcknowledgeTerminal: (world) => world.ending(world.started(), 'SUCCEEDED'),
  Reconcile: (world) => {
    const effectId = world.started();
    world.run(world.ending(effectId, 'UNKNOWN'));
    return world.settling(effectId);
  },
};

/** Both quotas far above and below: everything is used up, twice over. */
function useUp(world: AdmissionWorld): void {
  const { store } = world;
  const minuteStart = store.now - (store.now % MINUTE);
  const used = { minuteStart, calls: 100_000, safetyCalls: 100_000 };
  store.head = { ...store.head, counters: { ...store.head.counters, ...used } };
  const actors = [
    ...HARNESSES.map(({ harnessId }) => `harness:${harnessId}`),
    `caller:${HARNESSES[PLANNER].caller.spiffeId}`,
  ];
  for (const actor of actors)
    store.put('actor_counters', { actor, ...used, windowStart: 0n, windowCalls: 0 });
}

describe('ordinary calls of a minute', () => {
  const LIMITS = [10, 11, 15, 19, 99, 101, 1_000];

  test.each(LIMITS)('of a domain: nine tenths of %i, rounded down, and not one more', (limit) => {
    const world = new AdmissionWorld({ requestsPerMinute: limit });
    const most = Math.floor(limit * 0.9);
    // Others have made all but one: nobody here comes near its own quota.
    const { store } = world;
    const minuteStart = store.now - (store.now % MINUTE);
    store.head = {
      ...store.head,
      counters: { ...store.head.counters, minuteStart, calls: most - 1 },
    };
    expect(world.word(world.reserving())).toBe('done');
    const before = world.whole();
    for (const who of [PLANNER, HELPER] as const) {
      expect(refusalOf(world.run(world.reserving(who)))).toMatchObject({
        reason: 'QUOTA_EXHAUSTED',
        metadata: { limit: String(limit) },
        resource: { type: 'quota', name: 'domain_requests_per_minute' },
      });
    }
    expect(world.whole()).toEqual(before);
    expect(world.domainCounters).toMatchObject({ calls: most, safetyCalls: 0, pending: 1 });
  });

  test.each([
    [10, 5],
    [19, 9],
    [20, 10],
    [100, 50],
    [1_001, 500],
    [12_000, 6_000],
  ])('of an actor in a share of %i: as of a limit of %i, whatever its own allows', (share, limit) => {
    for (const actorRequestsPerMinute of [limit + 1, 1_000_000_000]) {
      const world = new AdmissionWorld({ requestsPerMinute: share, actorRequestsPerMinute });
      const most = Math.floor(limit * 0.9);
      const { store } = world;
      const minuteStart = store.now - (store.now % MINUTE);
      store.head = { ...store.head, counters: { ...store.head.counters, minuteStart, calls: most - 1 } };
      store.put('actor_counters', { ...world.actor(), minuteStart, calls: most - 1 });
      expect(world.word(world.reserving())).toBe('done');
      expect(refusalOf(world.run(world.reserving()))).toMatchObject({
        reason: 'QUOTA_EXHAUSTED',
        metadata: { limit: String(limit) },
        resource: { type: 'quota', name: 'actor_requests_per_minute' },
      });
      expect(world.word(world.reserving(HELPER))).toBe('done');
    }
  });

  test('a greedy actor does not starve another in a domain of a small share', () => {
    const world = new AdmissionWorld({ requestsPerMinute: 100 });
    while (world.word(world.reserving()) === 'done');
    for (let i = 0; i < 45; i += 1) expect(world.word(world.reserving(HELPER))).toBe('done');
  });

  test.each(LIMITS)('of an actor: nine tenths of %i, and another has its own', (limit) => {
    const world = new AdmissionWorld({ actorRequestsPerMinute: limit });
    const most = Math.floor(limit * 0.9);
    for (let i = 0; i < most; i += 1) expect(world.word(world.reserving())).toBe('done');
    const before = world.whole();
    expect(refusalOf(world.run(world.reserving()))).toMatchObject({
      reason: 'QUOTA_EXHAUSTED',
      metadata: { limit: String(limit) },
      resource: { type: 'quota', name: 'actor_requests_per_minute' },
    });
    expect(world.whole()).toEqual(before);
    expect(world.word(world.reserving(HELPER))).toBe('done');
    expect([world.actor(PLANNER).calls, world.actor(HELPER).calls]).toEqual([most, 1]);
  });

  test.each([10, 11, 101])('in one batch as one by one: %i', (limit) => {
    const world = new AdmissionWorld({ actorRequestsPerMinute: limit });
    const calls = Array.from({ length: limit + 1 }, () => world.reserving());
    const words = world.batch(calls).map(wordOf);
    const most = Math.floor(limit * 0.9);
    expect(words.lastIndexOf('done')).toBe(most - 1);
    expect(words.indexOf('QUOTA_EXHAUSTED')).toBe(most);
  });

  test.each([
    [0n, 60n * SECOND],
    [1n, 60n * SECOND - 1n],
    [17n * SECOND + 1n, 43n * SECOND - 1n],
    [60n * SECOND - 1n, 1n],
  ])('that are refused %i µs into the minute may come again when it is over', (into, retryAfter) => {
    const world = new AdmissionWorld({ actorRequestsPerMinute: 10 });
    world.wait(into);
    for (let i = 0; i < 9; i += 1) world.run(world.reserving());
    expect(refusalOf(world.run(world.reserving())).retryAfter).toBe(retryAfter);
    world.wait(retryAfter - 1n);
    if (retryAfter > 1n) expect(world.word(world.reserving())).toBe('QUOTA_EXHAUSTED');
    world.wait(1n);
    expect(world.word(world.reserving())).toBe('done');
    expect(world.actor()).toMatchObject({ calls: 1, safetyCalls: 0, minuteStart: world.now });
    expect(world.domainCounters).toMatchObject({ calls: 1, safetyCalls: 0, minuteStart: world.now });
  });

  test('are counted for the actor who reserved, also when an executor starts', () => {
    const world = new AdmissionWorld();
    const effectId = world.reserved(HELPER);
    world.run(world.starting(effectId));
    expect(world.actor(HELPER)).toMatchObject({ calls: 2 });
    expect(world.actor(PLANNER)).toMatchObject({ calls: 0 });
    expect(world.store.all('actor_counters').map(({ actor }) => actor)).not.toContain(
      `caller:${WORKLOADS[0].caller.spiffeId}`,
    );
  });

  describe.each(Object.entries(ORDINARY))('%s', (_name, make) => {
    test('is counted once, for the domain and for its actor', () => {
      const world = new AdmissionWorld();
      const call = make(world);
      world.forgetCalls();
      expect(world.word(call)).toBe('done');
      expect(world.domainCounters).toMatchObject({ calls: 1, safetyCalls: 0 });
      const counted = world.store.all('actor_counters').filter(({ calls }) => calls > 0);
      expect(counted).toMatchObject([{ calls: 1, safetyCalls: 0, windowCalls: 1 }]);
    });

    test('is refused where the quota is used up, and nothing is written', () => {
      const world = new AdmissionWorld();
      const call = make(world);
      useUp(world);
      const before = world.whole();
      expect(world.word(call)).toBe('QUOTA_EXHAUSTED');
      expect(world.whole()).toEqual(before);
    });
  });

  test.each(['ReserveEffect', 'StartExecution', 'PublishEvent', 'RegisterOrigin', 'ConsumeNonce'])(
    'a repeat of %s touches nothing, also where the quota is used up',
    (name) => {
      const world = new AdmissionWorld();
      const call = (ORDINARY[name] as (world: AdmissionWorld) => Call)(world);
      expect(world.word(call)).toBe('done');
      useUp(world);
      const before = world.whole();
      expect(world.run(call)).toMatchObject({ ok: true, reply: { duplicate: true } });
      expect(world.whole()).toEqual(before);
    },
  );
});

describe('the safety lane', () => {
  describe.each(Object.entries(SAFETY))('%s', (_name, make) => {
    test('is counted as what it is', () => {
      const world = new AdmissionWorld();
      const call = make(world);
      world.forgetCalls();
      expect(world.word(call)).toBe('done');
      expect(world.domainCounters).toMatchObject({ calls: 0, safetyCalls: 1, served: [] });
      expect(world.actor()).toMatchObject({ calls: 0, safetyCalls: 1, windowCalls: 0 });
    });

    test('is served above any quota, behind an open breaker and a full ceiling', () => {
      const world = new AdmissionWorld();
      const call = make(world);
      useUp(world);
      world.limit({ requestsPerMinute: 10, actorRequestsPerMinute: 10, pendingCeiling: 1, fairnessBurst: 1 });
      world.changeSink({ unknownCeiling: 1, unknownAge: 1n });
      world.store.put('sink_counters', { ...world.sink(), breaker: 'open', openedAt: world.now });
      expect(world.word(call)).toBe('done');
      expect(world.domainCounters).toMatchObject({ calls: 100_000, safetyCalls: 100_001 });
    });
  });

  test("a signed command is counted for the domain, and is no actor's", () => {
    const world = new AdmissionWorld();
    useUp(world);
    const actors = world.store.all('actor_counters');
    expect(world.word(world.commanding({ kind: 'bump_revocation_epoch' } as never))).toBe('done');
    expect(world.domainCounters).toMatchObject({ calls: 100_000, safetyCalls: 100_001 });
    expect(world.store.all('actor_counters')).toEqual(actors);
  });

  test('late evidence is counted with its record', () => {
    const world = new AdmissionWorld();
    const effectId = world.started();
    const late = world.ending(effectId, 'FAILED');
    world.run(world.ending(effectId, 'UNKNOWN'));
    useUp(world);
    expect(world.word(late)).toBe('EFFECT_MUST_RECONCILE');
    expect(world.effect(effectId).lateEvidenceCount).toBe(1);
    expect(world.domainCounters).toMatchObject({ safetyCalls: 100_001 });
    const before = world.whole();
    expect(world.word(late)).toBe('EFFECT_MUST_RECONCILE');
    expect(world.whole()).toEqual(before);
  });

  test('takes nothing from ordinary calls, however much it uses', () => {
    const world = new AdmissionWorld({ actorRequestsPerMinute: 20 });
    const effects = Array.from({ length: 30 }, () => {
      world.forgetCalls();
      return world.reserved();
    });
    world.forgetCalls();
    for (const effectId of effects) expect(world.word(world.askingToCancel(effectId))).toBe('done');
    // 18 is the ordinary part of 20.
    for (let i = 0; i < 18; i += 1) expect(world.word(world.reserving())).toBe('done');
    expect(world.word(world.reserving())).toBe('QUOTA_EXHAUSTED');
    for (const effectId of effects) expect(world.word(world.askingToCancel(effectId))).toBe('done');
    // Asked once more they are answered from the decisions that stand.
    expect(world.actor()).toMatchObject({ calls: 18, safetyCalls: 30 });
  });

  test('is not for a cancel that is denied: that is an ordinary call, and not recorded where none is left', () => {
    const world = new AdmissionWorld({ actorRequestsPerMinute: 20 });
    world.revokeEntitlement('effect.cancel');
    for (let i = 0; i < 18; i += 1) world.run(world.askingToCancel(`effect-${i}`));
    expect(world.actor()).toMatchObject({ calls: 18, safetyCalls: 0 });
    const before = world.whole();
    expect(world.word(world.askingToCancel('effect-18'))).toBe('QUOTA_EXHAUSTED');
    expect(world.whole()).toEqual(before);
  });

  test('a refused call of it is not counted', () => {
    const world = new AdmissionWorld();
    const effectId = world.reserved();
    const before = world.whole();
    expect(world.word(world.cancelling(effectId, ''))).toBe('DECISION_NOT_USABLE');
    expect(world.whole()).toEqual(before);
  });
});

describe('recorded denials', () => {
  /** A guest has no entitlement, and so is denied whatever needs one; a grant is needed and none is named. */
  const denied = (world: AdmissionWorld, resource: string): Call => world.deciding(HELPER, { resource });

  test('count like any call, and are not even recorded once the quota is used up', () => {
    const world = new AdmissionWorld({ actorRequestsPerMinute: 10 });
    for (let i = 0; i < 9; i += 1) {
      expect(world.run(denied(world, `order-${i}`))).toMatchObject({
        ok: true,
        reply: { duplicate: false, decision: { allowed: false } },
      });
    }
    expect(world.actor(HELPER).calls).toBe(9);
    const before = world.whole();
    expect(world.word(denied(world, 'another order'))).toBe('QUOTA_EXHAUSTED');
    expect(world.whole()).toEqual(before);
  });

  test('the same within 60 s costs nothing, also where the quota is used up; after 60 s it is another', () => {
    const world = new AdmissionWorld({ actorRequestsPerMinute: 10 });
    world.wait(MINUTE - SECOND);
    const first = denied(world, 'order-9');
    world.run(first);
    useUp(world);
    const before = world.whole();
    world.wait(SECOND / 2n);
    expect(world.run(world.again(first))).toMatchObject({ ok: true, reply: { duplicate: true } });
    expect(world.whole()).toEqual(before);
    world.wait(60n * SECOND);
    expect(world.run(world.again(first))).toMatchObject({ ok: true, reply: { duplicate: false } });
    expect(world.actor(HELPER).calls).toBe(1);
  });

  test('those of a reservation: a grant that is exhausted', () => {
    const world = new AdmissionWorld({ actorRequestsPerMinute: 10 });
    const [grant] = world.store.all('grants').slice(-2);
    if (!grant) throw new Error('no grant');
    world.store.put('grants', { ...grant, uses: grant.maxUses });
    const over = { grantId: grant.grantId };
    for (let i = 0; i < 9; i += 1) expect(world.word(world.reserving(PLANNER, over))).toBe('GRANT_EXHAUSTED');
    expect(world.store.all('decisions').filter(({ allowed }) => !allowed)).toHaveLength(9);
    expect(world.actor()).toMatchObject({ calls: 9, safetyCalls: 0 });
    const before = world.whole();
    expect(world.word(world.reserving(PLANNER, over))).toBe('QUOTA_EXHAUSTED');
    expect(world.whole()).toEqual(before);
  });

  test('the same reservation denied again is answered from the stored denial', () => {
    const world = new AdmissionWorld();
    const [grant] = world.store.all('grants').slice(-2);
    if (!grant) throw new Error('no grant');
    world.store.put('grants', { ...grant, uses: grant.maxUses });
    const call = world.reserving(PLANNER, { grantId: grant.grantId });
    expect(world.word(call)).toBe('GRANT_EXHAUSTED');
    useUp(world);
    const before = world.whole();
    expect(world.word(call)).toBe('GRANT_EXHAUSTED');
    expect(world.whole()).toEqual(before);
  });
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type ActorKey,
  admitCall,
  countSafetyCall,
  harnessActor,
} from '../../../src/ledger/admission/admit-call.js';
import { DEFAULT_LIMITS, FAIRNESS_WINDOW } from '../../../src/ledger/admission/limits.js';
import { type ActorCounterRow, NO_COUNTS, type ServedActors } from '../../../src/ledger/admission/records.js';
import type { Refusal } from '../../../src/ledger/refusal.js';
import { SECOND } from '../../../src/ledger/types.js';
import { Draft } from '../../../src/ledger/working-set.js';
import { FIXTURE_NOW, workingSet } from '../../support/ledger-fixture.js';

// authority.md, Admission: in each 10 s window an actor gets at most a burst more calls than the least served active one.

const ACTORS = ['a', 'b', 'c', 'd', 'e'].map(harnessActor);

/** Actors of one domain whose calls are admitted one by one; quotas are far away. */
class Domain {
  now = FIXTURE_NOW;
  counters = NO_COUNTS;
  readonly rows = new Map<string, ActorCounterRow>();

  constructor(
    readonly fairnessBurst: number,
    readonly requestsPerMinute = DEFAULT_LIMITS.requestsPerMinute,
  ) {}

  call(actor: ActorKey, kind: 'ordinary' | 'safety' = 'ordinary'): Refusal | undefined {
    const set = workingSet({
      now: this.now,
      head: { counters: this.counters },
      domain: {
        limits: {
          ...DEFAULT_LIMITS,
          fairnessBurst: this.fairnessBurst,
          requestsPerMinute: this.requestsPerMinute,
        },
      },
      rows: { actor_counters: [...this.rows.values()] },
      absent: { actor_counters: ACTORS.map((one) => [one]) },
    });
    const draft = new Draft(set);
    const refused = kind === 'safety' ? countSafetyCall(draft, actor) : admitCall(draft, actor);
    if (refused) return refused;
    set.apply(draft);
    this.counters = set.head.counters;
    const row = set.get('actor_counters', actor);
    if (row) this.rows.set(actor, row);
    return undefined;
  }

  /** How many calls an actor makes until it is held. */
  callsOf(actor: ActorKey): number {
    for (let made = 0; ; made += 1) if (made === 1_000 || this.call(actor)) return made;
  }
}

const [A, B, C] = ACTORS as [ActorKey, ActorKey, ActorKey];

describe('the rule', () => {
  test('an actor that is alone is never held', () => {
    expect(new Domain(1).callsOf(A)).toBe(1_000);
  });

  test.each([1, 2, 7])('burst %i: at most so many more than the least served, who is never held', (burst) => {
    const domain = new Domain(burst);
    domain.call(B);
    expect(domain.callsOf(A)).toBe(1 + burst);
    expect(domain.call(A)).toMatchObject({
      reason: 'FAIRNESS_HOLD',
      metadata: { limit: String(burst) },
      resource: { type: 'quota', name: 'fairness_burst' },
    });
    // One more of the modest one lets the greedy one go one further.
    for (let i = 0; i < 20; i += 1) {
      expect(domain.call(B)).toBeUndefined();
      expect(domain.callsOf(A)).toBe(1);
    }
  });

  test.each([
    [10, 1],
    [100, 9],
    [600, 50],
    [6_000, 500],
  ])('in a share of %i the burst is at most %i: the quota spread over the windows', (share, burst) => {
    const domain = new Domain(1_000, share);
    domain.call(B);
    expect(domain.callsOf(A)).toBe(1 + burst);
    expect(domain.call(A)).toMatchObject({ reason: 'FAIRNESS_HOLD', metadata: { limit: String(burst) } });
  });

  test('who comes late is served, and from then on the others wait for it', () => {
    const domain = new Domain(2);
    for (let i = 0; i < 50; i += 1) domain.call(A);
    expect(domain.call(B)).toBeUndefined();
    expect(domain.call(A)?.reason).toBe('FAIRNESS_HOLD');
    expect(domain.callsOf(B)).toBe(49 + 2);
    expect(domain.call(C)).toBeUndefined();
    expect(domain.call(A)?.reason).toBe('FAIRNESS_HOLD');
    expect(domain.call(B)?.reason).toBe('FAIRNESS_HOLD');
  });

  test.each([
    [0n, FAIRNESS_WINDOW],
    [1n, FAIRNESS_WINDOW - 1n],
    [9_999_999n, 1n],
  ])('who is held %i µs into a window comes again with the next', (into, retryAfter) => {
    const domain = new Domain(1);
    domain.now += into;
    domain.call(B);
    domain.callsOf(A);
    expect(domain.call(A)?.retryAfter).toBe(retryAfter);
    domain.now += retryAfter - 1n;
    expect(domain.call(A)?.reason).toBe('FAIRNESS_HOLD');
    domain.now += 1n;
    expect(domain.callsOf(A)).toBe(1_000);
    expect(domain.counters.served).toEqual([{ calls: 1_000, actors: 1 }]);
  });

  test('the safety lane is neither held nor makes anybody active', () => {
    const domain = new Domain(1);
    for (let i = 0; i < 5; i += 1) expect(domain.call(B, 'safety')).toBeUndefined();
    expect(domain.callsOf(A)).toBe(1_000);
    domain.call(C);
    expect(domain.call(A)?.reason).toBe('FAIRNESS_HOLD');
    expect(domain.call(A, 'safety')).toBeUndefined();
    expect(domain.counters.served).toEqual([
      { calls: 1, actors: 1 },
      { calls: 1_000, actors: 1 },
    ]);
  });

  test('a refusal by a quota does not serve', () => {
    const domain = new Domain(1);
    domain.rows.set(A, {
      actor: A,
      minuteStart: domain.now,
      calls: 1_000_000,
      safetyCalls: 0,
      windowStart: 0n,
      windowCalls: 0,
    });
    expect(domain.call(A)?.reason).toBe('QUOTA_EXHAUSTED');
    expect(domain.counters).toEqual(NO_COUNTS);
  });
});

/** What is said of the window, worked out from every call that was ever served. */
class Naive {
  private served: { readonly actor: string; readonly window: bigint }[] = [];

  constructor(private readonly burst: number) {}

  counts(now: bigint): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { actor, window } of this.served) {
      if (window === now / FAIRNESS_WINDOW) counts.set(actor, (counts.get(actor) ?? 0) + 1);
    }
    return counts;
  }

  call(actor: string, now: bigint): boolean {
    const counts = this.counts(now);
    const mine = counts.get(actor) ?? 0;
    const active = mine === 0 ? [0, ...counts.values()] : [...counts.values()];
    if (mine + 1 > Math.min(...active) + this.burst) return false;
    this.served.push({ actor, window: now / FAIRNESS_WINDOW });
    return true;
  }

  histogram(now: bigint): ServedActors[] {
    const calls = [...this.counts(now).values()];
    return [...new Set(calls)]
      .sort((a, b) => a - b)
      .map((count) => ({ calls: count, actors: calls.filter((one) => one === count).length }));
  }
}

describe('any calls of any actors', () => {
  const step = fc.oneof(
    { weight: 12, arbitrary: fc.record({ actor: fc.nat(ACTORS.length - 1) }) },
    {
      weight: 1,
      arbitrary: fc.record({ wait: fc.constantFrom(1n, SECOND, 9n * SECOND, 10n * SECOND, 35n * SECOND) }),
    },
  );

  test('are held exactly where counting all of them says so, and the histogram is always their counts', () => {
    let held = 0;
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 4 }),
        fc.array(step, { maxLength: 120, size: 'max' }),
        (burst, steps) => {
          const domain = new Domain(burst);
          const naive = new Naive(burst);
          for (const one of steps) {
            if ('wait' in one) {
              domain.now += one.wait;
              continue;
            }
            const actor = ACTORS[one.actor] as ActorKey;
            const refused = domain.call(actor);
            expect(refused === undefined).toBe(naive.call(actor, domain.now));
            if (refused) held += 1;
            else expect(domain.counters.served).toEqual(naive.histogram(domain.now));
            expect(domain.rows.get(actor)?.windowCalls).toBe(naive.counts(domain.now).get(actor));
          }
        },
      ),
      { numRuns: 150 },
    );
    expect(held).toBeGreaterThan(100);
  });
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DEFAULT_LIMITS, DEFAULT_SERVICE_REQUESTS_PER_MINUTE } from '../../../src/ledger/admission/limits.js';
import { executeCommand } from '../../../src/ledger/authority/execute-command.js';
import type { Mutation, MutationKind } from '../../../src/ledger/authority/mutations.js';
import {
  command,
  done,
  emptyWorld,
  operatorRow,
  ROOT,
  reasonOf,
  serviceWorld,
} from '../../support/command-fixture.js';
import type { LedgerWorld } from '../../support/ledger-world.js';
import { AdmissionWorld, wordOf } from './admission-world.js';

// authority.md, Admission: limits are rows of the domain, changed by signed command, effective at once.

type Of<K extends MutationKind> = Extract<Mutation, { kind: K }>;

const MOST = 1_000_000_000;

function limits(over: Partial<Of<'set_limits'>>): Of<'set_limits'> {
  const keep = { actorRequestsPerMinute: 0, pendingCeiling: 0, fairnessBurst: 0, maxHops: 0 };
  return { kind: 'set_limits', ...keep, ...over };
}
const share = (requestsPerMinute: number): Mutation => ({ kind: 'set_share', requestsPerMinute });
const serviceLimit = (requestsPerMinute: number): Mutation => ({
  kind: 'set_service_limit',
  requestsPerMinute,
});
const newDomain = (requestsPerMinute: number, newDomainId = 'globex.test'): Mutation => ({
  kind: 'create_domain',
  newDomainId,
  allowStanding: false,
  requestsPerMinute,
});

/** The field that a mutation is refused for. */
function violation(world: LedgerWorld, mutation: Mutation): string {
  const outcome = world.run(executeCommand, command(world, mutation));
  if (outcome.ok) return 'done';
  return outcome.refusal.violations?.map(({ field }) => field).join() ?? outcome.refusal.reason;
}

/** What no refusal may move. */
function standing(world: LedgerWorld): unknown {
  return {
    domain: world.domain,
    log: world.log.length,
    limit: world.serviceLimit,
    made: [...world.otherDomains],
  };
}

describe('the limits of a domain', () => {
  test.each([
    ['actorRequestsPerMinute', 'actor_requests_per_minute', 10, MOST],
    ['pendingCeiling', 'pending_ceiling', 1, MOST],
    ['fairnessBurst', 'fairness_burst', 1, MOST],
    ['maxHops', 'max_hops', 1, 256],
  ] as const)('%s is within its bounds', (name, field, least, most) => {
    const world = emptyWorld();
    for (const value of [least, most]) {
      done(world, limits({ [name]: value }));
      expect(world.domain.limits).toEqual({ ...DEFAULT_LIMITS, [name]: value });
    }
    const before = standing(world);
    for (const value of [least - 1, -1, most + 1].filter((one) => one !== 0)) {
      expect(violation(world, limits({ [name]: value }))).toBe(`command_jws.set_limits.${field}`);
    }
    expect(standing(world)).toEqual(before);
  });

  test('that are wrong are told at once', () => {
    const wrong = { actorRequestsPerMinute: 9, pendingCeiling: -1, fairnessBurst: 3, maxHops: 257 };
    const fields = ['actor_requests_per_minute', 'pending_ceiling', 'max_hops'];
    expect(violation(emptyWorld(), limits(wrong))).toBe(
      fields.map((field) => `command_jws.set_limits.${field}`).join(),
    );
  });

  test('what is 0 stays; all of them at once; each change is a revision of the domain', () => {
    const world = emptyWorld();
    const { revision } = world.domain;
    const all = { actorRequestsPerMinute: 600, pendingCeiling: 50, fairnessBurst: 7, maxHops: 3 };
    expect(done(world, limits(all))).toBe(revision + 1n);
    expect(world.domain.limits).toEqual({ ...DEFAULT_LIMITS, ...all });
    expect(done(world, limits({ maxHops: 4 }))).toBe(revision + 2n);
    expect(world.domain.limits).toEqual({ ...DEFAULT_LIMITS, ...all, maxHops: 4 });
    expect(world.log.at(-1)).toMatchObject({ kind: 'command', record: { type: 'domain' } });
    expect(reasonOf(world, limits(all), { header: { expectedEntityRevision: revision } })).toBe(
      'REVISION_STALE',
    );
  });

  test('an operator of the domain changes them, and not the share', () => {
    const world = emptyWorld();
    world.platformOperators.set(ROOT, operatorRow({ scopeDomainId: world.domainId }));
    done(world, limits({ maxHops: 4 }));
    expect(reasonOf(world, share(100))).toBe('ROLE_MISSING');
    world.platformOperators.set(ROOT, operatorRow());
    done(world, share(100));
    for (const role of ['REGISTRAR', 'FREEZER', 'AUDITOR'] as const) {
      world.platformOperators.set(ROOT, operatorRow({ roles: [role] }));
      for (const mutation of [limits({ maxHops: 9 }), share(90)] as const)
        expect(reasonOf(world, mutation)).toBe('ROLE_MISSING');
    }
    expect(world.domain.limits).toMatchObject({ maxHops: 4, requestsPerMinute: 100 });
  });

  test('a batch behind the command goes by them, for better and for worse', () => {
    const world = new AdmissionWorld({ actorRequestsPerMinute: 10 });
    const nine = world.batch(Array.from({ length: 9 }, () => world.reserving()));
    expect(nine.map(wordOf)).toEqual(Array(9).fill('done'));
    expect(world.word(world.reserving())).toBe('QUOTA_EXHAUSTED');
    expect(world.word(world.commanding(limits({ actorRequestsPerMinute: 12 })))).toBe('done');
    expect(world.word(world.reserving())).toBe('done');
    expect(world.word(world.reserving())).toBe('QUOTA_EXHAUSTED');

    expect(world.word(world.commanding(limits({ actorRequestsPerMinute: 1_000, pendingCeiling: 10 })))).toBe(
      'done',
    );
    expect(world.word(world.reserving())).toBe('QUOTA_EXHAUSTED');
    expect(world.word(world.commanding(limits({ pendingCeiling: 11 })))).toBe('done');
    expect(world.word(world.reserving())).toBe('done');

    expect(world.word(world.commanding(limits({ maxHops: 1 })))).toBe('done');
    const [first, second] = [world.publishing(), world.publishing()];
    world.run(first);
    const idOf = (call: typeof first) => (call.command as unknown as { eventId: string }).eventId;
    const child = { ...second, command: { ...second.command, parentEventId: idOf(first) } };
    expect(world.word(child as never)).toBe('done');
    expect(world.word(world.publishing({ parentEventId: idOf(second) }))).toBe('QUOTA_EXHAUSTED');
    expect(world.word(world.commanding(limits({ maxHops: 2 })))).toBe('done');
    expect(world.word(world.publishing({ parentEventId: idOf(second) }))).toBe('done');
  });

  test('a command stands alone in its batch: nothing in front of it or behind it has read other limits', () => {
    expect(executeCommand.exclusive).toBe(true);
  });
});

describe("the service's limit and the shares of it", () => {
  test('a share is a quota, and with the others within the limit', () => {
    const world = emptyWorld();
    world.serviceLimit = 1_000;
    world.othersShares = 400;
    for (const wrong of [0, 9, -1, MOST + 1, 601])
      expect(violation(world, share(wrong))).toBe('command_jws.set_share.requests_per_minute');
    for (const right of [10, 600]) {
      done(world, share(right));
      expect(world.domain.limits).toEqual({ ...DEFAULT_LIMITS, requestsPerMinute: right });
    }
    // Where others have more than all, by whatever way, nothing is left, and that is what is said.
    world.othersShares = 2_000;
    const outcome = world.run(executeCommand, command(world, share(10)));
    expect(outcome).toMatchObject({ ok: false, refusal: { reason: 'FIELD_INVALID' } });
    expect(JSON.stringify(outcome)).toContain('0 are left');
  });

  test('a new domain has its share, or is not made', () => {
    const world = serviceWorld();
    done(world, share(100));
    world.serviceLimit = 1_000;
    world.othersShares = 400;
    const before = standing(world);
    for (const wrong of [9, 501])
      expect(violation(world, newDomain(wrong))).toBe('command_jws.create_domain.requests_per_minute');
    expect(standing(world)).toEqual(before);
    done(world, newDomain(500));
    expect([...world.otherDomains]).toEqual(['globex.test']);
  });

  test("the limit is the service's own domain's, by an operator of all, never below what is given out", () => {
    expect(reasonOf(emptyWorld(), serviceLimit(10_000_000))).toBe('ROLE_MISSING');
    const world = serviceWorld();
    world.othersShares = 400;
    done(world, share(100));
    for (const wrong of [0, 9, -1, 499, MOST + 1])
      expect(violation(world, serviceLimit(wrong))).toBe('command_jws.set_service_limit.requests_per_minute');
    expect(world.serviceLimit).toBe(DEFAULT_SERVICE_REQUESTS_PER_MINUTE);
    const { revision } = world.domain;
    expect(done(world, serviceLimit(500))).toBe(revision + 1n);
    expect(world.serviceLimit).toBe(500);
    expect(violation(world, share(101))).toBe('command_jws.set_share.requests_per_minute');
    world.add('operators', operatorRow({ scopeDomainId: world.domainId }));
    for (const mutation of [serviceLimit(10_000), share(10)] as const)
      expect(reasonOf(world, mutation)).toBe('ROLE_MISSING');
  });

  test('any commands: the sum over all domains is never above the limit', () => {
    const amount = fc.integer({ min: 0, max: 700 });
    const step = fc.oneof(
      fc.record({ share: amount, of: fc.nat(4) }),
      fc.record({ limit: amount }),
      fc.record({ make: amount }),
    );
    let refused = 0;
    let made = 0;
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40, size: 'max' }), (steps) => {
        const service = serviceWorld();
        service.domain = { ...service.domain, limits: { ...DEFAULT_LIMITS, requestsPerMinute: 50 } };
        const domains: LedgerWorld[] = [service];
        let limit = 1_000;
        const sum = (): number =>
          domains.reduce((total, { domain }) => total + domain.limits.requestsPerMinute, 0);
        const run = (world: LedgerWorld, mutation: Mutation): boolean => {
          world.serviceLimit = limit;
          world.othersShares = sum() - world.domain.limits.requestsPerMinute;
          const word = reasonOf(world, mutation);
          expect(['done', 'FIELD_INVALID']).toContain(word);
          if (word === 'done') made += 1;
          else refused += 1;
          return word === 'done';
        };
        for (const one of steps) {
          if ('share' in one) run(domains[one.of % domains.length] as LedgerWorld, share(one.share));
          else if ('limit' in one) {
            if (run(service, serviceLimit(one.limit))) limit = service.serviceLimit;
          } else if (run(service, newDomain(one.make, `domain-${domains.length}.test`))) {
            const world = emptyWorld();
            world.domain = { ...world.domain, limits: { ...DEFAULT_LIMITS, requestsPerMinute: one.make } };
            domains.push(world);
          }
          expect(sum()).toBeLessThanOrEqual(limit);
        }
      }),
      { numRuns: 50 },
    );
    expect(refused).toBeGreaterThan(50);
    expect(made).toBeGreaterThan(50);
  });
});

describe('the limits of a sink', () => {
  test('begin where the record says; a change of them keeps what is counted', () => {
    const world = new AdmissionWorld({}, { breakerThreshold: 5 });
    for (let i = 0; i < 3; i += 1) world.run(world.ending(world.started(), 'FAILED'));
    world.run(world.ending(world.started(), 'UNKNOWN'));
    const row = world.store.get('sinks', 'bank');
    if (!row) throw new Error('no sink');
    const { frozen: _, freezeReason: __, revision, ...fields } = row;
    const put: Mutation = { kind: 'put_sink', ...fields, breakerThreshold: 4, unknownCeiling: 1 };
    expect(world.word(world.commanding(put, revision))).toBe('done');
    expect(world.sink()).toMatchObject({ breaker: 'closed', failures: 4, unknown: 1 });
    expect(world.word(world.reserving())).toBe('UNKNOWN_CEILING');
    const wider: Mutation = { ...put, breakerThreshold: 5, unknownCeiling: 100 };
    expect(world.word(world.commanding(wider, revision + 1n))).toBe('done');
    world.run(world.ending(world.started(), 'FAILED'));
    expect(world.sink().breaker).toBe('open');
  });
});

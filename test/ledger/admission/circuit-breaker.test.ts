import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { SinkCounterRow } from '../../../src/ledger/admission/records.js';
import { MINUTE, SECOND, type TerminalState } from '../../../src/ledger/types.js';
import { AdmissionWorld, PLANNER, refusalOf, SINK, wordOf } from './admission-world.js';

// authority.md, Admission: closed → open after N → half-open after the reset time with exactly one probe → closed by a success.

const THRESHOLD = 3;
const RESET = 2n * MINUTE;
type Ending = TerminalState | 'UNKNOWN';

const withBreaker = (breakerThreshold = THRESHOLD): AdmissionWorld =>
  new AdmissionWorld(
    {},
    { breakerThreshold, breakerReset: RESET, unknownCeiling: 1_000, unknownAge: 10_000n * MINUTE },
  );

function end(world: AdmissionWorld, effectId: string, ...endings: Ending[]): void {
  for (const ending of endings) expect(world.word(world.ending(effectId, ending))).toBe('done');
}

/** So many executions that failed, one after the other. */
function fail(world: AdmissionWorld, times: number, how: Ending = 'FAILED'): void {
  for (let i = 0; i < times; i += 1) end(world, world.started(), how);
}

/** A breaker that has just opened, and effects that were reserved before. */
function opened(prepared = 0): { world: AdmissionWorld; ids: string[] } {
  const world = withBreaker();
  const ids = Array.from({ length: prepared }, () => world.reserved());
  fail(world, THRESHOLD);
  expect(world.sink()).toMatchObject({ breaker: 'open', openedAt: world.now });
  return { world, ids };
}

/** A breaker with its probe in flight, and effects that were reserved before. */
function probing(prepared = 1): { world: AdmissionWorld; probe: string; ids: string[] } {
  const { world, ids } = opened(prepared + 1);
  world.wait(RESET);
  const [probe, ...rest] = ids as [string, ...string[]];
  expect(world.word(world.starting(probe))).toBe('done');
  expect(world.sink()).toMatchObject({ breaker: 'half_open', probeEffectId: probe });
  return { world, probe, ids: rest };
}

describe('closed', () => {
  test.each(['FAILED', 'UNKNOWN'] as const)('opens after so many executions in a row that end %s', (how) => {
    const world = withBreaker();
    fail(world, THRESHOLD - 1, how);
    expect(world.sink()).toMatchObject({ breaker: 'closed', failures: THRESHOLD - 1, openedAt: null });
    expect(world.word(world.reserving())).toBe('done');
    world.wait(SECOND);
    fail(world, 1, how);
    expect(world.sink()).toMatchObject({ breaker: 'open', openedAt: world.now, probeEffectId: null });
  });

  test('an executor that is lost is a failure like any other', () => {
    const world = withBreaker(1);
    const effectId = world.started(PLANNER, { executionDeadline: 2n * MINUTE });
    world.wait(2n * MINUTE);
    world.run(world.losing(effectId));
    expect(world.sink().breaker).toBe('open');
  });

  test('a success in between begins the count anew; what was not sent is neither', () => {
    const world = withBreaker();
    fail(world, THRESHOLD - 1);
    end(world, world.started(), 'SUCCEEDED');
    expect(world.sink().failures).toBe(0);
    fail(world, THRESHOLD - 1);
    end(world, world.started(), 'CANCELLED');
    expect(world.sink()).toMatchObject({ breaker: 'closed', failures: THRESHOLD - 1 });
    fail(world, 1);
    expect(world.sink().breaker).toBe('open');
  });

  test('is of one sink', () => {
    const { world } = opened();
    expect(world.word(world.reserving(PLANNER, { outputSink: 'mail' }))).toBe('done');
    expect(world.sink('mail').breaker).toBe('closed');
  });

  test('how a doubt is settled moves nothing, and neither does late evidence', () => {
    const world = withBreaker();
    const effectId = world.started();
    const late = world.ending(effectId, 'SUCCEEDED');
    end(world, effectId, 'UNKNOWN');
    expect(world.sink()).toMatchObject({ failures: 1, unknown: 1 });
    expect(world.word(late)).toBe('EFFECT_MUST_RECONCILE');
    expect(world.sink()).toMatchObject({ failures: 1, unknown: 1 });
    expect(world.word(world.settling(effectId))).toBe('done');
    expect(world.sink()).toMatchObject({ breaker: 'closed', failures: 1, unknown: 0 });
  });

  test('a repeat of what ended an execution is not another failure', () => {
    const world = withBreaker();
    const call = world.ending(world.started(), 'FAILED');
    for (let i = 0; i < THRESHOLD; i += 1) expect(world.word(call)).toBe('done');
    expect(world.sink()).toMatchObject({ breaker: 'closed', failures: 1 });
  });
});

describe('open', () => {
  test('lets neither reservations nor executions through, and says when it may', () => {
    const { world, ids } = opened(1);
    world.wait(30n * SECOND + 1n);
    const before = world.whole();
    for (const call of [world.reserving(), world.starting(ids[0] as string)]) {
      expect(refusalOf(world.run(call))).toMatchObject({
        reason: 'CIRCUIT_OPEN',
        metadata: { sink: SINK },
        retryAfter: RESET - 30n * SECOND - 1n,
      });
    }
    expect(world.whole()).toEqual(before);
  });

  test('till the reset time, to the microsecond', () => {
    const { world, ids } = opened(1);
    world.wait(RESET - 1n);
    expect(refusalOf(world.run(world.starting(ids[0] as string))).retryAfter).toBe(1n);
    world.wait(1n);
    // A reservation tries nothing out, and leaves it as it is.
    expect(world.word(world.reserving())).toBe('done');
    expect(world.sink().breaker).toBe('open');
    expect(world.word(world.starting(ids[0] as string))).toBe('done');
    expect(world.sink()).toMatchObject({ breaker: 'half_open', probeEffectId: ids[0] });
  });

  test.each(['SUCCEEDED', 'FAILED', 'CANCELLED', 'UNKNOWN'] as const)(
    'what was started before and ends %s does not move it',
    (how) => {
      const world = withBreaker();
      const early = world.started();
      fail(world, THRESHOLD);
      const before = world.sink();
      world.wait(SECOND);
      end(world, early, how);
      expect(world.sink()).toEqual({ ...before, unknown: how === 'UNKNOWN' ? 1 : 0 });
    },
  );

  test('a start that is refused after it was admitted leaves it open', () => {
    const { world, ids } = opened(2);
    const spent = world.ending(world.started(PLANNER, { outputSink: 'mail' }), 'SUCCEEDED');
    world.run(spent);
    world.wait(RESET);
    const call = world.starting(ids[0] as string);
    const { proof } = call.command as unknown as { proof: { statement: { nonce: string } } };
    const { nonce } = (spent.command as unknown as typeof call.command & { proof: typeof proof }).proof
      .statement;
    const replayed = {
      ...call,
      command: { ...call.command, proof: { ...proof, statement: { ...proof.statement, nonce } } },
    };
    const before = world.whole();
    expect(world.word(replayed as never)).toBe('PROOF_REPLAYED');
    expect(world.whole()).toEqual(before);
  });
});

describe('half-open', () => {
  test('has one probe: another start or reservation waits for it', () => {
    const { world, ids } = probing();
    const before = world.whole();
    for (const call of [world.reserving(), world.starting(ids[0] as string)]) {
      expect(refusalOf(world.run(call))).toMatchObject({ reason: 'CIRCUIT_OPEN', retryAfter: RESET });
    }
    world.wait(100n * MINUTE);
    expect(world.word(world.reserving())).toBe('CIRCUIT_OPEN');
    expect(world.whole()).toEqual(before);
  });

  test('of a batch of starts, one is the probe', () => {
    const { world, ids } = opened(5);
    world.wait(RESET);
    const words = world.batch(ids.map((effectId) => world.starting(effectId))).map(wordOf);
    expect(words).toEqual(['done', ...Array(4).fill('CIRCUIT_OPEN')]);
    expect(world.sink().probeEffectId).toBe(ids[0]);
  });

  test('a repeat of the start that is the probe touches nothing', () => {
    const { world, ids } = opened(1);
    world.wait(RESET);
    const start = world.starting(ids[0] as string);
    world.run(start);
    const before = world.whole();
    expect(world.run(start)).toMatchObject({ ok: true, reply: { duplicate: true } });
    expect(world.whole()).toEqual(before);
  });

  test('a success of the probe closes it', () => {
    const { world, probe } = probing();
    end(world, probe, 'SUCCEEDED');
    expect(world.sink()).toEqual(closed);
    expect(world.word(world.reserving())).toBe('done');
    // The count begins at none.
    fail(world, THRESHOLD - 1);
    expect(world.sink().breaker).toBe('closed');
  });

  test.each(['FAILED', 'UNKNOWN'] as const)('a probe that ends %s opens it anew, from then on', (how) => {
    const { world, probe, ids } = probing();
    world.wait(7n * SECOND);
    end(world, probe, how);
    expect(world.sink()).toMatchObject({ breaker: 'open', openedAt: world.now, probeEffectId: null });
    expect(refusalOf(world.run(world.starting(ids[0] as string))).retryAfter).toBe(RESET);
  });

  test('a probe that is lost opens it anew', () => {
    const world = withBreaker();
    const probe = world.reserved(PLANNER, { executionDeadline: 2n * MINUTE });
    fail(world, THRESHOLD);
    world.wait(RESET);
    world.run(world.starting(probe));
    world.wait(2n * MINUTE);
    expect(world.word(world.losing(probe))).toBe('done');
    expect(world.sink()).toMatchObject({ breaker: 'open', openedAt: world.now, unknown: 1 });
  });

  test('a probe that was not sent makes room for another', () => {
    const { world, probe, ids } = probing();
    end(world, probe, 'CANCELLED');
    expect(world.sink()).toMatchObject({ breaker: 'half_open', probeEffectId: null });
    expect(world.word(world.reserving())).toBe('done');
    expect(world.word(world.starting(ids[0] as string))).toBe('done');
    expect(world.sink()).toMatchObject({ breaker: 'half_open', probeEffectId: ids[0] });
  });

  test.each(['SUCCEEDED', 'FAILED', 'CANCELLED', 'UNKNOWN'] as const)(
    'what was started before it opened and ends %s does not move it',
    (how) => {
      const world = withBreaker();
      const [early, probe] = [world.started(), world.reserved()];
      fail(world, THRESHOLD);
      world.wait(RESET);
      world.run(world.starting(probe));
      const before = world.sink();
      end(world, early, how);
      expect(world.sink()).toEqual({ ...before, unknown: how === 'UNKNOWN' ? 1 : 0 });
    },
  );

  test('how the doubt about a probe is settled closes nothing', () => {
    const { world, probe } = probing();
    end(world, probe, 'UNKNOWN');
    const before = world.sink();
    expect(world.word(world.settling(probe))).toBe('done');
    expect(world.sink()).toEqual({ ...before, unknown: 0 });
  });
});

const closed: SinkCounterRow = {
  sink: SINK,
  breaker: 'closed',
  failures: 0,
  openedAt: null,
  probeEffectId: null,
  unknown: 0,
};

describe("an operator's word", () => {
  const reset = { kind: 'reset_breaker', sink: SINK } as const;

  test('closes it, open or half-open; the next call goes by it', () => {
    for (const { world } of [opened(), probing()]) {
      expect(world.word(world.reserving())).toBe('CIRCUIT_OPEN');
      expect(world.word(world.commanding(reset, 1n))).toBe('done');
      expect(world.sink()).toEqual(closed);
      expect(world.word(world.reserving())).toBe('done');
    }
  });

  test('a probe that was in flight counts as any execution then', () => {
    const { world, probe } = probing();
    world.run(world.commanding(reset, 1n));
    end(world, probe, 'FAILED');
    expect(world.sink()).toEqual({ ...closed, failures: 1 });
  });

  test('keeps how many are UNKNOWN', () => {
    const world = withBreaker();
    fail(world, THRESHOLD, 'UNKNOWN');
    world.run(world.commanding(reset, 1n));
    expect(world.sink()).toEqual({ ...closed, unknown: THRESHOLD });
  });

  test('rests on a sink that is there, at its revision', () => {
    const { world } = opened();
    expect(world.word(world.commanding({ ...reset, sink: 'nowhere' }, 1n))).toBe('RECORD_MISSING');
    expect(world.word(world.commanding(reset, 2n))).toBe('REVISION_STALE');
    expect(world.sink().breaker).toBe('open');
  });
});

/** The rule once more, from the whole history of the sink's executions: nothing is kept but what happened. */
class Model {
  private readonly past: {
    readonly effectId: string;
    readonly what: 'start' | Ending;
    readonly at: bigint;
  }[] = [];

  /** Goes through the past anew, and says what would be let through now. */
  private replay(): { open: bigint | undefined; probe: string | undefined; tried: boolean } {
    let run = 0;
    let open: bigint | undefined;
    let probe: string | undefined;
    let tried = false;
    for (const { effectId, what, at } of this.past) {
      if (what === 'start') {
        if (open !== undefined) [probe, tried] = [effectId, true];
      } else if (open === undefined) {
        run = what === 'SUCCEEDED' ? 0 : what === 'CANCELLED' ? run : run + 1;
        if (run >= THRESHOLD) open = at;
      } else if (effectId === probe) {
        probe = undefined;
        if (what === 'SUCCEEDED') [open, run, tried] = [undefined, 0, false];
        else if (what !== 'CANCELLED') [open, tried] = [at, false];
      }
    }
    return { open, probe, tried };
  }

  letsThrough(now: bigint): boolean {
    const { open, probe, tried } = this.replay();
    return open === undefined || (probe === undefined && (tried || now >= open + RESET));
  }

  add(effectId: string, what: 'start' | Ending, at: bigint): void {
    this.past.push({ effectId, what, at });
  }

  get probe(): string | undefined {
    return this.replay().probe;
  }
}

describe('any executions', () => {
  const ENDINGS: readonly Ending[] = ['FAILED', 'FAILED', 'FAILED', 'UNKNOWN', 'SUCCEEDED', 'CANCELLED'];
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.record({ start: fc.nat(1_000) }) },
    { weight: 5, arbitrary: fc.record({ end: fc.nat(1_000), how: fc.constantFrom(...ENDINGS) }) },
    { weight: 2, arbitrary: fc.record({ wait: fc.constantFrom(SECOND, RESET - SECOND, RESET) }) },
    { weight: 1, arbitrary: fc.record({ settle: fc.nat(1_000) }) },
  );

  test('are let through exactly as their whole history says, and no two try at once', () => {
    const seen = { held: 0, probes: 0, closed: 0 };
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80, size: 'max' }), (steps) => {
        const world = withBreaker();
        const model = new Model();
        const prepared = Array.from({ length: 30 }, () => world.reserved());
        const executing: string[] = [];
        const unknown: string[] = [];
        const take = (from: string[], n: number): string | undefined =>
          from.splice(n % (from.length || 1), 1)[0];
        for (const one of steps) {
          if ('wait' in one) {
            world.wait(one.wait);
          } else if ('start' in one) {
            const effectId = prepared[one.start % (prepared.length || 1)];
            if (effectId === undefined) continue;
            const expected = model.letsThrough(world.now);
            expect(world.word(world.starting(effectId))).toBe(expected ? 'done' : 'CIRCUIT_OPEN');
            if (!expected) {
              seen.held += 1;
              continue;
            }
            prepared.splice(prepared.indexOf(effectId), 1);
            executing.push(effectId);
            model.add(effectId, 'start', world.now);
          } else if ('end' in one) {
            const effectId = take(executing, one.end);
            if (effectId === undefined) continue;
            const probe = model.probe === effectId;
            end(world, effectId, one.how);
            if (one.how === 'UNKNOWN') unknown.push(effectId);
            model.add(effectId, one.how, world.now);
            if (probe && one.how === 'SUCCEEDED') seen.closed += 1;
          } else {
            const effectId = take(unknown, one.settle);
            if (effectId !== undefined) expect(world.word(world.settling(effectId))).toBe('done');
          }
          expect(world.sink().probeEffectId ?? undefined).toBe(model.probe);
          expect(world.sink().unknown).toBe(unknown.length);
          if (model.probe !== undefined) seen.probes += 1;
        }
      }),
      { numRuns: 60 },
    );
    for (const [what, times] of Object.entries(seen)) expect(times, what).toBeGreaterThan(5);
  });
});

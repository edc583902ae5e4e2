import { describe, expect, test } from 'vitest';
import { MINUTE, SECOND } from '../../../src/ledger/types.js';
import { HARNESSES, HOUR } from '../../simulation/cast.js';
import { AdmissionWorld, HELPER, PLANNER, refusalOf, SINK, wordOf } from './admission-world.js';

// authority.md, Admission: pending work, loop fence. effects.md, Cost of not knowing.

describe('pending work', () => {
  test('up to the ceiling, whoever has it and wherever; a reservation that is refused leaves nothing', () => {
    const world = new AdmissionWorld({ pendingCeiling: 4 });
    const [first] = [
      world.reserved(PLANNER),
      world.reserved(HELPER),
      world.reserved(PLANNER, { outputSink: 'mail' }),
    ];
    world.run(world.ending(world.started(), 'UNKNOWN'));
    const before = world.whole();
    expect(refusalOf(world.run(world.reserving()))).toMatchObject({
      reason: 'QUOTA_EXHAUSTED',
      metadata: { limit: '4' },
      resource: { type: 'quota', name: 'pending_work' },
      retryAfter: 5n * SECOND,
    });
    expect(world.whole()).toEqual(before);
    expect(world.word(world.starting(first))).toBe('done');
    expect(world.word(world.reserving())).toBe('QUOTA_EXHAUSTED');
    expect(world.word(world.ending(first, 'SUCCEEDED'))).toBe('done');
    expect(world.word(world.reserving())).toBe('done');
    expect(world.word(world.reserving())).toBe('QUOTA_EXHAUSTED');
  });

  test('is as many as the rows, on every way out', () => {
    const world = new AdmissionWorld();
    const pending = (): number => {
      expect(world.domainCounters.pending).toBe(world.store.all('pending_work').length);
      return world.domainCounters.pending;
    };
    const cancelled = world.reserved();
    const [succeeded, failed, doubtful] = [world.started(), world.started(), world.started()];
    expect(pending()).toBe(4);
    const asked = world.askingToCancel(cancelled);
    world.run(asked);
    const { decisionId } = asked.command as unknown as { decisionId: string };
    expect(world.word(world.cancelling(cancelled, decisionId))).toBe('done');
    expect(pending()).toBe(3);
    world.run(world.ending(succeeded, 'SUCCEEDED'));
    expect(pending()).toBe(2);
    world.run(world.ending(failed, 'FAILED'));
    expect(pending()).toBe(1);
    world.run(world.ending(doubtful, 'UNKNOWN'));
    expect(pending()).toBe(1);
    world.run(world.settling(doubtful));
    expect(pending()).toBe(0);
  });

  test('a batch fills it to the last place and no further', () => {
    const world = new AdmissionWorld({ pendingCeiling: 5 });
    const words = world.batch(Array.from({ length: 8 }, () => world.reserving())).map(wordOf);
    expect(words).toEqual([...Array(5).fill('done'), ...Array(3).fill('QUOTA_EXHAUSTED')]);
    expect(world.domainCounters).toMatchObject({ pending: 5, calls: 5 });
  });
});

describe('what is not known of a sink', () => {
  /** So many effects that became UNKNOWN, a second apart. */
  function unknown(world: AdmissionWorld, count: number): string[] {
    const ids = Array.from({ length: count }, () => world.started());
    for (const effectId of ids) {
      world.wait(SECOND);
      world.run(world.ending(effectId, 'UNKNOWN'));
    }
    return ids;
  }

  test('so many UNKNOWN stop new ones there and nowhere else; one settled lets one in', () => {
    const world = new AdmissionWorld({}, { unknownCeiling: 3 });
    const [first] = unknown(world, 2);
    const prepared = world.reserved();
    unknown(world, 1);
    expect(world.sink().unknown).toBe(3);
    const before = world.whole();
    expect(refusalOf(world.run(world.reserving()))).toMatchObject({
      reason: 'UNKNOWN_CEILING',
      metadata: { rule: 'count', sink: SINK },
      resource: { type: 'quota', name: 'unknown_ceiling' },
      retryAfter: 30n * SECOND,
    });
    expect(world.whole()).toEqual(before);
    expect(world.word(world.reserving(PLANNER, { outputSink: 'mail' }))).toBe('done');
    // Reserve enforces it; what was reserved goes on.
    expect(world.word(world.starting(prepared))).toBe('done');
    expect(world.word(world.settling(first as string))).toBe('done');
    expect(world.sink().unknown).toBe(2);
    expect(world.word(world.reserving())).toBe('done');
  });

  test('an executor that the sweep finds lost is one of them', () => {
    const world = new AdmissionWorld({}, { unknownCeiling: 1 });
    const effectId = world.started(PLANNER, { executionDeadline: 2n * MINUTE });
    world.wait(2n * MINUTE + SECOND);
    expect(world.word(world.losing(effectId))).toBe('done');
    expect(world.sink().unknown).toBe(1);
    expect(refusalOf(world.run(world.reserving()))).toMatchObject({ metadata: { rule: 'count' } });
  });

  test('one that is UNKNOWN for longer than the objective stops new ones; at the objective it does not yet', () => {
    const world = new AdmissionWorld({}, { unknownAge: HOUR });
    const [oldest] = unknown(world, 1);
    world.wait(HOUR);
    expect(world.word(world.reserving())).toBe('done');
    world.wait(1n);
    const before = world.whole();
    expect(refusalOf(world.run(world.reserving()))).toMatchObject({
      reason: 'UNKNOWN_CEILING',
      metadata: { rule: 'age', sink: SINK },
      resource: { type: 'quota', name: 'unknown_age' },
      retryAfter: 30n * SECOND,
    });
    expect(world.whole()).toEqual(before);
    expect(world.word(world.reserving(PLANNER, { outputSink: 'mail' }))).toBe('done');
    world.run(world.settling(oldest as string));
    expect(world.word(world.reserving())).toBe('done');
  });

  test('the age is that of the oldest one that is left, also where others are settled in the same batch', () => {
    const world = new AdmissionWorld({}, { unknownAge: HOUR });
    const [a, b, c, d, e, f] = unknown(world, 6) as [string, string, string, string, string, string];
    // The oldest is too old, and none of the others.
    world.wait(HOUR - 4n * SECOND);
    const young = world.batch([world.reserving(), world.settling(f)]).map(wordOf);
    expect(young).toEqual(['UNKNOWN_CEILING', 'done']);
    // All but the youngest are.
    world.wait(3n * SECOND);
    const settle = [a, b, c].map((effectId) => world.settling(effectId));
    const words = world.batch([world.reserving(), ...settle, world.reserving()]).map(wordOf);
    expect(words).toEqual(['UNKNOWN_CEILING', 'done', 'done', 'done', 'UNKNOWN_CEILING']);
    expect(world.batch([world.settling(d), world.reserving()]).map(wordOf)).toEqual(['done', 'done']);
    world.wait(1n);
    expect(world.word(world.reserving())).toBe('UNKNOWN_CEILING');
    expect(world.batch([world.settling(e), world.reserving()]).map(wordOf)).toEqual(['done', 'done']);
  });

  test('one that becomes UNKNOWN in the batch counts for what stands behind it', () => {
    const world = new AdmissionWorld({}, { unknownCeiling: 1 });
    const effectId = world.started();
    const words = world.batch([world.reserving(), world.ending(effectId, 'UNKNOWN'), world.reserving()]);
    expect(words.map(wordOf)).toEqual(['done', 'done', 'UNKNOWN_CEILING']);
  });
});

describe('the loop fence', () => {
  const hops = (world: AdmissionWorld, eventId: string) => world.store.get('events', eventId)?.hops;

  test.each([1, 3])('an event is %i hops from its beginning at most, as the domain says', (maxHops) => {
    const world = new AdmissionWorld({ maxHops });
    let parentEventId: string | null = null;
    for (let i = 0; i <= maxHops; i += 1) {
      const call = world.publishing({ parentEventId });
      expect(world.word(call)).toBe('done');
      parentEventId = (call.command as unknown as { eventId: string }).eventId;
      expect(hops(world, parentEventId)).toBe(i);
    }
    const before = world.whole();
    const refused = refusalOf(world.run(world.publishing({ parentEventId })));
    expect(refused).toMatchObject({
      reason: 'QUOTA_EXHAUSTED',
      metadata: { limit: String(maxHops) },
      resource: { type: 'quota', name: 'event_hops' },
      retryAfter: 'never',
    });
    expect(world.whole()).toEqual(before);
    world.limit({ maxHops: maxHops + 1 });
    expect(world.word(world.publishing({ parentEventId }))).toBe('done');
    // A lower ceiling takes back nothing; a repeat of what was let through is answered.
    const [last] = world.store.all('events').slice(-1);
    world.limit({ maxHops: 1 });
    expect(last?.hops).toBe(maxHops + 1);
    expect(world.word(world.publishing({ parentEventId: last?.eventId ?? '' }))).toBe('QUOTA_EXHAUSTED');
  });

  test('whoever answers whom: each hop counts', () => {
    const world = new AdmissionWorld({ maxHops: 2 });
    let parentEventId: string | null = null;
    const words: string[] = [];
    for (const who of [PLANNER, HELPER, PLANNER, HELPER] as const) {
      const { caller } = HARNESSES[who];
      const recipientHarnessIds = [HARNESSES[who === PLANNER ? HELPER : PLANNER].harnessId];
      const call = world.publishing({
        caller,
        recipientHarnessIds,
        parentEventId,
        origin: world.nobodysWord(),
      });
      words.push(world.word(call));
      parentEventId = (call.command as unknown as { eventId: string }).eventId;
    }
    expect(words).toEqual(['done', 'done', 'done', 'QUOTA_EXHAUSTED']);
  });
});

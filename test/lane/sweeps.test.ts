import { describe, expect, it } from 'vitest';
import { LOOKED_AT_ONCE } from '../../src/lane/ended-grants.js';
import type { CommandRunner } from '../../src/lane/lanes.js';
import { PAGES_PER_ROUND, Sweeps } from '../../src/lane/sweeps.js';
import type { Reader } from '../../src/store/reader.js';

/** One lost execution, once; the query that is named fails. */
function sweepsWith(failing: string | undefined) {
  const asked: string[] = [];
  const submitted: string[] = [];
  const failed: string[] = [];
  let kept = 0;
  const reader = {
    query: async (name: string) => {
      asked.push(name);
      if (name === failing) throw new Error(`${name} took too long`);
      const first = asked.filter((one) => one === name).length === 1;
      return name === 'lost_executions' && first ? [{ domainId: 'acme.test', effectId: 'effect-1' }] : [];
    },
  } as unknown as Reader;
  const commands = {
    submit: async (decision: { kind: string }) => {
      submitted.push(decision.kind);
      return { ok: true, reply: { changed: true } };
    },
  } as unknown as CommandRunner;
  const sweeps = new Sweeps({
    reader,
    commands,
    newId: (prefix) => `${prefix}-1`,
    housekeeping: {
      nonces: async () => {
        kept += 1;
      },
    },
    onError: (_, sweep) => failed.push(sweep),
  });
  return { sweeps, asked, submitted, failed, kept: () => kept };
}

describe('a round of sweeps', () => {
  it('asks for each kind of candidate and tells how many it changed', async () => {
    const { sweeps, asked, submitted, kept } = sweepsWith(undefined);
    expect(await sweeps.sweepOnce()).toEqual({ changed: 1 });
    expect(new Set(asked).size).toBe(6);
    expect(submitted).toEqual(['effect.lose_executor']);
    expect(kept()).toBe(1);
  });

  it('says that one of them failed, and goes on with the others all the same', async () => {
    const { sweeps, asked, submitted, failed, kept } = sweepsWith('prepared_effects_of_ended_grants');
    await expect(sweeps.sweepOnce()).rejects.toThrow('took too long');
    expect(failed).toEqual(['ended_grants']);
    expect(new Set(asked).size).toBe(6);
    expect(submitted).toEqual(['effect.lose_executor']);
    expect(kept()).toBe(1);
  });
});

/** Sweeps of a store in which these are due, again and again, by the query that finds them; `submit` says what becomes of each. */
function sweepsOver(
  due: Readonly<Record<string, readonly string[]>>,
  submit: (effectId: string) => unknown = () => ({ ok: true, reply: { changed: true } }),
  housekeeping: Readonly<Record<string, () => Promise<unknown>>> = {},
) {
  const asked: string[] = [];
  const submitted: string[] = [];
  const failed: string[] = [];
  const sweeps = new Sweeps({
    reader: {
      query: async (name: string) => {
        asked.push(name);
        // Some round has to end, or the test would hang.
        if (asked.length > 500) return [];
        return (due[name] ?? []).map((effectId) => ({ domainId: 'acme.test', effectId }));
      },
    } as unknown as Reader,
    commands: {
      submit: async (_: unknown, { effectId }: { effectId: string }) => {
        submitted.push(effectId);
        return submit(effectId);
      },
    } as unknown as CommandRunner,
    newId: () => 'sweep-1',
    housekeeping,
    onError: (error, sweep) => failed.push(`${sweep}: ${(error as Error).message}`),
  });
  const pagesOf = (name: string): number => asked.filter((one) => one === name).length;
  return { sweeps, submitted, failed, pagesOf };
}

describe('a sweep among others', () => {
  it('leaves them their turn, however much of its kind is due: the next round goes on with it', async () => {
    const due = { late_prepared_effects: ['late'], lost_executions: ['lost'] };
    const { sweeps, submitted, pagesOf } = sweepsOver(due);
    for (let round = 1; round <= 2; round += 1) {
      expect(await sweeps.sweepOnce()).toEqual({ changed: 2 * PAGES_PER_ROUND });
      expect(pagesOf('late_prepared_effects')).toBe(round * PAGES_PER_ROUND);
      expect(pagesOf('lost_executions')).toBe(round * PAGES_PER_ROUND);
    }
    expect(submitted.filter((one) => one === 'lost')).toHaveLength(2 * PAGES_PER_ROUND);
  });

  it('tries every other candidate where the command of one is rejected', async () => {
    let moved = 0;
    const due = { late_prepared_effects: ['bad', 'good', 'worse'], lost_executions: ['lost'] };
    const { sweeps, submitted, failed, pagesOf } = sweepsOver(due, (effectId) => {
      if (effectId === 'bad' || effectId === 'worse')
        throw new Error(`${effectId} has a row that nobody can read`);
      moved += 1;
      return { ok: true, reply: { changed: moved === 1 } };
    });
    await expect(sweeps.sweepOnce()).rejects.toThrow('bad has a row that nobody can read');
    // One page more: something was moved on the first.
    expect(pagesOf('late_prepared_effects')).toBe(2);
    expect(submitted).toEqual(['bad', 'good', 'worse', 'bad', 'good', 'worse', 'lost']);
    expect(failed).toEqual(['late_prepared_effects: bad has a row that nobody can read']);
  });

  it('finds what is due behind others that cannot be moved, and tries these in every round', async () => {
    const due = Array.from({ length: 450 }, (_, n) => ({ domainId: 'acme.test', effectId: `effect-${n}` }));
    const moved: string[] = [];
    const tried: string[] = [];
    const sweeps = new Sweeps({
      reader: {
        query: async (name: string, [limit, passed]: readonly bigint[]) =>
          name === 'lost_executions'
            ? due
                .filter(({ effectId }) => !moved.includes(effectId))
                .slice(Number(passed), Number(passed) + Number(limit))
            : [],
      } as unknown as Reader,
      commands: {
        submit: async (_: unknown, { effectId }: { effectId: string }) => {
          tried.push(effectId);
          if (Number(effectId.split('-')[1]) < 420) return { ok: false, refusal: { reason: 'DATA_CORRUPT' } };
          moved.push(effectId);
          return { ok: true, reply: { changed: true } };
        },
      } as unknown as CommandRunner,
      newId: () => 'sweep-1',
      housekeeping: {},
      onError: () => undefined,
    });
    expect(await sweeps.sweepOnce()).toEqual({ changed: 30 });
    expect(tried).toHaveLength(450);
    expect(await sweeps.sweepOnce()).toEqual({ changed: 0 });
    expect(tried.filter((one) => one === 'effect-0')).toHaveLength(2);
  });

  it('of housekeeping keeps none of the others, and each failure is told', async () => {
    const kept: string[] = [];
    const keep = (name: string, fails: boolean) => async () => {
      if (fails) throw new Error('took longer than 2 s');
      kept.push(name);
    };
    const housekeeping = {
      admission: keep('admission', true),
      nonces: keep('nonces', false),
      more: keep('more', true),
      lanes: keep('lanes', false),
    };
    const { sweeps, failed } = sweepsOver({}, undefined, housekeeping);
    await expect(sweeps.sweepOnce()).rejects.toThrow('took longer than 2 s');
    expect(kept).toEqual(['nonces', 'lanes']);
    expect(failed).toEqual(['admission: took longer than 2 s', 'more: took longer than 2 s']);
  });
});

describe('the walk over what is not settled', () => {
  const full = LOOKED_AT_ONCE;
  const row = (lookedAt: bigint, at: string, found: string | null) => ({
    lookedAt,
    ...{ lastDomainId: 'acme.test', lastGrantId: `grant-${at}`, lastEventId: 'event', lastEffectId: at },
    ...{ domainId: found === null ? null : 'acme.test', effectId: found },
  });

  /** Rounds over pages that are answered one after the other. */
  function walkOver(pages: readonly (readonly object[])[]) {
    const places: string[] = [];
    const submitted: string[] = [];
    const reader = {
      query: async (name: string, [, grantId]: readonly unknown[]) => {
        if (name !== 'prepared_effects_of_ended_grants') return [];
        places.push(String(grantId));
        return pages[places.length - 1] ?? [];
      },
    } as unknown as Reader;
    const commands = {
      submit: async (_: unknown, { effectId }: { effectId: string }) => {
        submitted.push(effectId);
        return { ok: true, reply: { changed: true } };
      },
    } as unknown as CommandRunner;
    const parts = {
      reader,
      commands,
      newId: () => 'sweep-1',
      housekeeping: {},
      onError: () => {},
    };
    return { sweeps: new Sweeps(parts), places, submitted };
  }

  it('looks at one page in a round where nothing ended, and goes on from there in the next', async () => {
    const pages = [
      [row(full, '5', null)],
      [row(full, '9', null)],
      [row(3n, '9x', null)],
      [row(full, '5', null)],
    ];
    const { sweeps, places } = walkOver(pages);
    for (let round = 0; round < pages.length; round += 1)
      expect(await sweeps.sweepOnce()).toEqual({ changed: 0 });
    expect(places).toEqual(['', 'grant-5', 'grant-9', '']);
  });

  it('comes to an end in a round also where it finds something all the time', async () => {
    const { sweeps, places } = walkOver(Array.from({ length: 100 }, () => [row(full, '5', 'effect-1')]));
    expect(await sweeps.sweepOnce()).toEqual({ changed: PAGES_PER_ROUND });
    expect(places).toHaveLength(PAGES_PER_ROUND);
  });

  it('goes on within a round as long as it finds something', async () => {
    const pages = [
      [row(full, '5', 'effect-1'), row(full, '5', 'effect-2')],
      [row(full, '9', 'effect-3')],
      [row(full, '9x', null)],
    ];
    const { sweeps, places, submitted } = walkOver(pages);
    expect(await sweeps.sweepOnce()).toEqual({ changed: 3 });
    expect(places).toEqual(['', 'grant-5', 'grant-9']);
    expect(submitted).toEqual(['effect-1', 'effect-2', 'effect-3']);
  });
});

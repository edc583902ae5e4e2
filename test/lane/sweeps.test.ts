import { describe, expect, it } from 'vitest';
import type { CommandRunner } from '../../src/lane/lanes.js';
import { LOOKED_AT_ONCE } from '../../src/lane/ended-grants.js';
import { Sweeps } from '../../src/lane/sweeps.js';
import type { Reader } from '../../src/store/reader.js';

/** One lost execution, once; the query that is named fails. */
function sweepsWith(failing: string | undefined) {
  const asked: string[] = [];
  const submitted: string[] = [];
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
    housekeeping: async () => {
      kept += 1;
    },
    onError: () => {},
  });
  return { sweeps, asked, submitted, kept: () => kept };
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
    const { sweeps, asked, submitted, kept } = sweepsWith('prepared_effects_of_ended_grants');
    await expect(sweeps.sweepOnce()).rejects.toThrow('took too long');
    expect(new Set(asked).size).toBe(6);
    expect(submitted).toEqual(['effect.lose_executor']);
    expect(kept()).toBe(1);
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
      housekeeping: async () => {},
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

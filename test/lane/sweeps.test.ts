import { describe, expect, it } from 'vitest';
import type { CommandRunner } from '../../src/lane/lanes.js';
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

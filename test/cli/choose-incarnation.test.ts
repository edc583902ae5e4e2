import { describe, expect, test } from 'vitest';
import { chooseIncarnation, incarnationOf } from '../../src/cli/restore/choose-incarnation.js';
import { endOfPeriod, MAX_INCARNATION, nextIncarnation } from '../../src/ledger/authority/incarnation.js';
import { RestoreRefused } from '../../src/store/restore.js';
import { FIXTURE_NOW } from '../support/ledger-fixture.js';

// What `surety restore` does before it changes anything, by a clock that goes on as the test says.

const SECOND = 1_000_000n;
/** Ten seconds after the beginning of the periods' period 5. */
const START = FIXTURE_NOW + 610n * SECOND;

/** @param pass what a sleep brings the clock on, in microseconds, for the milliseconds that were asked for */
function clockAt(now: bigint, current: bigint, pass = (ms: number): bigint => BigInt(ms) * 1000n) {
  const slept: number[] = [];
  const waits: object[] = [];
  const tools = {
    readState: async () => ({ now, nextIncarnation: nextIncarnation(current, now) }),
    sleep: async (ms: number) => {
      slept.push(ms);
      now += pass(ms);
    },
    onWait: (wait: object) => void waits.push(wait),
  };
  return { tools, slept, waits, now: () => now };
}

describe('the choice of an incarnation', () => {
  test('is the period of the clock, and comes back when that is over', async () => {
    const { tools, slept, waits, now } = clockAt(START, 1n);
    expect(await chooseIncarnation(tools)).toBe(5n);
    expect(now()).toBe(endOfPeriod(5n));
    // The rest of two minutes, and one for the difference of clocks.
    expect(slept).toEqual([170_000]);
    expect(waits).toEqual([{ incarnation: 5n, until: endOfPeriod(5n), ms: 170_000 }]);
  });

  test('asks the clock again, which may have stood still, or gone back', async () => {
    let sleeps = 0;
    const passes = [0n, -20n * SECOND, 100n * SECOND];
    const { tools, slept, waits } = clockAt(START, 1n, (ms) => passes[sleeps++] ?? BigInt(ms) * 1000n);
    expect(await chooseIncarnation(tools)).toBe(5n);
    expect(slept).toEqual([170_000, 170_000, 190_000, 90_000]);
    expect(waits).toHaveLength(1);
  });

  test('waits for the period of the number after the last, where another restore has that of now', async () => {
    const { tools, slept } = clockAt(START, 5n);
    expect(await chooseIncarnation(tools)).toBe(6n);
    expect(slept).toEqual([290_000]);
  });

  test('is refused where the clock, or the one that an earlier restore went by, is wrong', async () => {
    const { tools, slept, waits } = clockAt(START, 1_000n);
    await expect(chooseIncarnation(tools)).rejects.toThrow(RestoreRefused);
    await expect(chooseIncarnation(tools)).rejects.toThrow(
      "Incarnation 1001 may not begin before 2026-01-02T09:25:00.000Z, and the database's clock stands at 2026-01-01T00:10:10.000Z",
    );
    expect([...slept, ...waits]).toEqual([]);
  });

  test('is refused where no number is left', async () => {
    const { tools } = clockAt(START, MAX_INCARNATION);
    await expect(chooseIncarnation(tools)).rejects.toThrow('There is no incarnation left');
    expect(() => incarnationOf({ nextIncarnation: undefined })).toThrow(RestoreRefused);
  });
});

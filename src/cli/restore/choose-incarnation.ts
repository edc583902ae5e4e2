import { endOfPeriod, MAX_INCARNATION } from '../../ledger/authority/incarnation.js';
import { type Micros, SECOND } from '../../ledger/types.js';
import { RestoreRefused, type RestoreState } from '../../store/restore.js';

/**
 * Where the clock is right the wait is three minutes at most. One that is much longer comes from a clock that is wrong, or was
 * wrong when an earlier restore chose the number that the store has.
 */
const LONGEST_WAIT: Micros = 600n * SECOND;
const MICROS_PER_MS = 1000n;

/** What {@link chooseIncarnation} needs. */
export interface ChoiceTools {
  readonly readState: () => Promise<Pick<RestoreState, 'nextIncarnation' | 'now'>>;
  /** Milliseconds. */
  readonly sleep: (ms: number) => Promise<unknown>;
  /** Told once, where there is something to wait for. */
  readonly onWait: (wait: {
    readonly incarnation: bigint;
    readonly until: Micros;
    readonly ms: number;
  }) => void;
}

/**
 * Chooses the incarnation of a restore, and returns when its period is over by the store's clock: no restore that begins from
 * now on chooses the same one, from whatever backup. Changes nothing.
 *
 * @throws RestoreRefused where no incarnation is left, or the clock is wrong; what `readState` throws
 */
export async function chooseIncarnation({ readState, sleep, onWait }: ChoiceTools): Promise<bigint> {
  const first = await readState();
  const incarnation = incarnationOf(first);
  const until = endOfPeriod(incarnation);
  const wait = until - first.now;
  if (wait > LONGEST_WAIT) throw wrongClock(incarnation, first.now, until);
  if (wait > 0n) onWait({ incarnation, until, ms: milliseconds(wait) });
  // The clock that counts is the store's: a machine that slept, or a clock that was set, is asked again.
  for (let { now } = first; now < until; { now } = await readState()) await sleep(milliseconds(until - now));
  return incarnation;
}

/**
 * The incarnation that a restore would begin.
 *
 * @throws RestoreRefused where no incarnation is left
 */
export function incarnationOf({ nextIncarnation }: Pick<RestoreState, 'nextIncarnation'>): bigint {
  if (nextIncarnation !== undefined) return nextIncarnation;
  throw new RestoreRefused(
    `There is no incarnation left: a fence has room for ${MAX_INCARNATION}, one for each two minutes since 2026. ` +
      "If the database's clock is wrong, set it right first. Nothing was changed.",
  );
}

function wrongClock(incarnation: bigint, now: Micros, until: Micros): RestoreRefused {
  return new RestoreRefused(
    `Incarnation ${incarnation} may not begin before ${timeText(until)}, and the database's clock stands at ` +
      `${timeText(now)}: it is wrong, or was when an earlier restore ran. Set it right first. Nothing was changed.`,
  );
}

/** Rounded up. */
function milliseconds(micros: Micros): number {
  return Number((micros + MICROS_PER_MS - 1n) / MICROS_PER_MS);
}

/** A time of the store's clock, for people. */
export function timeText(time: Micros): string {
  return new Date(Number(time / MICROS_PER_MS)).toISOString();
}

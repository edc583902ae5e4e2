import { type Micros, SECOND } from '../types.js';

/** What the fence has room for (effects.md, Reserve 8): 23 bits, too few for a number that nobody else draws by chance. */
export const MAX_INCARNATION = 8_388_607n;
/** 2026-01-01T00:00:00Z: before the first restore of all. */
const FIRST_PERIOD: Micros = 1_767_225_600n * SECOND;
/**
 * Each incarnation has a period of the clock for its own. A restore waits for the end of one, so it is short; and there are so
 * many that they last until November 2057.
 */
const PERIOD: Micros = 120n * SECOND;
/**
 * So far the clocks of two servers may differ on which one backup is brought back, one after the other: as far as the store's
 * clock may stand behind a log.
 */
const CLOCK_DIFFERENCE: Micros = 60n * SECOND;

/**
 * The incarnation that a restore begins: the number of the period that its clock stands in, or the next one after the
 * store's where that is higher. Two restores from one backup find the same number in the store, and must not begin the same
 * incarnation: the later one would give out the fences of the earlier one again, and take commands that were signed for it. So
 * a restore changes nothing before {@link endOfPeriod} of it, and whatever begins after it has ended, from
 * whatever backup, finds a later period.
 *
 * @param current of the store as it was brought back
 * @param now by the store's clock
 * @returns undefined where no number is left
 */
export function nextIncarnation(current: bigint, now: Micros): bigint | undefined {
  const period = (now - FIRST_PERIOD) / PERIOD;
  const next = period > current ? period : current + 1n;
  return next > MAX_INCARNATION ? undefined : next;
}

/** When the period of an incarnation is over by every clock: from then on no restore chooses it. */
export function endOfPeriod(incarnation: bigint): Micros {
  return FIRST_PERIOD + (incarnation + 1n) * PERIOD + CLOCK_DIFFERENCE;
}

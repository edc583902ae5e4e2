import { perSecond, type Rate } from '../measure/measured.js';
import type { Pair } from '../measure/statistics.js';
import { LOAD_CLIENT, measureStart, ReserveSide } from '../sides/grpc.js';
import { BenchWorld } from '../world/bench-world.js';
import { checkStoredEffects } from '../world/stored-effects.js';
import { Undoing } from '../world/undoing.js';
import type { Ratio } from './ratio.js';

const CALLERS = 32;
/** Readings of each minute. */
const SLICES = 5;
/** The first minute warms up. */
const EARLY = 2;
/** In each slice half of the time for reservations, and at most as long for the starts of what was reserved. */
const HALF = 0.5;
/**
 * Each minute's executor has a registration that ends soon: a nonce is kept until its statement is six minutes old, or as
 * long as the registration if that is longer.
 */
const REGISTRATION_MINUTES = 2;
const MS_PER_MINUTE = 60_000;

/** Whether a service that began with empty tables gets slower: the plans that it made then are kept. */
export const b8Fresh: Ratio = {
  id: 'B8',
  title: 'ten minutes after the start on an empty database ÷ the second minute',
  a: `ReserveEffect and StartExecution in turn over mTLS gRPC, ${CALLERS} callers, with the sweeps: the eleventh minute (--quick: the fourth of shorter ones)`,
  b: 'of the same service the second minute; slices of both are compared in their order',
  unit: 'per second',
  goal: { at: 'least', value: 0.9 },
  needsPgbench: false,
  settings: { callers: CALLERS, load_client: LOAD_CLIENT },
  async measure({ undoing, plan, say }) {
    const { minutes, secondsPerMinute } = plan.fresh;
    const own = new Undoing();
    undoing.add(() => own.run());
    try {
      say('starting Postgres and a service on an empty database');
      const world = await BenchWorld.open(own);
      const reserve = new ReserveSide(world, CALLERS, true);
      const rates: number[][] = [];
      const byMinute: Record<string, number> = {};
      let started = 0;
      const begun = performance.now();
      for (let minute = 1; minute <= minutes; minute += 1) {
        await world.connect(REGISTRATION_MINUTES * MS_PER_MINUTE);
        const slices: Rate[] = [];
        const end = begun + minute * secondsPerMinute * 1000;
        for (let slice = SLICES; slice > 0; slice -= 1) {
          const seconds = Math.max(1, (end - performance.now()) / 1000 / slice) * HALF;
          const reserved = await reserve.measure(seconds);
          const starts = await measureStart(world, CALLERS, seconds);
          started += starts.calls;
          slices.push(together([reserved, starts]));
        }
        rates.push(slices.map(perSecond));
        const whole = Math.round(perSecond(together(slices)));
        byMinute[`minute ${minute}: calls per second`] = whole;
        say(`minute ${minute} of ${minutes}, ${whole} per second`);
      }
      await checkStoredEffects(world);
      const [early = [], late = []] = [rates[EARLY - 1], rates.at(-1)];
      const pairs: Pair[] = late.map((a, i) => ({ a, b: early[i] as number }));
      const figures = {
        ...byMinute,
        ...(await nonceFigures(world)),
        started,
        reserved: world.reserved,
        ...world.costs.take(),
      };
      return { pairs, figures };
    } finally {
      await own.run();
    }
  },
};

/** One measurement after the other, as if it had been one. */
function together(parts: readonly Rate[]): Rate {
  return {
    calls: parts.reduce((sum, { calls }) => sum + calls, 0),
    elapsedMs: parts.reduce((sum, { elapsedMs }) => sum + elapsedMs, 0),
  };
}

/** How much of the nonces' table is still needed. */
async function nonceFigures(world: BenchWorld): Promise<Record<string, number>> {
  const { rows } = await world.sql.query<Record<string, string>>(
    `SELECT count(*) AS stored, count(*) FILTER (WHERE expires_at < n.now) AS expired,
       pg_total_relation_size('transition_nonces') AS bytes
     FROM transition_nonces, (SELECT surety_now() AS now) AS n`,
  );
  const [row = {}] = rows;
  return {
    'nonces stored': Number(row['stored']),
    'nonces stored that nothing can verify with': Number(row['expired']),
    'nonces: bytes of table and indexes': Number(row['bytes']),
  };
}

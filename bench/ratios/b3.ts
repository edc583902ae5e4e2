import { runInterleaved } from '../measure/interleave.js';
import { perSecond } from '../measure/measured.js';
import { LaneSide } from '../sides/lane.js';
import { PGBENCH_SETTINGS, Pgbench } from '../sides/pgbench.js';
import { BATCH_LIMIT } from '../world/bench-world.js';
import type { Ratio } from './ratio.js';

const CALLERS = 64;
const CLIENTS = 32;

/** What gather, decide and commit do for one domain, without the cost of RPC. */
export const b3: Ratio = {
  id: 'B3',
  title: 'the lane in process ÷ one function in the database',
  a: `the lane in process, ${CALLERS} callers, all rules, audit chain on`,
  b: `pgbench calling one stored function of four statements, ${CLIENTS} clients`,
  unit: 'per second',
  goal: { at: 'least', value: 4 },
  needsPgbench: true,
  settings: { callers: CALLERS, batch_limit: BATCH_LIMIT, pgbench: `${PGBENCH_SETTINGS} -c ${CLIENTS}` },
  async measure({ world, plan, onStep }) {
    const lane = new LaneSide(world, CALLERS);
    const pgbench = new Pgbench(world, CLIENTS);
    const sides = {
      a: async () => perSecond(await lane.measure(plan.seconds)),
      b: () => pgbench.rate(plan.seconds),
    };
    const pairs = await runInterleaved(plan.rounds, sides, onStep);
    return { pairs, figures: lane.figures };
  },
};

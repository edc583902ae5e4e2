import type { LaneMode } from '../lane/messages.js';
import { runInterleaved } from '../measure/interleave.js';
import { perSecond } from '../measure/measured.js';
import { LaneSide } from '../sides/lane.js';
import { PGBENCH_SETTINGS, Pgbench } from '../sides/pgbench.js';
import { BATCH_LIMIT } from '../world/bench-world.js';
import type { Ratio } from './ratio.js';

const CALLERS = 64;
const CLIENTS = 32;

/** What gather, decide and commit do for one domain, without the cost of RPC. */
export const b3: readonly Ratio[] = [
  {
    ...laneAgainst('baseline.pgbench'),
    title: 'the lane in process ÷ one function in the database',
    b: `pgbench calling one stored function of four statements, ${CLIENTS} clients`,
    goal: { at: 'least', value: 4 },
  },
  {
    ...laneAgainst('baseline-chained.pgbench'),
    title: 'the lane in process ÷ one function in the database that chains its log, as the lane does',
    b: `pgbench calling the same function with one chained log, whose head is locked until the commit, ${CLIENTS} clients`,
  },
  {
    ...laneAgainst('baseline.pgbench', 'rows'),
    title: 'the rows of a reservation, without a rule ÷ one function in the database',
    a:
      `the same rows and chained entries, by the lane, ${CALLERS} callers, in a domain of its own: the grant is read, nothing ` +
      'else is, and nothing is decided (bench/lane/rows-only.ts)',
    b: `pgbench calling one stored function of four statements, ${CLIENTS} clients`,
  },
];

function laneAgainst(
  script: 'baseline.pgbench' | 'baseline-chained.pgbench',
  mode: LaneMode = 'whole',
): Omit<Ratio, 'title' | 'b'> {
  return {
    id: 'B3',
    a: `the lane in process, ${CALLERS} callers, all rules, audit chain on`,
    unit: 'per second',
    needsPgbench: true,
    settings: { callers: CALLERS, batch_limit: BATCH_LIMIT, pgbench: `${PGBENCH_SETTINGS} -c ${CLIENTS}` },
    async measure({ world, plan, onStep }) {
      const lane = new LaneSide(world, CALLERS, mode);
      const pgbench = new Pgbench(world, CLIENTS, script);
      const sides = {
        a: async () => perSecond(await lane.measure(plan.seconds)),
        b: () => pgbench.rate(plan.seconds),
      };
      const pairs = await runInterleaved(plan.rounds, sides, onStep);
      return { pairs, figures: lane.figures };
    },
  };
}

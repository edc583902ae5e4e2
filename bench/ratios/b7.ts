import { runInterleaved } from '../measure/interleave.js';
import { LOAD_CLIENT, ReserveSide } from '../sides/grpc.js';
import { PGBENCH_SETTINGS, Pgbench } from '../sides/pgbench.js';
import type { Ratio } from './ratio.js';

/** How long somebody waits who is alone. */
export const b7: Ratio = {
  id: 'B7',
  title: 'latency of a lone caller ÷ of one function in the database, medians',
  a: 'ReserveEffect over mTLS gRPC, one caller, p50',
  b: 'pgbench calling one stored function of four statements, one client, p50',
  unit: 'ms',
  goal: { at: 'most', value: 2 },
  needsPgbench: true,
  settings: { callers: 1, load_client: LOAD_CLIENT, pgbench: `${PGBENCH_SETTINGS} -c 1 -l` },
  async measure({ world, plan, onStep }) {
    const reserve = new ReserveSide(world, 1);
    const pgbench = new Pgbench(world, 1);
    const sides = {
      a: async () => (await reserve.measure(plan.seconds)).p50Ms,
      b: () => pgbench.p50Ms(plan.seconds),
    };
    return { pairs: await runInterleaved(plan.rounds, sides, onStep) };
  },
};

import { runInterleaved } from '../measure/interleave.js';
import { perSecond } from '../measure/measured.js';
import { LOAD_CLIENT, ReserveSide } from '../sides/grpc.js';
import { PGBENCH_SETTINGS, Pgbench } from '../sides/pgbench.js';
import type { Ratio } from './ratio.js';

const CALLERS = 32;

/** The whole service against the database alone. */
export const b1: Ratio = {
  id: 'B1',
  title: 'a reservation over mutual TLS ÷ one function in the database',
  a: `ReserveEffect over mTLS gRPC, ${CALLERS} callers, all rules, audit chain on`,
  b: `pgbench calling one stored function of four statements, ${CALLERS} clients, no RPC`,
  unit: 'per second',
  goal: { at: 'least', value: 1.5 },
  needsPgbench: true,
  settings: { callers: CALLERS, load_client: LOAD_CLIENT, pgbench: `${PGBENCH_SETTINGS} -c ${CALLERS}` },
  async measure({ world, plan, onStep }) {
    const reserve = new ReserveSide(world, CALLERS);
    const pgbench = new Pgbench(world, CALLERS);
    const sides = {
      a: async () => perSecond(await reserve.measure(plan.seconds)),
      b: () => pgbench.rate(plan.seconds),
    };
    return { pairs: await runInterleaved(plan.rounds, sides, onStep) };
  },
};

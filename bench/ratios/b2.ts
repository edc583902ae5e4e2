import { runInterleaved } from '../measure/interleave.js';
import { perSecond } from '../measure/measured.js';
import { LOAD_CLIENT, measureEmpty, ReserveSide } from '../sides/grpc.js';
import type { Ratio } from './ratio.js';

const CALLERS = 32;

/** What a reservation costs beyond being a call. */
export const b2: Ratio = {
  id: 'B2',
  title: 'a reservation ÷ a call that does nothing',
  a: `ReserveEffect over mTLS gRPC, ${CALLERS} callers, all rules, audit chain on`,
  b: `grpc.health.v1.Health/Check on the same server with the same client, ${CALLERS} callers`,
  unit: 'per second',
  goal: { at: 'least', value: 0.6 },
  needsPgbench: false,
  settings: { callers: CALLERS, load_client: LOAD_CLIENT },
  async measure({ world, plan, onStep }) {
    const reserve = new ReserveSide(world, CALLERS);
    const sides = {
      a: async () => perSecond(await reserve.measure(plan.seconds)),
      b: async () => perSecond(await measureEmpty(world, CALLERS, plan.seconds)),
    };
    return { pairs: await runInterleaved(plan.rounds, sides, onStep) };
  },
};

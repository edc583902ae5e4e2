import { runInterleaved } from '../measure/interleave.js';
import { perSecond } from '../measure/measured.js';
import { LOAD_CLIENT, measureStart, ReserveSide } from '../sides/grpc.js';
import type { Ratio } from './ratio.js';

const CALLERS = 32;

/** What a signature and a nonce cost. */
export const b5: Ratio = {
  id: 'B5',
  title: 'a start with a verified proof ÷ a reservation',
  a: `StartExecution over mTLS gRPC, ${CALLERS} callers: proof verified, nonce consumed; proofs are signed before the round`,
  b: `ReserveEffect over mTLS gRPC, ${CALLERS} callers; what it reserves is what is started next`,
  unit: 'per second',
  goal: { at: 'least', value: 0.85 },
  needsPgbench: false,
  settings: { callers: CALLERS, load_client: LOAD_CLIENT, executor_connections: 4 },
  async measure({ world, plan, onStep }) {
    const reserve = new ReserveSide(world, CALLERS, true);
    // A comes first, and there has to be something to start.
    await reserve.measure(plan.seconds);
    const sides = {
      a: async () => perSecond(await measureStart(world, CALLERS, plan.seconds)),
      b: async () => perSecond(await reserve.measure(plan.seconds)),
    };
    return { pairs: await runInterleaved(plan.rounds, sides, onStep) };
  },
};

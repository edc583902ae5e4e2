import { runInterleaved } from '../measure/interleave.js';
import { perSecond } from '../measure/measured.js';
import { LaneSide } from '../sides/lane.js';
import { BATCH_LIMIT } from '../world/bench-world.js';
import type { Ratio } from './ratio.js';

const CALLERS = 64;

/** What the log costs. */
export const b4: Ratio = {
  id: 'B4',
  title: 'with the audit chain ÷ without',
  a: `the lane in process, ${CALLERS} callers, all rules, audit chain on`,
  b:
    'the same in a domain of its own with the chain off: no entry is encoded, no leaf and no chain hash made, no row of ' +
    'audit_entries written, and the head keeps its position and hash; all else is as it is (bench/lane/unchained.ts)',
  unit: 'per second',
  goal: { at: 'least', value: 0.95 },
  needsPgbench: false,
  settings: { callers: CALLERS, batch_limit: BATCH_LIMIT },
  async measure({ world, plan, onStep }) {
    const [on, off] = [new LaneSide(world, CALLERS), new LaneSide(world, CALLERS, false)];
    const sides = {
      a: async () => perSecond(await on.measure(plan.seconds)),
      b: async () => perSecond(await off.measure(plan.seconds)),
    };
    return { pairs: await runInterleaved(plan.rounds, sides, onStep) };
  },
};

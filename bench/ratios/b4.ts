import type { LaneMode } from '../lane/messages.js';
import { runInterleaved } from '../measure/interleave.js';
import { perSecond } from '../measure/measured.js';
import { LaneSide } from '../sides/lane.js';
import { BATCH_LIMIT } from '../world/bench-world.js';
import type { Ratio } from './ratio.js';

const CALLERS = 64;

/** What the chain costs, and what the log does. */
export const b4: readonly Ratio[] = [
  {
    ...chainedAgainst('unchained'),
    title: 'with the audit chain ÷ with entries that are not chained',
    b:
      'the same in a domain of its own with the chain off: entries are encoded and written, but no leaf and no chain hash is made ' +
      '(bench/lane/unchained.ts)',
    goal: { at: 'least', value: 0.95 },
  },
  {
    ...chainedAgainst('unlogged'),
    title: 'with the audit chain ÷ without any log',
    b:
      'the same in a domain of its own without a log: no entry is encoded, no row of audit_entries written, and the head keeps ' +
      'its position and hash; all else is as it is (bench/lane/unchained.ts)',
  },
];

function chainedAgainst(mode: LaneMode): Omit<Ratio, 'title' | 'b'> {
  return {
    id: 'B4',
    a: `the lane in process, ${CALLERS} callers, all rules, audit chain on`,
    unit: 'per second',
    needsPgbench: false,
    settings: { callers: CALLERS, batch_limit: BATCH_LIMIT },
    async measure({ world, plan, onStep }) {
      const [on, off] = [new LaneSide(world, CALLERS), new LaneSide(world, CALLERS, mode)];
      const sides = {
        a: async () => perSecond(await on.measure(plan.seconds)),
        b: async () => perSecond(await off.measure(plan.seconds)),
      };
      return { pairs: await runInterleaved(plan.rounds, sides, onStep) };
    },
  };
}

import { counted, sizesPerEffect } from '../growth/store-figures.js';
import { type GrowthStore, openGrowthStores } from '../growth/growth-stores.js';
import { StoredSide } from '../growth/stored-side.js';
import { Costs } from '../measure/costs.js';
import { runInterleaved } from '../measure/interleave.js';
import { type Measured, perSecond } from '../measure/measured.js';
import { familyTimeMs } from '../measure/processor-time.js';
import { median } from '../measure/statistics.js';
import { Undoing } from '../world/undoing.js';
import { BATCH_LIMIT } from '../world/bench-world.js';
import type { Ratio } from './ratio.js';

const CALLERS = 64;

/** Whether a store that has grown is slower. */
export const b8Stored: Ratio = {
  id: 'B8',
  title: 'with many effects stored ÷ with few',
  a: `the lane in process, ${CALLERS} callers, on a database that holds 5,000,000 effects of 50,000 grants with their receipts, records and log (--quick: 50,000)`,
  b: 'the same on one that holds 5,000, on the same server',
  unit: 'per second',
  goal: { at: 'least', value: 0.9 },
  needsPgbench: false,
  settings: { callers: CALLERS, batch_limit: BATCH_LIMIT },
  async measure({ undoing, plan, onStep, say }) {
    const own = new Undoing();
    undoing.add(() => own.run());
    try {
      const { postgres, events, stores } = await openGrowthStores(own, plan.stored, say);
      const costs = new Costs(() => ({ postgres: () => familyTimeMs(postgres.pid) }));
      const before = { many: await counted(stores.many.sql), few: await counted(stores.few.sql) };
      const side = (name: 'few' | 'many'): StoredSide =>
        new StoredSide(`${name} stored`, stores[name], events, CALLERS, costs);
      const [a, b] = [side('many'), side('few')];
      const sides = {
        a: async () => perSecond(await a.measure(plan.seconds)),
        b: async () => perSecond(await b.measure(plan.seconds)),
      };
      const pairs = await runInterleaved(plan.rounds, sides, onStep);
      const figures = {
        ...costs.take(),
        ...(await figuresOf('many', a, stores.many, before.many)),
        ...(await figuresOf('few', b, stores.few, before.few)),
      };
      return { pairs, figures };
    } finally {
      await own.run();
    }
  },
};

async function figuresOf(
  name: string,
  side: StoredSide,
  store: GrowthStore,
  before: Awaited<ReturnType<typeof counted>>,
): Promise<Record<string, number>> {
  // Its backends tell what they did when they end.
  await store.lane.stop();
  const after = await counted(store.sql);
  const perCall = (value: number): number => Number((value / side.calls).toFixed(2));
  const middle = (of: (round: Measured) => number): number => Number(median(side.rounds.map(of)).toFixed(2));
  return {
    [`${name}: seconds to load`]: store.times.all,
    [`${name}: seconds to load, indexes alone`]: store.times.indexes,
    [`${name}: p50 ms`]: middle(({ p50Ms }) => p50Ms),
    [`${name}: p99 ms`]: middle(({ p99Ms }) => p99Ms),
    [`${name}: blocks per call`]: perCall(after.blocks - before.blocks),
    [`${name}: index entries per call`]: perCall(after.indexEntries - before.indexEntries),
    [`${name}: WAL bytes per call`]: Math.round(side.wal / side.calls),
    [`${name}: scans of whole tables`]: after.seqScans - before.seqScans,
    ...(await sizesPerEffect(store.sql, name)),
  };
}

import { setTimeout as sleep } from 'node:timers/promises';
import type { SideName } from '../measure/interleave.js';
import { median, type Pair } from '../measure/statistics.js';
import type { Plan } from '../plan.js';
import { LOAD_CLIENT, measureStart, ReserveSide } from '../sides/grpc.js';
import type { BenchWorld } from '../world/bench-world.js';
import type { Ratio, RatioContext } from './ratio.js';

const CALLERS = 32;
/** Reserved, and then started, in one go. */
const CHUNK = 10_000;
/** Longer than a chunk takes anywhere. */
const CHUNK_SECONDS = 600;
const BETWEEN_READINGS_MS = 500;

/** Whether memory grows with the number of calls. */
export const b9: Ratio = {
  id: 'B9',
  title: 'memory of the service after many calls ÷ after a tenth of them',
  a: 'resident memory of a service that was started for it, after 1,000,000 calls (--quick: fewer), half of them ReserveEffect and half StartExecution',
  b: 'of the same service after a tenth of those calls',
  unit: 'MiB',
  goal: { at: 'most', value: 1.05 },
  needsPgbench: false,
  settings: { callers: CALLERS, load_client: LOAD_CLIENT },
  async measure(context) {
    const { world, plan } = context;
    await world.restartService();
    const atRest = await readings(world, plan);
    await world.connect();
    const [few, many] = plan.memoryCalls;
    await callUntil(context, 'b', 0, few);
    const b = await readings(world, plan);
    await callUntil(context, 'a', few, many);
    const a = await readings(world, plan);
    const pairs: Pair[] = a.map((value, i) => ({ a: value, b: b[i] as number }));
    const figures = { at_rest_mib: median(atRest), few_calls: few, many_calls: many };
    return { pairs, figures };
  },
};

/** One after the other, once the process has had a while to itself. */
async function readings(world: BenchWorld, plan: Plan): Promise<number[]> {
  await sleep(plan.restMs);
  const values: number[] = [];
  for (let i = 0; i < plan.memoryReadings; i += 1) {
    if (i > 0) await sleep(BETWEEN_READINGS_MS);
    values.push(world.service.residentMib());
  }
  return values;
}

async function callUntil(
  { world, onStep }: RatioContext,
  side: SideName,
  from: number,
  to: number,
): Promise<void> {
  const reserve = new ReserveSide(world, CALLERS, true);
  for (let made = from; made < to; ) {
    const count = Math.max(1, Math.min(CHUNK, Math.ceil((to - made) / 2)));
    const reserved = await reserve.measureCalls(count, CHUNK_SECONDS);
    const started = await measureStart(world, CALLERS, CHUNK_SECONDS);
    made += reserved.calls + started.calls;
    onStep({ side, round: 1 }, world.service.residentMib());
  }
}

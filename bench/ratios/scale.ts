import { runInterleaved } from '../measure/interleave.js';
import { type Measured, perSecond } from '../measure/measured.js';
import { connectionKib } from '../measure/own-memory.js';
import { median } from '../measure/statistics.js';
import { Fleet, SCALE_CALLERS, type Spread } from '../scale/fleet.js';
import type { ReplicaFigure } from '../scale/messages.js';
import {
  addBetween,
  batchFigures,
  NO_COUNTS,
  type ReplicaCounts,
  readCounts,
} from '../scale/replica-metrics.js';
import type { Ratio } from './ratio.js';

const COUNT_NAMES: Readonly<Record<number, string>> = {
  1: 'one process',
  2: 'two processes',
  4: 'four processes',
};
const SPREAD_NAMES: Readonly<Record<Spread, string>> = {
  hot: 'all in one domain',
  even: 'sixteen domains evenly',
};
const LOAD =
  'a process of its own as for B1; a connection for each of four harnesses of a domain, in turn over the replicas';

/** Several services on one database: no goal, but how much they serve together, and how evenly. */
function scale(id: string, replicas: number, spread: Spread): Ratio {
  const what = `ReserveEffect over mTLS gRPC, ${SCALE_CALLERS[spread]} callers, ${SPREAD_NAMES[spread]}`;
  return {
    id,
    title: `${COUNT_NAMES[replicas]} on one database ÷ one, ${SPREAD_NAMES[spread]}`,
    a: `${what}, spread evenly over ${COUNT_NAMES[replicas]}`,
    b: `${what}, on one process`,
    unit: 'per second',
    needsPgbench: false,
    settings: { callers: SCALE_CALLERS[spread], replicas, spread, load_client: LOAD },
    async measure({ world, plan, onStep }) {
      const fleet = await Fleet.of(world);
      fleet.costs.take();
      const rounds: Record<'a' | 'b', Measured[]> = { a: [], b: [] };
      const counts = { a: { ...NO_COUNTS }, b: { ...NO_COUNTS } };
      const side = (name: 'a' | 'b', count: number) => async (step: { readonly round: number }) => {
        const used = fleet.replicas.slice(0, count);
        const before = await readCounts(used);
        const measured = await fleet.measure(spread, count, plan.seconds);
        if (step.round > 0) {
          rounds[name].push(measured);
          addBetween(counts[name], before, await readCounts(used));
        }
        return perSecond(measured);
      };
      const sides = { a: side('a', replicas), b: side('b', 1) };
      const pairs = await runInterleaved(plan.rounds, sides, onStep);
      const kib = await connectionKib(world.sql);
      const figures = {
        ...fairness(rounds.a, replicas),
        ...sideFigures('A', rounds.a, counts.a),
        ...sideFigures('B', rounds.b, counts.b),
        ...fleet.costs.take(),
        ...(kib === undefined ? {} : { 'postgres: KiB of a connection of its own': kib }),
      };
      return { pairs, figures };
    },
  };
}

/** How evenly the replicas served; the callers wait for their answers, so a replica that is slower is called less. */
function fairness(rounds: readonly Measured[], replicas: number): Readonly<Record<string, number>> {
  const of = ({ figures = {} }: Measured, figure: ReplicaFigure): number[] =>
    Array.from({ length: replicas }, (_, i) => figures[`${figure}_${i}`] ?? 0);
  const sum = Array.from({ length: replicas }, (_, i) =>
    rounds.reduce((all, round) => all + (of(round, 'calls')[i] ?? 0), 0),
  );
  const all = sum.reduce((a, b) => a + b, 0);
  const leastOverGreatest = (values: readonly number[]): number => Math.min(...values) / Math.max(...values);
  return {
    ...Object.fromEntries(
      sum.map((calls, i) => [`replica ${i + 1}: share of the calls`, digits(calls / all)]),
    ),
    'least share ÷ greatest share': digits(leastOverGreatest(sum)),
    'least share ÷ greatest share, worst round': digits(
      Math.min(...rounds.map((round) => leastOverGreatest(of(round, 'calls')))),
    ),
    'greatest p99 of a replica, ms': digits(Math.max(...rounds.flatMap((round) => of(round, 'p99_ms')))),
    'longest time without an answer of a replica, ms': digits(
      Math.max(...rounds.flatMap((round) => of(round, 'longest_silence_ms'))),
    ),
  };
}

function sideFigures(
  side: string,
  rounds: readonly Measured[],
  counts: ReplicaCounts,
): Readonly<Record<string, number>> {
  const figures = {
    'p50, ms': digits(median(rounds.map(({ p50Ms }) => p50Ms))),
    'p99, ms': digits(median(rounds.map(({ p99Ms }) => p99Ms))),
    ...batchFigures(counts),
  };
  return Object.fromEntries(Object.entries(figures).map(([name, value]) => [`${side}: ${name}`, value]));
}

function digits(value: number): number {
  return Number(value.toFixed(3));
}

export const SCALES: readonly Ratio[] = [
  scale('S1', 2, 'hot'),
  scale('S2', 4, 'hot'),
  scale('S3', 2, 'even'),
  scale('S4', 4, 'even'),
];

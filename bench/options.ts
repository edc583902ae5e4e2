import { parseArgs } from 'node:util';
import { ON_REQUEST, RATIOS } from './ratios/all.js';
import type { Ratio } from './ratios/ratio.js';

export const BENCH_HELP = `npm run bench -- [--json] [--only B1,B3] [--quick] [--profile <folder>]

Measures the ratios of docs/performance.md, both sides of each in turn in the same run, and prints a table. What it does
meanwhile goes to the standard error; the run as JSON and as a chart goes to bench/out.

  --json              prints the run as one JSON document and nothing else (npm run --silent bench -- --json)
  --only <ids>        only these, separated by commas; S1 to S4, several services on one database, run only so
  --quick             few short rounds: whether it works, not how fast it is
  --profile <folder>  has the service, the lane and the load write CPU profiles there; the profiler costs something`;

const ALL: readonly Ratio[] = [...RATIOS, ...ON_REQUEST];

/** How the benchmark was called. */
export interface BenchOptions {
  readonly json: boolean;
  readonly quick: boolean;
  readonly help: boolean;
  readonly ratios: readonly Ratio[];
  readonly profile: string | undefined;
}

/** The benchmark was called in a way that it does not understand. */
export class BenchUsage extends Error {
  override readonly name = 'BenchUsage';
}

/** @throws BenchUsage in a sentence for who called */
export function readOptions(args: readonly string[]): BenchOptions {
  const { values } = parse(args);
  const { json, quick, help, only, profile } = values;
  return { json, quick, help, profile, ratios: only === undefined ? RATIOS : chosen(only) };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        json: { type: 'boolean', default: false },
        quick: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
        only: { type: 'string' },
        profile: { type: 'string' },
      },
    });
  } catch {
    throw new BenchUsage(`cannot be called like that\n\n${BENCH_HELP}`);
  }
}

function chosen(only: string): readonly Ratio[] {
  const wanted = only.split(',').map((id) => id.trim().toUpperCase());
  for (const id of wanted) {
    if (!ALL.some((ratio) => ratio.id === id)) {
      throw new BenchUsage(
        `there is no ${id}; there are ${[...new Set(ALL.map((ratio) => ratio.id))].join(', ')}`,
      );
    }
  }
  return ALL.filter(({ id }) => wanted.includes(id));
}

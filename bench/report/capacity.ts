import { type BenchResult, type RatioResult, rounded } from './result.js';

/** One line of the capacity model: what it is, in which unit, and where the run says it. */
interface CapacityRow {
  readonly what: string;
  readonly unit: string;
  /** The ratio's id, and the name within its `figures`, or the median of a side. */
  readonly from: readonly [id: string, figure: string];
}

const row = (what: string, unit: string, id: string, figure: string): CapacityRow => ({
  what,
  unit,
  from: [id, figure],
});

/** What docs/capacity.md computes with. */
const ROWS: readonly CapacityRow[] = [
  row('a reservation, service', 'µs of processor', 'B1', 'ReserveEffect, service: µs of processor'),
  row('a reservation, Postgres', 'µs of processor', 'B1', 'ReserveEffect, postgres: µs of processor'),
  row('a start with its proof, service', 'µs of processor', 'B5', 'StartExecution, service: µs of processor'),
  row(
    'a start with its proof, Postgres',
    'µs of processor',
    'B5',
    'StartExecution, postgres: µs of processor',
  ),
  row('a whole life, service', 'µs of processor', 'B6', 'a life, service: µs of processor'),
  row('a whole life, Postgres', 'µs of processor', 'B6', 'a life, postgres: µs of processor'),
  row('a reservation in WAL', 'bytes', 'B1', 'ReserveEffect: bytes of WAL without full page images'),
  row('a reservation in full page images', 'bytes', 'B1', 'ReserveEffect: bytes of full page images'),
  row('a reservation in tables', 'bytes', 'B1', 'ReserveEffect: bytes stored in tables'),
  row('a reservation in indexes', 'bytes', 'B1', 'ReserveEffect: bytes stored in indexes'),
  row('a whole life in WAL', 'bytes', 'B6', 'a life: bytes of WAL without full page images'),
  row('a whole life in tables', 'bytes', 'B6', 'a life: bytes stored in tables'),
  row('a whole life in indexes', 'bytes', 'B6', 'a life: bytes stored in indexes'),
  row('one domain, over gRPC, 32 callers', 'per second', 'B1', 'a.median'),
  row('one domain, lane in process, 64 callers', 'per second', 'B3', 'a.median'),
  row('two services, one domain ÷ one service', '', 'S1', 'ratio'),
  row('four services, one domain ÷ one service', '', 'S2', 'ratio'),
  row('two services, sixteen domains ÷ one service', '', 'S3', 'ratio'),
  row('four services, sixteen domains ÷ one service', '', 'S4', 'ratio'),
  row('least ÷ greatest share, four services, one domain', '', 'S2', 'least share ÷ greatest share'),
  row('least ÷ greatest share, four services, sixteen domains', '', 'S4', 'least share ÷ greatest share'),
  row("a connection's memory in Postgres", 'KiB', 'S4', 'postgres: KiB of a connection of its own'),
  row('memory of a service at rest', 'MiB', 'B9', 'at_rest_mib'),
  row('memory of a service after many calls', 'MiB', 'B9', 'a.median'),
];

/** The figures of the capacity model as a table in Markdown; undefined where the run has none of them. */
export function capacityOf(result: BenchResult): string | undefined {
  const lines = ROWS.flatMap(({ what, unit, from: [id, figure] }) => {
    const found = result.ratios.filter((ratio) => ratio.id === id).map((ratio) => figureOf(ratio, figure));
    const value = found.find((one) => one !== undefined);
    return value === undefined
      ? []
      : [`| ${what} | ${rounded(value)}${unit && ` ${unit}`} | ${id} \`${figure}\` |`];
  });
  if (lines.length === 0) return undefined;
  const { machine, quick, started } = result;
  const about = `${started.slice(0, 10)}, ${machine['cpus']} × ${machine['cpu']}, load ${machine['load_before']} before the run`;
  return [
    `${about}${quick ? '; a quick run, which says nothing' : ''}`,
    '',
    '| figure | value | from |',
    '|---|---|---|',
    ...lines,
    '',
  ].join('\n');
}

function figureOf(ratio: RatioResult, figure: string): number | undefined {
  if (figure === 'ratio') return ratio.ratio;
  if (figure === 'a.median') return ratio.a.median;
  return ratio.figures[figure];
}

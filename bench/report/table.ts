import type { BenchResult, RatioResult } from './result.js';

/** The run for people. */
export function tableOf(result: BenchResult): string {
  const rows = result.ratios.map(cells);
  const head = ['', 'ratio', 'spread', 'goal', '', 'A', 'B', 'what'];
  const widths = head.map((text, i) => Math.max(text.length, ...rows.map((row) => (row[i] ?? '').length)));
  const line = (row: readonly string[]): string =>
    row
      .map((text, i) => (i === row.length - 1 ? text : text.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd();
  const { machine } = result;
  return [
    line(head),
    ...rows.map(line),
    '',
    `${machine['cpus']} × ${machine['cpu']}, ${machine['memory_gib']} GiB, load ${machine['load_before']} before and ` +
      `${machine['load_after']} after the run; ${Object.entries(result.versions)
        .map(([name, version]) => `${name} ${version}`)
        .join(', ')}`,
    ...result.blocked.map(({ name, reason }) => `Blocked: ${name}: ${reason}`),
    ...(result.quick ? ['A quick run: whether it works, not how fast it is.'] : []),
  ].join('\n');
}

function cells({ id, name, ratio, min, max, goal, reached, unit, a, b }: RatioResult): string[] {
  return [
    id,
    String(ratio),
    `${min} to ${max}`,
    ...(goal
      ? [`${goal.at === 'least' ? '≥' : '≤'} ${goal.value}`, reached ? 'reached' : 'not reached']
      : ['', '']),
    `${a.median} ${unit}`,
    `${b.median} ${unit}`,
    name.slice(id.length + 1),
  ];
}

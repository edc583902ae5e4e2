import type { CaseResult } from './runner.js';

/** A wider one would not fit beside the rest on a screen. */
const MAX_WHY = 120;

/** The results as a table for people, without a last line break. */
export function resultTable(results: readonly CaseResult[]): string {
  const rows = [
    ['case', 'rule', 'result', 'why'],
    ...results.map(({ id, rule, passed, why }) => [id, rule, passed ? 'passed' : 'FAILED', shorten(why)]),
  ];
  const widths = [0, 1, 2].map((column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** The results as `--json` prints them. */
export function resultDocument(target: string, results: readonly CaseResult[]) {
  const failed = results.filter(({ passed }) => !passed).length;
  return { target, passed: results.length - failed, failed, cases: results };
}

function shorten(why: string): string {
  return why.length <= MAX_WHY ? why : `${why.slice(0, MAX_WHY - 1)}…`;
}

import { expect, test } from 'vitest';
import { capacityOf } from '../../bench/report/capacity.js';
import type { BenchResult, RatioResult } from '../../bench/report/result.js';

const side = { what: '', median: 4321.5, min: 0, max: 0 };

function ratio(id: string, figures: Readonly<Record<string, number>>): RatioResult {
  return {
    ...{ name: id, id, ratio: 0.75, min: 0, max: 0, rounds: 5, unit: 'per second', a: side, b: side },
    ...{ figures, settings: {}, versions: {} },
  };
}

function result(ratios: readonly RatioResult[]): BenchResult {
  return {
    ...{ benchmark: 'surety', started: '2026-01-02T03:04:05Z', finished: '', quick: false, ratios },
    machine: { cpus: 2, cpu: 'a processor', load_before: 0.1 },
    ...{ versions: {}, settings: {}, blocked: [] },
  };
}

test('a run gives the table of docs/capacity.md, as far as it has measured it', () => {
  const figures = { 'ReserveEffect, service: µs of processor': 123, 'something else': 1 };
  const text = capacityOf(result([ratio('S2', {}), ratio('B1', figures)]));
  expect(text?.split('\n')).toEqual([
    '2026-01-02, 2 × a processor, load 0.1 before the run',
    '',
    '| figure | value | from |',
    '|---|---|---|',
    '| a reservation, service | 123 µs of processor | B1 `ReserveEffect, service: µs of processor` |',
    '| one domain, over gRPC, 32 callers | 4322 per second | B1 `a.median` |',
    '| four services, one domain ÷ one service | 0.75 | S2 `ratio` |',
    '',
  ]);
});

test('a run that measured none of it gives none', () => {
  expect(capacityOf(result([ratio('B7', {})]))).toBeUndefined();
});

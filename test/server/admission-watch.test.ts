import { readFileSync } from 'node:fs';
import { Registry } from 'prom-client';
import { beforeEach, describe, expect, it } from 'vitest';
import { newSink } from '../../src/ledger/admission/records.js';
import { refusal } from '../../src/ledger/refusal.js';
import { MINUTE } from '../../src/ledger/types.js';
import { AdmissionMetrics } from '../../src/server/admission-metrics.js';
import { AdmissionWatch, MAX_WATCHED, type WatchedSink } from '../../src/server/admission-watch.js';
import { Metrics } from '../../src/server/metrics.js';
import type { Reader } from '../../src/store/reader.js';

// effects.md, Cost of not knowing: metrics and an alert condition, of a bounded size and once per change.

const NOW = 1_000_000_000n;

function sink(over: Partial<WatchedSink> = {}): WatchedSink {
  return {
    ...{ domainId: 'acme.test', sink: 'bank', breaker: 'closed', unknown: 1, unknownCeiling: 3 },
    ...{ unknownAge: MINUTE, oldestUnknownAt: NOW - MINUTE, readAt: NOW },
    ...over,
  };
}

let sinks: readonly WatchedSink[];
let away: boolean;
let lines: { readonly excess: string; readonly sink: string; readonly message: string }[];
let watch: AdmissionWatch;

beforeEach(() => {
  [sinks, away, lines] = [[], false, []];
  const reader: Pick<Reader, 'query'> = {
    query: async <Row>(name: string, [limit]: readonly unknown[]) => {
      if (away) throw new Error('away');
      return (name === 'watched_sinks' ? sinks.slice(0, Number(limit)) : []) as Row[];
    },
  };
  watch = new AdmissionWatch(reader, {
    warn: (fields, message) => void lines.push({ ...(fields as { excess: string; sink: string }), message }),
  });
});

/** What a look adds to the log. */
async function look(...found: readonly WatchedSink[]): Promise<string[]> {
  sinks = found;
  const before = lines.length;
  await watch.look();
  return lines
    .slice(before)
    .map(
      ({ sink: name, excess, message }) => `${name} ${excess} ${message.includes('again') ? 'back' : 'over'}`,
    );
}

describe('the log', () => {
  it('tells of each excess when it begins and when it ends, and never in between', async () => {
    expect(await look(sink())).toEqual([]);
    const old = sink({ oldestUnknownAt: NOW - MINUTE - 1n });
    expect(await look(old)).toEqual(['bank unknown_age over']);
    expect(await look(old)).toEqual([]);
    const many = sink({ unknown: 3, oldestUnknownAt: NOW });
    expect(await look(many)).toEqual(['bank unknown_ceiling over', 'bank unknown_age back']);
    expect(await look(many, sink({ domainId: 'other.test', unknown: 4 }))).toEqual([
      'bank unknown_ceiling over',
    ]);
    expect(await look()).toEqual(['bank unknown_ceiling back', 'bank unknown_ceiling back']);
    expect(await look()).toEqual([]);
  });

  it('does not take what is left out for mended', async () => {
    const named = (i: number) =>
      sink({ sink: `sink-${i}`, unknown: 0, oldestUnknownAt: null, breaker: 'open' });
    const many = Array.from({ length: MAX_WATCHED + 1 }, (_, i) => named(i));
    expect(await look(sink({ unknown: 3 }))).toEqual(['bank unknown_ceiling over']);
    expect(await look(...many)).toEqual([]);
    expect(watch.reading).toMatchObject({ leftOut: { sinks: true, domains: false } });
    expect(watch.reading.sinks).toHaveLength(MAX_WATCHED);
    expect(await look(named(1))).toEqual(['bank unknown_ceiling back']);
  });
});

describe('the gauges', () => {
  it('keep what was read last where the store is away, and say how old it is', async () => {
    await look(sink({ breaker: 'half_open' }));
    const { atMs } = watch.reading;
    away = true;
    await expect(watch.look()).rejects.toThrow('away');
    const registry = new Registry();
    const metrics = new AdmissionMetrics(registry);
    metrics.watch(() => watch.reading);
    const text = await registry.metrics();
    expect(text).toContain('surety_sink_oldest_unknown_age_seconds{domain="acme.test",sink="bank"} 60\n');
    expect(text).toContain('surety_sink_breaker_state{domain="acme.test",sink="bank",state="half_open"} 1\n');
    expect(text).toContain(`surety_admission_last_read_timestamp_seconds ${atMs / 1000}\n`);
  });

  it('forget a sink that has nothing more to tell', async () => {
    const registry = new Registry();
    const metrics = new AdmissionMetrics(registry);
    metrics.watch(() => watch.reading);
    await look(sink());
    expect(await registry.metrics()).toContain('sink="bank"');
    await look();
    expect(await registry.metrics()).not.toContain('sink="bank"');
  });
});

describe('the counters', () => {
  it('count refusals by their quota, and changes of breakers, of which two are told', async () => {
    const registry = new Registry();
    const metrics = new AdmissionMetrics(registry);
    const changes: string[] = [];
    const change = (
      from: 'closed' | 'open' | 'half_open' | undefined,
      to: 'closed' | 'open' | 'half_open',
    ) => ({
      table: 'sink_counters' as const,
      before: from && { ...newSink('bank'), breaker: from },
      after: { ...newSink('bank'), breaker: to },
    });
    const rows = [change(undefined, 'closed'), change('closed', 'open'), change('open', 'half_open')];
    const batch = { domainId: 'acme.test', rows: [...rows, change('half_open', 'closed')] };
    metrics.committed({ ...batch, admitted: { ordinary: 3, safety: 2 } }, (...told) =>
      changes.push(told.join(' ')),
    );
    expect(changes).toEqual(['acme.test bank open', 'acme.test bank closed']);
    const refuse = (name: string | undefined, reason: 'QUOTA_EXHAUSTED' | 'CIRCUIT_OPEN' | 'NOT_VISIBLE') =>
      metrics.answered({
        ...{ ok: false, recorded: false },
        refusal: refusal(reason, 'No.', name === undefined ? {} : { resource: { type: 'quota', name } }),
      });
    refuse('pending_work', 'QUOTA_EXHAUSTED');
    refuse(undefined, 'CIRCUIT_OPEN');
    refuse(undefined, 'NOT_VISIBLE');
    const text = await registry.metrics();
    expect(text).toContain('surety_admitted_calls_total{lane="ordinary"} 3\n');
    expect(text).toContain('surety_admitted_calls_total{lane="safety"} 2\n');
    expect(text).toContain('surety_breaker_changes_total{state="half_open"} 1\n');
    expect(text).toContain(
      'surety_admission_refusals_total{reason="QUOTA_EXHAUSTED",quota="pending_work"} 1\n',
    );
    expect(text).toContain('surety_admission_refusals_total{reason="CIRCUIT_OPEN",quota=""} 1\n');
    expect(text).not.toContain('NOT_VISIBLE');
  });
});

it('the example alerts ask for metrics that there are', async () => {
  const metrics = new Metrics();
  metrics.laneObserver({ regressed: () => {}, breaker: () => {} });
  metrics.admission.watch(() => watch.reading);
  const rules = readFileSync(new URL('../../docs/alerts/surety.rules.yml', import.meta.url), 'utf8');
  const asked = new Set(rules.match(/\bsurety_\w+?(?=_(?:bucket|count)\b|\b)/g));
  const names = new Set((await metrics.registry.getMetricsAsJSON()).map(({ name }) => name));
  expect(asked.size).toBeGreaterThan(10);
  expect([...asked].filter((name) => !names.has(name))).toEqual([]);
});

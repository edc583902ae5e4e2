import { describe, expect, test } from 'vitest';
import { canonicalDigest, sha256 } from '../../../src/ledger/encoding.js';
import {
  checkToolOutput,
  deriveToolOutput,
  type ToolOutputInput,
} from '../../../src/ledger/provenance/derive-tool-output.js';
import { verifyRecord } from '../../../src/ledger/provenance/provenance-digest.js';
import type { ProvenanceRow } from '../../../src/ledger/provenance/records.js';
import { Refused } from '../../../src/ledger/run-decision.js';
import { HOUR, MINUTE, SECOND } from '../../../src/ledger/types.js';
import { Draft, type WorkingSet } from '../../../src/ledger/working-set.js';
import { FIXTURE_DOMAIN, FIXTURE_NOW, workingSet } from '../../support/ledger-fixture.js';
import { effectRow, eventRecord, eventRow } from './provenance-fixture.js';

const OUTPUT_KEY = ['tool_output', 'effect-output:eff-1', 1n] as const;

function input(over: Partial<ToolOutputInput> = {}): ToolOutputInput {
  return {
    effect: effectRow(),
    event: eventRow(),
    parent: eventRecord(),
    role: 'effect_executor',
    registrationId: 'reg-1',
    workloadId: 'payments',
    credentialEpoch: 3n,
    outputDigest: sha256('receipt'),
    completedTime: FIXTURE_NOW - SECOND,
    now: FIXTURE_NOW,
    ...over,
  };
}

/** Derives into a set of its own. */
function derived(over: Partial<ToolOutputInput> = {}): { set: WorkingSet; record: ProvenanceRow } {
  const set = workingSet({ absent: { provenance_records: [OUTPUT_KEY] } });
  const draft = new Draft(set);
  const record = deriveToolOutput(draft, input(over));
  set.apply(draft);
  set.markIndex('stepsOfRecord', [record.provenanceDigest]);
  set.markIndex('parentsOfRecord', [record.provenanceDigest]);
  return { set, record };
}

/** What a later transaction reads of an earlier one's rows; each can be changed on the way. */
function stored(
  change: (rows: { record: ProvenanceRow; steps: object[]; parents: object[] }) => void = () => {},
) {
  const { set, record } = derived();
  const rows = {
    record,
    steps: [...set.changes().rows.filter((row) => row.table === 'provenance_steps')].map((row) => ({
      ...row.after,
    })),
    parents: [...set.changes().rows.filter((row) => row.table === 'provenance_parents')].map((row) => ({
      ...row.after,
    })),
  };
  change(rows);
  return new Draft(
    workingSet({
      rows: {
        provenance_records: [rows.record],
        provenance_steps: rows.steps as never,
        provenance_parents: rows.parents as never,
      },
      indexes: {
        stepsOfRecord: [[rows.record.provenanceDigest]],
        parentsOfRecord: [[rows.record.provenanceDigest]],
      },
    }),
  );
}

function reasonOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof Refused) return error.refusal.reason;
    throw error;
  }
  return 'none';
}

describe('the tool output of an effect (provenance-audit-replay.md)', () => {
  test('is one record with the event as its only parent and one step of kind tool', () => {
    const { set, record } = derived();
    const rows = set.changes().rows;
    const steps = rows.flatMap((row) => (row.table === 'provenance_steps' ? [row.after] : []));
    expect(record).toMatchObject({
      objectType: 'tool_output',
      objectId: 'effect-output:eff-1',
      version: 1n,
      classification: 2,
      policyRevision: 1n,
      allowedSinks: [],
      tainted: true,
      reviewed: false,
      scanPending: true,
      originKind: null,
    });
    expect(record.contentDigest).toEqual(sha256('receipt'));
    expect(record.parentDigests).toEqual([eventRecord().provenanceDigest]);
    expect(rows.filter((row) => row.table === 'provenance_parents')).toHaveLength(1);
    expect(steps).toEqual([
      {
        provenanceDigest: record.provenanceDigest,
        ordinal: 0,
        kind: 'tool',
        operation: canonicalDigest('surety-tool-operation-v1', [
          FIXTURE_DOMAIN,
          'eff-1',
          'attempt-1',
        ]).toString('hex'),
        implementation: 'effect_executor:reg-1',
        implementationVersion: '3',
        executor: 'payments',
        inputDigests: [eventRecord().contentDigest],
        outputDigest: sha256('receipt'),
        startedAt: FIXTURE_NOW - MINUTE,
        completedAt: FIXTURE_NOW - SECOND,
      },
    ]);
    expect(verifyRecord(FIXTURE_DOMAIN, record, steps as never)).toBe(true);
    expect(rows.filter((row) => row.table === 'audit_entries')).toHaveLength(0);
  });

  test.each([
    ['before the start', FIXTURE_NOW - HOUR, FIXTURE_NOW - MINUTE],
    ['after now', FIXTURE_NOW + SECOND, FIXTURE_NOW],
    ['between', FIXTURE_NOW - 5n * SECOND, FIXTURE_NOW - 5n * SECOND],
  ])('clamps an evidence time %s to [started, now]', (_, completedTime, expected) => {
    const { set } = derived({ completedTime });
    const step = set.changes().rows.find((row) => row.table === 'provenance_steps')?.after as {
      completedAt: bigint;
    };
    expect(step.completedAt).toBe(expected);
  });

  test('a start by a fast clock does not make a step that ends before it began', () => {
    const { set } = derived({ effect: effectRow({ startedAt: FIXTURE_NOW + 30n * SECOND }) });
    const step = set.changes().rows.find((row) => row.table === 'provenance_steps')?.after as {
      completedAt: bigint;
    };
    expect(step.completedAt).toBe(FIXTURE_NOW + 30n * SECOND);
  });

  test('is refused where the parent is missing, of another event, or changed', () => {
    const draft = () => new Draft(workingSet({ absent: { provenance_records: [OUTPUT_KEY] } }));
    expect(reasonOf(() => deriveToolOutput(draft(), input({ parent: undefined })))).toBe(
      'PROVENANCE_MISSING',
    );
    const other = eventRecord({ contentDigest: sha256('other') });
    expect(reasonOf(() => deriveToolOutput(draft(), input({ parent: other })))).toBe('PROVENANCE_MISSING');
    const changed = { ...eventRecord(), tainted: false };
    expect(reasonOf(() => deriveToolOutput(draft(), input({ parent: changed })))).toBe('DATA_CORRUPT');
  });

  test('a second output is a conflict', () => {
    const { set } = derived();
    expect(reasonOf(() => deriveToolOutput(new Draft(set), input()))).toBe('PROVENANCE_CONFLICT');
  });

  describe('a duplicate terminal call checks it again', () => {
    test('and finds the same, also later', () => {
      const { record } = derived();
      const found = checkToolOutput(stored(), input({ now: FIXTURE_NOW + HOUR }));
      expect(found.provenanceDigest).toEqual(record.provenanceDigest);
    });

    test.each<[string, Partial<ToolOutputInput>]>([
      ['output', { outputDigest: sha256('another') }],
      ['registration', { registrationId: 'reg-2' }],
      ['credential epoch', { credentialEpoch: 4n }],
      ['workload', { workloadId: 'payouts' }],
      ['role', { role: 'effect_reconciler' }],
      ['attempt', { effect: effectRow({ attemptId: 'attempt-2' }) }],
      ['digest in the effect', { effect: effectRow({ outputDigest: sha256('x') }) }],
    ])('another %s is a conflict', (_, over) => {
      expect(reasonOf(() => checkToolOutput(stored(), input(over)))).toBe('PROVENANCE_CONFLICT');
    });

    test('a changed record, step or edge is named', () => {
      const check = (change: Parameters<typeof stored>[0]) =>
        reasonOf(() => checkToolOutput(stored(change), input()));
      expect(check((rows) => (rows.record = { ...rows.record, allowedSinks: ['*'] }))).toBe('DATA_CORRUPT');
      expect(check((rows) => (rows.steps[0] = { ...rows.steps[0], executor: 'somebody' }))).toBe(
        'DATA_CORRUPT',
      );
      expect(check((rows) => rows.steps.pop())).toBe('DATA_CORRUPT');
      expect(check((rows) => rows.parents.pop())).toBe('DATA_CORRUPT');
    });

    test('a missing record is named', () => {
      const draft = new Draft(workingSet({ absent: { provenance_records: [OUTPUT_KEY] } }));
      expect(reasonOf(() => checkToolOutput(draft, input()))).toBe('DATA_CORRUPT');
    });
  });
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sha256 } from '../../../src/ledger/encoding.js';
import type { Clearance } from '../../../src/ledger/provenance/clearance.js';
import { deriveRecord, type DeriveRecordCommand } from '../../../src/ledger/provenance/derive-record.js';
import { originRecord } from '../../../src/ledger/provenance/origin.js';
import { putRecord } from '../../../src/ledger/provenance/put-record.js';
import type { ClearanceReceiptRow, ProvenanceRow } from '../../../src/ledger/provenance/records.js';
import { runDecision } from '../../../src/ledger/run-decision.js';
import type { DataClass } from '../../../src/ledger/types.js';
import { Draft, type WorkingSet } from '../../../src/ledger/working-set.js';
import { OLGA, OTTO, operatorRow, receipt, setWithApprovers } from './clearance-fixture.js';
import { derivation, reference, step } from './derivation-fixture.js';
import { origin } from './provenance-fixture.js';

// Random histories: origins of any class and sinks, then derivations that often break a rule, with receipts that are often
// not good. Whatever was accepted must keep what the design promises, told here by a model of its own.

const RECORDS = 24;
const SINKS = ['*', 'a', 'b', 'c'];

/** What a caller tries; numbers choose among what there is. */
interface Attempt {
  readonly parents: readonly number[];
  readonly classification: DataClass;
  readonly sinks: readonly string[];
  readonly clearance: Receipts;
  readonly revision: number | null;
  readonly bumpRevision: boolean;
}

const RECEIPTS = [
  'none',
  'good',
  'review only',
  'one approver',
  'one key',
  'other content',
  'used before',
  'two scans',
  'expired',
] as const;
type Receipts = (typeof RECEIPTS)[number];

const classes = fc.constantFrom<DataClass>(1, 2, 3, 4);
const sinkSets = fc.subarray(SINKS).map((sinks) => (sinks.includes('*') ? ['*'] : sinks));
const origins = fc.array(fc.record({ classification: classes, sinks: sinkSets }), {
  minLength: 1,
  maxLength: 4,
});
const attempts = fc.array(
  fc.record({
    parents: fc.array(fc.nat(), { minLength: 1, maxLength: 3 }),
    classification: classes,
    sinks: sinkSets,
    clearance: fc.constantFrom(...RECEIPTS),
    revision: fc.option(fc.nat(2), { freq: 3 }),
    bumpRevision: fc.boolean(),
  }),
  { minLength: 1, maxLength: RECORDS },
);

/** A history as it runs: what is recorded, and the receipts that were used. */
class History {
  readonly set: WorkingSet;
  readonly records: ProvenanceRow[] = [];
  readonly refusals = new Map<string, number>();
  private used: Clearance[] = [];

  constructor() {
    const keys = [...Array(RECORDS).keys()];
    // Otto has two keys, one here and one in the service's own domain, and the latter is Olga's too.
    const platform = operatorRow({ signingKeyThumbprint: 'olga-key' });
    this.set = setWithApprovers({ platform }, [], {
      absent: { provenance_records: keys.map((i) => ['model_output', `answer-${i}`, 1n]) },
    });
    for (const approver of [OLGA, OTTO]) {
      for (const i of keys) {
        for (const purpose of ['review', 'scan'] as const) {
          this.set.markKey('clearance_receipts', [approver, receiptId(purpose, i)]);
        }
      }
    }
  }

  start(index: number, classification: DataClass, allowedSinks: readonly string[]): void {
    const draft = new Draft(this.set);
    const objectId = `origin-${index}`;
    const content = { objectType: 'artifact', objectId, version: 1n, predecessorDigest: null } as const;
    const more = { contentDigest: sha256(objectId), classification, allowedSinks, origin: origin() };
    const record = originRecord(draft, { ...content, ...more });
    putRecord(draft, record);
    this.set.apply(draft);
    this.records.push(record);
  }

  try(index: number, attempt: Attempt): void {
    const { domain } = this.set;
    if (attempt.bumpRevision) this.set.domain = { ...domain, policyRevision: domain.policyRevision + 1n };
    const chosen = new Set(
      attempt.parents.map((n) => this.records[n % this.records.length] as ProvenanceRow),
    );
    const parents = [...chosen];
    const objectId = `answer-${index}`;
    const content: Partial<DeriveRecordCommand> = {
      objectId,
      classification: attempt.classification,
      allowedSinks: attempt.sinks,
      policyRevision:
        attempt.revision === null ? null : this.set.domain.policyRevision - BigInt(attempt.revision),
      contentDigest: sha256(objectId),
      parents: parents.map(reference),
      steps: [step([], objectId, { inputDigests: parents.map((parent) => parent.contentDigest) })],
    };
    if ((content.policyRevision ?? 1n) < 1n) return;
    const clearances = this.receipts(attempt.clearance, index, content);
    const outcome = runDecision(this.set, deriveRecord, derivation({ ...content, clearances }));
    if (outcome.ok) {
      this.records.push(outcome.reply.record);
      if (clearances.length > 0) this.used = clearances;
      return;
    }
    const { reason, metadata } = outcome.refusal;
    const name = metadata?.['rule'] ?? reason;
    this.refusals.set(name, (this.refusals.get(name) ?? 0) + 1);
  }

  /** The rows that were written, apart from what the decision answered. */
  written(table: 'clearance_receipts') {
    return this.set.changes().rows.flatMap((row) => (row.table === table && row.after ? [row.after] : []));
  }

  private receipts(kind: Receipts, index: number, content: Partial<DeriveRecordCommand>): Clearance[] {
    const one = (purpose: 'review' | 'scan', over: Partial<Clearance> = {}, of = content): Clearance =>
      receipt(this.set, purpose, of, { receiptId: receiptId(purpose, index), ...over });
    const [review, scan] = [one('review'), one('scan')];
    switch (kind) {
      case 'none':
        return [];
      case 'good':
        return [review, scan];
      case 'review only':
        return [review];
      case 'one approver':
        return [one('review', { approverSpiffeId: OTTO }), scan];
      case 'one key':
        return [review, one('scan', { keyThumbprint: 'olga-key' })];
      case 'other content':
        return [review, one('scan', {}, { ...content, contentDigest: sha256('other') })];
      case 'used before':
        return this.used.length > 0 ? this.used : [review];
      case 'two scans':
        return [one('review', { purpose: 'scan' }), scan];
      case 'expired':
        return [review, one('scan', { expiresAt: 0n })];
    }
  }
}

function receiptId(purpose: string, index: number): string {
  return `receipt-of-${purpose}-${index}`;
}

/** Where a record may go, as the set of names that are told apart; `*` is any. */
function may(record: ProvenanceRow, sink: string): boolean {
  return record.allowedSinks.includes('*') || record.allowedSinks.includes(sink);
}

function ancestors(records: readonly ProvenanceRow[], record: ProvenanceRow): ProvenanceRow[] {
  const byDigest = new Map(records.map((row) => [row.provenanceDigest.toString('hex'), row]));
  const found = new Set<ProvenanceRow>();
  const visit = (row: ProvenanceRow): void => {
    for (const digest of row.parentDigests) {
      const parent = byDigest.get(digest.toString('hex'));
      if (!parent) throw new Error('a parent is not recorded');
      if (found.has(parent)) continue;
      found.add(parent);
      visit(parent);
    }
  };
  visit(record);
  return [...found];
}

describe('random histories of derivations', () => {
  const seen = new Map<string, number>();
  const count = (name: string, by = 1) => seen.set(name, (seen.get(name) ?? 0) + by);

  test('taint goes only with two receipts, classes never fall and sinks never widen along any path', () => {
    fc.assert(
      fc.property(origins, attempts, (starts, tries) => {
        const history = new History();
        for (const [i, { classification, sinks }] of starts.entries())
          history.start(i, classification, sinks);
        for (const [i, attempt] of tries.entries()) history.try(i, attempt);
        const receipts = history.written('clearance_receipts') as ClearanceReceiptRow[];
        const usedOnce = new Set(receipts.map((row) => `${row.approverSpiffeId} ${row.receiptId}`));
        expect(usedOnce.size).toBe(receipts.length);
        for (const record of history.records) {
          const own = receipts.filter((row) => row.provenanceDigest.equals(record.provenanceDigest));
          const pair = own.length === 2 && new Set(own.map((row) => row.purpose)).size === 2;
          const apart =
            new Set(own.map((row) => row.approverSpiffeId)).size === 2 &&
            new Set(own.map((row) => row.signingKeyThumbprint)).size === 2;
          expect(record.tainted).toBe(!(pair && apart));
          for (const ancestor of ancestors(history.records, record)) {
            expect(record.classification).toBeGreaterThanOrEqual(ancestor.classification);
            expect(record.policyRevision).toBeGreaterThanOrEqual(ancestor.policyRevision);
            for (const sink of [...SINKS, 'elsewhere']) {
              if (may(record, sink)) expect(may(ancestor, sink)).toBe(true);
            }
          }
          count(record.tainted ? 'tainted' : 'clean');
          if (record.parentDigests.length > 0) count('derived');
        }
        for (const [name, times] of history.refusals) count(name, times);
      }),
      { numRuns: 300 },
    );
  });

  test('the histories were worth it: each kind of end occurred', () => {
    for (const name of [
      'clean',
      'tainted',
      'derived',
      'classification_lowered',
      'sink_widened',
      'parent_revision',
      'clearance_pair',
      'clearance_independence',
      'binding',
      'validity',
      'CLEARANCE_REPLAYED',
    ]) {
      expect(seen.get(name) ?? 0, name).toBeGreaterThan(0);
    }
  });
});

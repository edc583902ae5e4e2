import { describe, expect, test } from 'vitest';
import { sha256 } from '../../../src/ledger/encoding.js';
import type { Clearance, ClearedTransaction } from '../../../src/ledger/provenance/clearance.js';
import { deriveRecord } from '../../../src/ledger/provenance/derive-record.js';
import { stepsDigest } from '../../../src/ledger/provenance/provenance-digest.js';
import type { ClearanceReceiptRow } from '../../../src/ledger/provenance/records.js';
import { runDecision } from '../../../src/ledger/run-decision.js';
import { DAY, HOUR, MINUTE } from '../../../src/ledger/types.js';
import { caller, HARNESS_SPIFFE_ID } from '../../support/authority-fixture.js';
import { decodeJsonEntry, FIXTURE_NOW } from '../../support/ledger-fixture.js';
import {
  type Approvers,
  OLGA,
  operatorRow,
  OTTO,
  ownerRow,
  receipt,
  receipts,
  setWithApprovers,
} from './clearance-fixture.js';
import { derivation, derived, MAIL, PAGE, reference, refused, step } from './derivation-fixture.js';

describe('clearing a derivation (provenance-audit-replay.md, Provenance)', () => {
  test('a review and a scan make it clean; both are recorded and in the log with it', () => {
    const set = setWithApprovers();
    const { record, clearances } = derived(set, { clearances: receipts(set).reverse() });
    expect(record).toMatchObject({ tainted: false, reviewed: true, scanPending: false });
    expect(clearances.map(({ purpose, approverSpiffeId }) => [purpose, approverSpiffeId])).toEqual([
      ['review', OLGA],
      ['scan', OTTO],
    ]);
    const written = (table: string) =>
      set
        .changes()
        .rows.filter((row) => row.table === table)
        .map((row) => row.after);
    expect(written('clearance_receipts')).toEqual(clearances);
    for (const row of written('clearance_receipts') as ClearanceReceiptRow[]) {
      expect(row).toMatchObject({ provenanceDigest: record.provenanceDigest, usedAt: FIXTURE_NOW });
    }
    const entries = (written('audit_entries') as { entry: Buffer }[]).map(({ entry }) =>
      decodeJsonEntry(entry),
    );
    expect(
      entries.map((entry) => [entry.record?.type, entry.record?.operation, entry.actorSpiffeId]),
    ).toEqual([
      ['provenance', 'derive_cleared_record', HARNESS_SPIFFE_ID],
      ['clearance_receipt', 'review', HARNESS_SPIFFE_ID],
      ['clearance_receipt', 'scan', HARNESS_SPIFFE_ID],
    ]);
  });

  test('without receipts it is tainted, whatever its parents are', () => {
    const set = setWithApprovers();
    const clean = derived(set, { clearances: receipts(set) }).record;
    const child = derived(set, {
      version: 2n,
      predecessorDigest: clean.provenanceDigest,
      parents: [reference(clean)],
      steps: [step(['answer'], 'better')],
      contentDigest: sha256('better'),
    });
    expect(child.record.tainted).toBe(true);
  });

  test('an exact repeat is a duplicate, also when the receipts have expired; another basis is a conflict', () => {
    const set = setWithApprovers();
    const clearances = receipts(set);
    const first = derived(set, { clearances });
    const [review, scan] = clearances as [Clearance, Clearance];
    const late = [review, { ...scan, expiresAt: FIXTURE_NOW - HOUR }];
    expect(derived(set, { clearances: late })).toEqual({ ...first, duplicate: true });
    expect(() => derived(set)).toThrow('PROVENANCE_CONFLICT');
    const other = [review, receipt(set, 'scan', {}, { receiptId: 'receipt-of-scan-2' })];
    expect(() => derived(set, { clearances: other })).toThrow('PROVENANCE_CONFLICT');
  });

  test('a tainted record is not cleared afterwards', () => {
    const set = setWithApprovers();
    derived(set);
    expect(() => derived(set, { clearances: receipts(set) })).toThrow('PROVENANCE_CONFLICT');
  });
});

describe('what does not clear is refused by name', () => {
  const rule = (name: string) => `PROVENANCE_RULE_VIOLATED ${name} clearance_jws`;

  test.each<[string, (review: Clearance, scan: Clearance) => Clearance[], string]>([
    ['a review alone', (review) => [review], rule('clearance_pair')],
    ['a scan alone', (_, scan) => [scan], rule('clearance_pair')],
    ['two reviews', (review, scan) => [review, { ...scan, purpose: 'review' }], rule('clearance_pair')],
    ['three receipts', (review, scan) => [review, scan, scan], rule('clearance_pair')],
    [
      'one approver for both',
      (review, scan) => [review, { ...scan, approverSpiffeId: OLGA, keyThumbprint: 'olga-key' }],
      rule('clearance_independence'),
    ],
    [
      'one approver with two keys',
      (review, scan) => [review, { ...scan, approverSpiffeId: OLGA }],
      rule('clearance_independence'),
    ],
    [
      'one key for both',
      (review, scan) => [review, { ...scan, keyThumbprint: 'olga-key' }],
      rule('clearance_independence'),
    ],
    [
      'the caller as approver',
      (review, scan) => [{ ...review, approverSpiffeId: HARNESS_SPIFFE_ID }, scan],
      rule('clearance_independence'),
    ],
    [
      'an expired receipt',
      (review, scan) => [review, { ...scan, expiresAt: FIXTURE_NOW }],
      'CLEARANCE_INVALID validity clearance_jws[1]',
    ],
    [
      'a receipt that is good for longer than a day',
      (review, scan) => [{ ...review, issuedAt: FIXTURE_NOW + HOUR - DAY - 1n }, scan],
      'CLEARANCE_INVALID validity clearance_jws[0]',
    ],
    [
      'a receipt from the future',
      (review, scan) => [{ ...review, issuedAt: FIXTURE_NOW + MINUTE + 1n }, scan],
      'CLEARANCE_INVALID validity clearance_jws[0]',
    ],
    [
      'another key than the registered one',
      (review, scan) => [review, { ...scan, keyThumbprint: 'stolen' }],
      'CLEARANCE_INVALID key clearance_jws[1]',
    ],
  ])('%s', (_, change, expected) => {
    const set = setWithApprovers();
    // Nobody gathered the caller as an approver: it is refused before anything of it is read.
    const [review, scan] = receipts(set) as [Clearance, Clearance];
    expect(refused(set, { clearances: change(review, scan) })).toBe(expected);
  });

  test.each<[string, Approvers, string]>([
    ['no owner', { owner: null }, 'approver clearance_jws[0]'],
    ['a revoked owner', { owner: ownerRow({ status: 'revoked' }) }, 'approver clearance_jws[0]'],
    ['an owner with a new key', { owner: ownerRow({ signingKeyThumbprint: 'new' }) }, 'key clearance_jws[0]'],
    ['no operator', { operator: null }, 'approver clearance_jws[1]'],
    ['a suspended operator', { operator: operatorRow({ status: 'suspended' }) }, 'approver clearance_jws[1]'],
    ['an auditor', { operator: operatorRow({ roles: ['AUDITOR'] }) }, 'approver clearance_jws[1]'],
    [
      'a platform operator of another domain',
      { operator: null, platform: operatorRow({ scopeDomainId: 'globex.test' }) },
      'approver clearance_jws[1]',
    ],
  ])('%s', (_, approvers, expected) => {
    const set = setWithApprovers(approvers);
    expect(refused(set, { clearances: receipts(set) })).toBe(`CLEARANCE_INVALID ${expected}`);
  });

  test('a platform operator clears', () => {
    const set = setWithApprovers({ operator: null, platform: operatorRow() });
    expect(derived(set, { clearances: receipts(set) }).record.tainted).toBe(false);
  });

  test.each<[string, Partial<ClearedTransaction>]>([
    ['audience', { audience: 'spiffe://other.test/surety' }],
    ['incarnation', { incarnation: 2n }],
    ['domain_id', { domainId: 'globex.test' }],
    ['object_type', { objectType: 'artifact' }],
    ['object_id', { objectId: 'another' }],
    ['version', { version: 2n }],
    ['predecessor_digest', { predecessorDigest: sha256('x') }],
    ['content_digest', { contentDigest: sha256('x') }],
    ['parent_digests', { parentDigests: [MAIL.provenanceDigest] }],
    ['parent_digests', { parentDigests: [sha256('x'), sha256('y')] }],
    ['steps_digest', { stepsDigest: stepsDigest([]) }],
    ['classification', { classification: 3 }],
    ['allowed_sinks', { allowedSinks: [] }],
    ['policy_revision', { policyRevision: 2n }],
  ])('a receipt over another %s', (field, transaction) => {
    const set = setWithApprovers();
    const review = receipt(set, 'review');
    const scan = receipt(set, 'scan', {}, { transaction });
    expect(refused(set, { clearances: [review, scan] })).toBe(
      `CLEARANCE_INVALID binding clearance_jws[1].${field}`,
    );
  });

  test('a receipt used twice, for the same or for another record', () => {
    const set = setWithApprovers({}, [MAIL, PAGE], {
      absent: { provenance_records: [['model_output', 'other', 1n]] },
    });
    const clearances = receipts(set);
    derived(set, { clearances });
    const before = set.head;
    expect(() => derived(set, { objectId: 'other', clearances })).toThrow(
      'CLEARANCE_REPLAYED {"field":"clearance_jws[0]"}',
    );
    // The same receipt id under another statement, which is over exactly this record.
    const again = [
      receipt(set, 'review', { objectId: 'other' }, { receiptId: 'receipt-of-review-2' }),
      receipt(set, 'scan', { objectId: 'other' }),
    ];
    expect(() => derived(set, { objectId: 'other', clearances: again })).toThrow(
      'CLEARANCE_REPLAYED {"field":"clearance_jws[1]"}',
    );
    expect(set.head).toBe(before);
  });

  test('receipts do not help a derivation that breaks a rule', () => {
    const set = setWithApprovers();
    const over = { classification: 1 } as const;
    expect(refused(set, { ...over, clearances: receipts(set, over) })).toContain('classification_lowered');
  });

  test('an operator who calls cannot be one of the approvers', () => {
    const set = setWithApprovers();
    const outcome = runDecision(set, deriveRecord, {
      ...derivation({ clearances: receipts(set) }),
      as: 'operator',
      caller: caller({ spiffeId: OTTO }),
    });
    expect(outcome).toMatchObject({
      ok: false,
      refusal: { reason: 'PROVENANCE_RULE_VIOLATED', metadata: { rule: 'clearance_independence' } },
    });
  });
});

describe('a clean record on read', () => {
  test.each<[string, (rows: readonly ClearanceReceiptRow[]) => ClearanceReceiptRow[]]>([
    ['no receipts', () => []],
    ['one receipt', (rows) => rows.slice(0, 1)],
    ['two reviews', (rows) => rows.map((row, i) => ({ ...row, purpose: 'review', receiptId: `${i}` }))],
    ['one approver', (rows) => rows.map((row) => ({ ...row, approverSpiffeId: OLGA }))],
    ['one key', (rows) => rows.map((row) => ({ ...row, signingKeyThumbprint: 'olga-key' }))],
    ['another digest', ([review, scan]) => both(review, scan && { ...scan, statementDigest: sha256('x') })],
    [
      'the token of the other',
      ([review, scan]) => both(review && scan && { ...review, jws: scan.jws }, scan),
    ],
    ['no token', ([review, scan]) => both(review, scan && { ...scan, jws: Buffer.from('nothing') })],
  ])('with %s is corrupt, and named', (_, change) => {
    const writer = setWithApprovers();
    const { record, steps, clearances } = derived(writer, { clearances: receipts(writer) });
    const rows = change(clearances);
    const set = setWithApprovers();
    set.loadRow('provenance_records', record);
    for (const row of steps) set.loadIndexed('stepsOfRecord', [record.provenanceDigest], row);
    for (const parentDigest of record.parentDigests) {
      const edge = { provenanceDigest: record.provenanceDigest, parentDigest };
      set.loadIndexed('parentsOfRecord', [record.provenanceDigest], edge);
    }
    set.markIndex('clearancesOfRecord', [record.provenanceDigest]);
    for (const row of rows) set.loadIndexed('clearancesOfRecord', [record.provenanceDigest], row);
    const read = runDecision(set, deriveRecord, derivation());
    expect(read).toMatchObject({
      refusal: { reason: 'DATA_CORRUPT', metadata: { record: 'provenance:model_output/answer/1' } },
    });
  });
});

function both(...rows: readonly (ClearanceReceiptRow | undefined)[]): ClearanceReceiptRow[] {
  return rows.filter((row) => row !== undefined);
}

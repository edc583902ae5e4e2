import { describe, expect, test } from 'vitest';
import { sha256 } from '../../../src/ledger/encoding.js';
import type { Clearance, ClearedTransaction } from '../../../src/ledger/provenance/clearance.js';
import type { ClearanceReceiptRow } from '../../../src/ledger/provenance/records.js';
import { receiptMatches } from '../../../src/ledger/provenance/stored-receipt.js';
import { OTTO, receipts, setWithApprovers } from './clearance-fixture.js';
import { derived } from './derivation-fixture.js';

/** A cleared record, the row of its review, and what that says. */
function stored() {
  const set = setWithApprovers();
  const clearances = receipts(set);
  const record = derived(set, { clearances });
  return { set, record, row: record.clearances[0] as ClearanceReceiptRow, said: clearances[0] as Clearance };
}

describe('a stored receipt (provenance-audit-replay.md, Provenance)', () => {
  test('is what its statement says, also after a restore', () => {
    const { set, record, row, said } = stored();
    expect(receiptMatches(set, record, row, said)).toBe(true);
    const facts = { ...set.facts, incarnation: set.facts.incarnation + 3n };
    expect(receiptMatches({ domainId: set.domainId, facts }, record, row, said)).toBe(true);
  });

  test.each<[keyof ClearanceReceiptRow, Partial<ClearanceReceiptRow>]>([
    ['approverSpiffeId', { approverSpiffeId: OTTO }],
    ['receiptId', { receiptId: 'receipt-of-review-9' }],
    ['purpose', { purpose: 'scan' }],
    ['issuedAt', { issuedAt: 1n }],
    ['expiresAt', { expiresAt: 1n }],
    ['usedAt', { usedAt: 1n }],
    ['signingKeyThumbprint', { signingKeyThumbprint: 'another' }],
    ['statementDigest', { statementDigest: sha256('x') }],
    ['provenanceDigest', { provenanceDigest: sha256('x') }],
  ])('whose %s was changed is not', (_, change) => {
    const { set, record, row, said } = stored();
    expect(receiptMatches(set, record, { ...row, ...change }, said)).toBe(false);
  });

  test.each<[keyof ClearedTransaction, Partial<ClearedTransaction>]>([
    ['audience', { audience: 'spiffe://other.test/surety' }],
    ['incarnation', { incarnation: 2n }],
    ['domainId', { domainId: 'globex.test' }],
    ['objectId', { objectId: 'another' }],
    ['version', { version: 2n }],
    ['contentDigest', { contentDigest: sha256('x') }],
    ['parentDigests', { parentDigests: [sha256('x')] }],
    ['stepsDigest', { stepsDigest: sha256('x') }],
    ['classification', { classification: 3 }],
    ['allowedSinks', { allowedSinks: [] }],
    ['policyRevision', { policyRevision: 2n }],
  ])('that is over another %s is not', (_, change) => {
    const { set, record, row, said } = stored();
    const other = { ...said, transaction: { ...said.transaction, ...change } };
    expect(receiptMatches(set, record, row, other)).toBe(false);
  });
});

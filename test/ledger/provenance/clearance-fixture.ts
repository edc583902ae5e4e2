import type { OperatorRow, OwnerRow } from '../../../src/ledger/authority/records.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import {
  type Clearance,
  type ClearedTransaction,
  transactionOf,
} from '../../../src/ledger/provenance/clearance.js';
import type { DeriveRecordCommand } from '../../../src/ledger/provenance/derive-record.js';
import type { ProvenanceRow } from '../../../src/ledger/provenance/records.js';
import { HOUR } from '../../../src/ledger/types.js';
import type { WorkingSet } from '../../../src/ledger/working-set.js';
import { FIXTURE_DOMAIN, FIXTURE_NOW, type WorkingSetInput } from '../../support/ledger-fixture.js';
import { derivation, MAIL, PAGE, setWithRecords } from './derivation-fixture.js';

export const OLGA = `spiffe://${FIXTURE_DOMAIN}/owner/olga`;
export const OTTO = `spiffe://${FIXTURE_DOMAIN}/operator/otto`;

export function ownerRow(over: Partial<OwnerRow> = {}): OwnerRow {
  return {
    spiffeId: OLGA,
    signingKeyJwk: '{"of":"olga"}',
    signingKeyThumbprint: 'olga-key',
    sourceScopes: [],
    typeScopes: [],
    status: 'active',
    revision: 1n,
    ...over,
  };
}

export function operatorRow(over: Partial<OperatorRow> = {}): OperatorRow {
  return {
    spiffeId: OTTO,
    signingKeyJwk: '{"of":"otto"}',
    signingKeyThumbprint: 'otto-key',
    roles: ['ADMIN'],
    scopeDomainId: null,
    status: 'active',
    revision: 1n,
    ...over,
  };
}

/** What a test changes about the approvers; null: there is no such row. */
export interface Approvers {
  readonly owner?: OwnerRow | null;
  readonly operator?: OperatorRow | null;
  /** Otto's row in the service's own domain. */
  readonly platform?: OperatorRow;
}

/** The records of the derivation tests, with Olga, who reviews, and Otto, who scans; their receipts are not used yet. */
export function setWithApprovers(
  { owner = ownerRow(), operator = operatorRow(), platform }: Approvers = {},
  records: readonly ProvenanceRow[] = [MAIL, PAGE],
  over: WorkingSetInput = {},
): WorkingSet {
  return setWithRecords(records, {
    ...over,
    rows: { ...over.rows, owners: owner ? [owner] : [], operators: operator ? [operator] : [] },
    absent: {
      ...over.absent,
      owners: [[OLGA], [OTTO]],
      operators: [[OLGA], [OTTO]],
      clearance_receipts: [OLGA, OTTO].flatMap((id) => RECEIPT_IDS.map((receipt) => [id, receipt])),
    },
    platformOperators: { [OLGA]: undefined, [OTTO]: platform },
  });
}

const RECEIPT_IDS = ['receipt-of-review-1', 'receipt-of-scan-1', 'receipt-of-review-2', 'receipt-of-scan-2'];

/** A receipt of Olga's review or Otto's scan, over exactly this derivation unless a test says otherwise. */
export function receipt(
  set: WorkingSet,
  purpose: 'review' | 'scan',
  command: Partial<DeriveRecordCommand> = {},
  over: Partial<Omit<Clearance, 'transaction'>> & { readonly transaction?: Partial<ClearedTransaction> } = {},
): Clearance {
  const { transaction, ...rest } = over;
  const content = derivation(command);
  const revision = content.policyRevision ?? set.domain.policyRevision;
  const name = purpose === 'review' ? 'olga' : 'otto';
  const clearance = {
    transaction: { ...transactionOf(set, content, revision), ...transaction },
    purpose,
    approverSpiffeId: purpose === 'review' ? OLGA : OTTO,
    receiptId: `receipt-of-${purpose}-1`,
    issuedAt: FIXTURE_NOW - HOUR,
    expiresAt: FIXTURE_NOW + HOUR,
    keyThumbprint: `${name}-key`,
    signingKeyJwk: `{"of":"${name}"}`,
    ...rest,
  };
  const statement = `${purpose}/${clearance.approverSpiffeId}/${clearance.receiptId}`;
  const jws = Buffer.from(`kid.${Buffer.from(statement).toString('base64url')}.signed-by-${name}`);
  return { jws, ...clearance, statementDigest: sha256(statement) };
}

/** Both receipts over a derivation. */
export function receipts(set: WorkingSet, command: Partial<DeriveRecordCommand> = {}): Clearance[] {
  return [receipt(set, 'review', command), receipt(set, 'scan', command)];
}

import { sameDigest } from '../encoding.js';
import type { ClearanceKey, Reads } from '../reads.js';
import { type Refusal, refusal } from '../refusal.js';
import { type DataClass, DAY, type Digest, type Micros, MINUTE } from '../types.js';
import type { Draft } from '../working-set.js';
import { CLEARANCES } from './cleared.js';
import { approverFault } from './current-approver.js';
import { type DerivedContent, parentDigestsOf, stepContents } from './derivation.js';
import { sameOrAbsent, sameTexts } from './origin.js';
import { stepsDigest } from './provenance-digest.js';
import { ruleViolated } from './provenance-rule.js';
import type { ClearancePurpose, ClearanceReceiptRow, ObjectType } from './records.js';

/** A day is enough for a person to review and for a scan to run; what is signed is good for no longer. */
export const MAX_CLEARANCE_VALIDITY: Micros = DAY;
/** An approver's clock may run ahead by so much. */
export const MAX_CLEARANCE_AHEAD: Micros = MINUTE;

/** All that a receipt is over: the derivation, where it is recorded, and under which revision. */
export interface ClearedTransaction {
  readonly audience: string;
  readonly incarnation: bigint;
  readonly domainId: string;
  readonly objectType: ObjectType;
  readonly objectId: string;
  readonly version: bigint;
  readonly predecessorDigest: Digest | null;
  readonly contentDigest: Digest;
  /** Ascending. */
  readonly parentDigests: readonly Digest[];
  readonly stepsDigest: Digest;
  readonly classification: DataClass;
  /** Ascending. */
  readonly allowedSinks: readonly string[];
  readonly policyRevision: bigint;
}

/** One signed receipt. Its signature has been verified; all that it names is compared here. */
export interface Clearance {
  readonly transaction: ClearedTransaction;
  readonly purpose: ClearancePurpose;
  readonly approverSpiffeId: string;
  readonly receiptId: string;
  readonly issuedAt: Micros;
  readonly expiresAt: Micros;
  /** SHA-256 of the signed payload. */
  readonly statementDigest: Digest;
  /** The key under which the signature verified. */
  readonly keyThumbprint: string;
  readonly signingKeyJwk: string;
  /** The token, kept so that it verifies years later. */
  readonly jws: Buffer;
}

/** The rows that say whether receipts may be used: their approvers', and where they were used before. */
export function clearanceReads(clearances: readonly Clearance[]): Reads {
  if (clearances.length === 0) return {};
  const approvers = clearances.map(({ approverSpiffeId }) => approverSpiffeId);
  return {
    owners: approvers,
    operators: approvers,
    platformOperators: approvers,
    clearanceReceipts: clearances.map(({ approverSpiffeId, receiptId }) => ({ approverSpiffeId, receiptId })),
  };
}

/**
 * Why the receipts do not clear the derivation (provenance-audit-replay.md, Provenance: "two independent signed receipts,
 * one review and one scan, by the registered keys of two different owners or operators, over the exact clearance
 * transaction, each used once"). Undefined where they do, and where there are none.
 *
 * Needs `clearanceReads`.
 *
 * @param callerSpiffeId who asks for the derivation: nobody clears their own
 * @param policyRevision the revision that the derivation is made under
 */
export function clearanceRefusal(
  draft: Draft,
  content: DerivedContent,
  clearances: readonly Clearance[],
  callerSpiffeId: string,
  policyRevision: bigint,
): Refusal | undefined {
  if (clearances.length === 0) return undefined;
  const refused = pairRefusal(clearances) ?? independenceRefusal(clearances, callerSpiffeId);
  if (refused) return refused;
  const transaction = transactionOf(draft, content, policyRevision);
  for (const [index, clearance] of clearances.entries()) {
    const field = `clearance_jws[${index}]`;
    const fault =
      usedRefusal(draft, clearance, field) ??
      approverRefusal(draft, clearance, field) ??
      bindingRefusal(transaction, clearance, field) ??
      validityRefusal(draft, clearance, field);
    if (fault) return fault;
  }
  return undefined;
}

/** The row of a receipt that is used for a record. */
export function receiptRow(
  clearance: Clearance,
  provenanceDigest: Digest,
  usedAt: Micros,
): ClearanceReceiptRow {
  return {
    approverSpiffeId: clearance.approverSpiffeId,
    receiptId: clearance.receiptId,
    purpose: clearance.purpose,
    provenanceDigest,
    statementDigest: clearance.statementDigest,
    signingKeyJwk: clearance.signingKeyJwk,
    signingKeyThumbprint: clearance.keyThumbprint,
    jws: clearance.jws,
    issuedAt: clearance.issuedAt,
    expiresAt: clearance.expiresAt,
    usedAt,
  };
}

/** The transaction that receipts for a derivation are over. */
export function transactionOf(
  draft: Pick<Draft, 'facts' | 'domainId'>,
  content: DerivedContent,
  policyRevision: bigint,
): ClearedTransaction {
  return {
    audience: draft.facts.audience,
    incarnation: draft.facts.incarnation,
    domainId: draft.domainId,
    objectType: content.objectType,
    objectId: content.objectId,
    version: content.version,
    predecessorDigest: content.predecessorDigest,
    contentDigest: content.contentDigest,
    parentDigests: parentDigestsOf(content),
    stepsDigest: stepsDigest(stepContents(content)),
    classification: content.classification,
    allowedSinks: content.allowedSinks,
    policyRevision,
  };
}

function pairRefusal(clearances: readonly Clearance[]): Refusal | undefined {
  const purposes = new Set(clearances.map(({ purpose }) => purpose));
  if (clearances.length === CLEARANCES && purposes.size === CLEARANCES) return undefined;
  const message = 'A clearance is exactly one review and one scan.';
  return ruleViolated('clearance_pair', 'clearance_jws', message);
}

function independenceRefusal(clearances: readonly Clearance[], callerSpiffeId: string): Refusal | undefined {
  const approvers = clearances.map(({ approverSpiffeId }) => approverSpiffeId);
  const keys = new Set(clearances.map(({ keyThumbprint }) => keyThumbprint));
  const independent =
    new Set(approvers).size === clearances.length &&
    keys.size === clearances.length &&
    !approvers.includes(callerSpiffeId);
  if (independent) return undefined;
  const message = 'Review and scan are signed by two others than the caller, each with a key of its own.';
  return ruleViolated('clearance_independence', 'clearance_jws', message);
}

function usedRefusal(draft: Draft, clearance: ClearanceKey, field: string): Refusal | undefined {
  if (!draft.get('clearance_receipts', clearance.approverSpiffeId, clearance.receiptId)) return undefined;
  return refusal('CLEARANCE_REPLAYED', 'The receipt is used.', { metadata: { field } });
}

function approverRefusal(draft: Draft, clearance: Clearance, field: string): Refusal | undefined {
  const rule = approverFault(draft, clearance.approverSpiffeId, clearance.keyThumbprint);
  if (rule === undefined) return undefined;
  return invalid(rule, field, 'The receipt is not signed by an active owner or operator with its own key.');
}

function bindingRefusal(
  expected: ClearedTransaction,
  { transaction }: Clearance,
  field: string,
): Refusal | undefined {
  const differs = transactionDifference(expected, transaction);
  if (differs === undefined) return undefined;
  return invalid('binding', `${field}.${differs}`, 'The receipt is for another transaction.');
}

function validityRefusal(draft: Draft, clearance: Clearance, field: string): Refusal | undefined {
  const { issuedAt, expiresAt } = clearance;
  const valid =
    expiresAt > draft.now &&
    expiresAt - issuedAt <= MAX_CLEARANCE_VALIDITY &&
    issuedAt - draft.now <= MAX_CLEARANCE_AHEAD;
  if (valid) return undefined;
  return invalid('validity', field, 'The receipt is outside of its validity, or that is too long.');
}

/** The first field in which two transactions differ, by its name in the statement. */
export function transactionDifference(a: ClearedTransaction, b: ClearedTransaction): string | undefined {
  const same: readonly (readonly [string, boolean])[] = [
    ['audience', a.audience === b.audience],
    ['incarnation', a.incarnation === b.incarnation],
    ['domain_id', a.domainId === b.domainId],
    ['object_type', a.objectType === b.objectType],
    ['object_id', a.objectId === b.objectId],
    ['version', a.version === b.version],
    ['predecessor_digest', sameOrAbsent(a.predecessorDigest, b.predecessorDigest)],
    ['content_digest', sameDigest(a.contentDigest, b.contentDigest)],
    [
      'parent_digests',
      a.parentDigests.length === b.parentDigests.length &&
        a.parentDigests.every((digest, index) => sameDigest(digest, b.parentDigests[index])),
    ],
    ['steps_digest', sameDigest(a.stepsDigest, b.stepsDigest)],
    ['classification', a.classification === b.classification],
    ['allowed_sinks', sameTexts(a.allowedSinks, b.allowedSinks)],
    ['policy_revision', a.policyRevision === b.policyRevision],
  ];
  return same.find(([, equal]) => !equal)?.[0];
}

function invalid(rule: string, field: string, message: string): Refusal {
  return refusal('CLEARANCE_INVALID', message, { metadata: { rule, field } });
}

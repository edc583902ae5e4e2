import type { DataClass, Digest, Micros } from '../types.js';

export type ObjectType = 'event' | 'task' | 'artifact' | 'model_output' | 'tool_output' | 'parser_output';
export type OriginKind = 'human_input' | 'internal_event' | 'artifact' | 'external_input' | 'system';
export type StepKind = 'model' | 'tool' | 'parser';
export type ClearancePurpose = 'review' | 'scan';

/** provenance-audit-replay.md, Provenance: one row per object and version; append-only. */
export interface ProvenanceRow {
  readonly objectType: ObjectType;
  readonly objectId: string;
  readonly version: bigint;
  readonly provenanceDigest: Digest;
  readonly contentDigest: Digest;
  readonly classification: DataClass;
  readonly policyRevision: bigint;
  readonly allowedSinks: readonly string[];
  readonly tainted: boolean;
  readonly reviewed: boolean;
  readonly scanPending: boolean;
  readonly predecessorDigest: Digest | null;
  /** The origin; all null for a derived record. */
  readonly originKind: OriginKind | null;
  readonly sourceId: string | null;
  readonly sourceDigest: Digest | null;
  readonly observedAt: Micros | null;
  readonly principalId: string | null;
  readonly harnessId: string | null;
  /** Parents' provenance digests, ascending; also rows of `provenance_parents`. */
  readonly parentDigests: readonly Digest[];
  readonly recordedAt: Micros;
}

/** One edge. */
export interface ProvenanceParentRow {
  readonly provenanceDigest: Digest;
  readonly parentDigest: Digest;
}

/** One transformation of a derived record. */
export interface ProvenanceStepRow {
  readonly provenanceDigest: Digest;
  /** From 0. */
  readonly ordinal: number;
  readonly kind: StepKind;
  readonly operation: string;
  readonly implementation: string;
  readonly implementationVersion: string;
  readonly executor: string;
  readonly inputDigests: readonly Digest[];
  readonly outputDigest: Digest;
  readonly startedAt: Micros;
  readonly completedAt: Micros;
}

/** A signed receipt that was used for one derivation; append-only. */
export interface ClearanceReceiptRow {
  readonly approverSpiffeId: string;
  /** Chosen by the approver. */
  readonly receiptId: string;
  readonly purpose: ClearancePurpose;
  /** Of the record that it cleared. */
  readonly provenanceDigest: Digest;
  /** SHA-256 of the signed statement. */
  readonly statementDigest: Digest;
  /** The key under which it verified, so that it does so years later. */
  readonly signingKeyJwk: string;
  readonly signingKeyThumbprint: string;
  readonly jws: Buffer;
  readonly issuedAt: Micros;
  readonly expiresAt: Micros;
  readonly usedAt: Micros;
}

import type { DataClass, Digest, Micros } from '../types.js';
import type { ObjectType } from '../provenance/records.js';

/** authority.md, Records: event. Immutable. */
export interface EventRow {
  readonly eventId: string;
  readonly type: string;
  readonly originHarnessId: string;
  readonly recipientHarnessIds: readonly string[];
  readonly classification: DataClass;
  readonly payloadDigest: Digest;
  readonly effectDeadline: Micros | null;
  readonly policyRevision: bigint;
  readonly parentEventId: string | null;
  readonly hops: number;
  readonly publishedAt: Micros;
  /** Its provenance record: version 1 of (objectType, eventId). */
  readonly objectType: ObjectType;
  readonly provenanceDigest: Digest;
}

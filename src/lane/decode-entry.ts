import { fromBinary } from '@bufbuild/protobuf';
import { type AuditEntry, AuditEntrySchema, AuditKind } from '../gen/surety/audit/v1/entry_pb.js';
import type { DecodedEntry } from '../ledger/audit/verify-chain.js';

/** What the bytes of an entry of the log say, for `ChainVerifier`. Undefined where they are none. */
export function decodeEntry(entry: Uint8Array): DecodedEntry | undefined {
  let decoded: AuditEntry;
  try {
    decoded = fromBinary(AuditEntrySchema, entry);
  } catch {
    return undefined;
  }
  const { domainId, seq, incarnation, previousHead, effect, kind, record } = decoded;
  return {
    domainId,
    seq,
    incarnation,
    previousHead,
    ...(kind === AuditKind.ARCHIVAL &&
      record && { archive: { archiveId: record.id, digest: record.digest } }),
    ...(effect && { effect: { effectId: effect.effectId, step: effect.step } }),
  };
}

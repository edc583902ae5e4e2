import { fromBinary } from '@bufbuild/protobuf';
import { type AuditEntry, AuditEntrySchema } from '../../gen/surety/audit/v1/entry_pb.js';
import { EffectState as WireState } from '../../gen/surety/effect/v1/effect_pb.js';

/** What an entry of the log says of an effect, as far as an archived record is held against it. */
export interface EntryRecord {
  readonly effectId: string;
  readonly step: bigint;
  readonly state: string | undefined;
  readonly fence: bigint;
  readonly evidenceDigest: Uint8Array;
  readonly proofDigest: Uint8Array;
}

/** Undefined where the bytes are none, or say nothing of an effect. */
export function decodeEntryRecord(entry: Uint8Array): EntryRecord | undefined {
  let decoded: AuditEntry;
  try {
    decoded = fromBinary(AuditEntrySchema, entry);
  } catch {
    return undefined;
  }
  const { effect } = decoded;
  if (!effect) return undefined;
  const { effectId, step, toState, fence, evidenceDigest, proofDigest } = effect;
  return { effectId, step, state: WireState[toState], fence, evidenceDigest, proofDigest };
}

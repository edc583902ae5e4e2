import { fromBinary } from '@bufbuild/protobuf';
import { type AuditEntry, AuditEntrySchema } from '../../gen/surety/audit/v1/entry_pb.js';
import { EffectState as WireState, StateSource as WireSource } from '../../gen/surety/effect/v1/effect_pb.js';

/** What an entry of the log says of an effect, as far as an archived record is held against it. */
export interface EntryRecord {
  /** Whose log it stands in, and where. */
  readonly domainId: string;
  readonly seq: bigint;
  readonly effectId: string;
  readonly step: bigint;
  readonly state: string | undefined;
  /** Who brought it to that state, as a row of the store says it. */
  readonly source: string | undefined;
  readonly fence: bigint;
  readonly attemptId: string;
  readonly sink: string;
  readonly identityDigest: Uint8Array;
  /** The registration that acted; empty: none did. */
  readonly registrationId: string;
  /** Of a reservation alone: what it rests on. */
  readonly eventId: string;
  readonly grantId: string;
  readonly decisionId: string;
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
  const { domainId, seq, effect } = decoded;
  if (!effect) return undefined;
  const { toState, source, outputSink, ...same } = effect;
  return {
    ...same,
    domainId,
    seq,
    state: WireState[toState],
    source: WireSource[source]?.toLowerCase(),
    sink: outputSink,
  };
}

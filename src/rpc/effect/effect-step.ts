import { fromBinary, type MessageInitShape } from '@bufbuild/protobuf';
import { type AuditEntry, AuditEntrySchema, AuditKind } from '../../gen/surety/audit/v1/entry_pb.js';
import type { EffectStepSchema } from '../../gen/surety/effect/v1/effect_service_pb.js';
import { leafHash } from '../../ledger/audit/chain.js';
import { sameDigest } from '../../ledger/encoding.js';
import { refusal } from '../../ledger/refusal.js';
import { Refused } from '../../ledger/run-decision.js';

/** An entry of the log about an effect, with what stands beside it. */
export interface EntryRow {
  readonly seq: bigint;
  readonly entry: Buffer;
  readonly leafHash: Buffer;
  readonly effectId: string;
}

/** A step as it is shown. */
export type StepInit = MessageInitShape<typeof EffectStepSchema>;

/**
 * A step of an effect, from the bytes that were hashed when it was made; they are hashed again.
 *
 * @throws {Refused} DATA_CORRUPT, naming the entry, where they are not those bytes or say something else than where they
 *   stand
 */
export function wireStep(domainId: string, row: EntryRow): StepInit & { readonly step: bigint } {
  const entry = sameDigest(leafHash(row.entry), row.leafHash) ? decode(row.entry) : undefined;
  const effect = entry?.effect;
  if (!entry || !effect || effect.effectId !== row.effectId || !standsAt(entry, domainId, row.seq)) {
    throw corruptEntry(domainId, row.seq);
  }
  return {
    effectId: effect.effectId,
    step: effect.step,
    auditPosition: entry.seq,
    fromState: effect.fromState,
    toState: effect.toState,
    source: effect.source,
    ...(entry.time && { time: entry.time }),
    fence: effect.fence,
    attemptId: effect.attemptId,
    evidenceDigest: Uint8Array.from(effect.evidenceDigest),
    proofDigest: Uint8Array.from(effect.proofDigest),
    actorSpiffeId: entry.actorSpiffeId,
    outputSink: effect.outputSink,
    lateEvidence: entry.kind === AuditKind.EFFECT_LATE_EVIDENCE,
  };
}

/** The refusal for an entry that is missing or changed. */
export function corruptEntry(domainId: string, seq: bigint): Refused {
  return new Refused(
    refusal('DATA_CORRUPT', "An entry of the domain's log is not what was written.", {
      metadata: { record: `audit_entry/${domainId}/${seq}`, position: String(seq) },
    }),
  );
}

function standsAt(entry: AuditEntry, domainId: string, seq: bigint): boolean {
  return entry.domainId === domainId && entry.seq === seq;
}

function decode(bytes: Uint8Array): AuditEntry | undefined {
  try {
    return fromBinary(AuditEntrySchema, bytes);
  } catch {
    return undefined;
  }
}

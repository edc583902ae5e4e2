import { create, type DescMessage, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { type Timestamp, TimestampSchema } from '@bufbuild/protobuf/wkt';
import { AuditEntrySchema } from '../../src/gen/surety/audit/v1/entry_pb.js';
import {
  ExecutionEvidenceSchema,
  TerminalEvidenceSchema,
  UncertaintyEvidenceSchema,
} from '../../src/gen/surety/effect/v1/evidence_pb.js';
import { TransitionStatementSchema } from '../../src/gen/surety/effect/v1/proof_pb.js';
import { varintLength, varintOf } from './binary.js';

/** Seconds that stand in a template for a life's own; as long as those of our time. */
export const SECOND_PATTERN = 4_123_456_789;
/** The same of a step's nanoseconds; all that a life has are as long, see `LifeClock`. */
export function nanosPattern(step: number): number {
  return 987_654_320 + step;
}

/** The time of a step, in a template. */
function patternTime(step: number): Timestamp {
  return create(TimestampSchema, { seconds: BigInt(SECOND_PATTERN), nanos: nanosPattern(step) });
}

/** The least number that takes so many bytes as a varint. */
export function leastOfLength(length: number): number {
  return 2 ** (7 * (length - 1));
}

/** An entry of the log with the pattern's time and a position that takes so many bytes. */
export function entryPattern(entry: Uint8Array, step: number, seqLength: number): Buffer {
  const message = fromBinary(AuditEntrySchema, entry);
  const seq = leastOfLength(seqLength);
  if (varintLength(seq) !== seqLength) throw new Error('a varint of another length');
  return encode(AuditEntrySchema, { ...message, seq: BigInt(seq), time: patternTime(step) });
}

/** How an entry begins: the domain, field 1, and the position, field 2. */
export function entryBeginning(domainId: string, seqLength: number): Buffer {
  const name = Buffer.from(domainId);
  return Buffer.concat([
    Buffer.from([0x0a, name.length]),
    name,
    Buffer.from([0x10]),
    varintOf(leastOfLength(seqLength)),
  ]);
}

/** The command that an entry names. */
export function commandOf(entry: Uint8Array): string {
  return fromBinary(AuditEntrySchema, entry).commandId;
}

/** Evidence with the pattern's time. */
export function evidencePattern(evidence: Uint8Array, toState: string, step: number): Buffer {
  const time = patternTime(step);
  if (toState === 'EXECUTING') {
    return encode(ExecutionEvidenceSchema, {
      ...fromBinary(ExecutionEvidenceSchema, evidence),
      startTime: time,
    });
  }
  if (toState === 'UNKNOWN') {
    const message = fromBinary(UncertaintyEvidenceSchema, evidence);
    return encode(UncertaintyEvidenceSchema, { ...message, observedTime: time });
  }
  return encode(TerminalEvidenceSchema, {
    ...fromBinary(TerminalEvidenceSchema, evidence),
    observedTime: time,
  });
}

/** What terminal evidence, or an uncertainty, says that it saw. */
export function observedDigest(evidence: Uint8Array, toState: string): Buffer {
  return Buffer.from(
    toState === 'UNKNOWN'
      ? fromBinary(UncertaintyEvidenceSchema, evidence).observationDigest
      : fromBinary(TerminalEvidenceSchema, evidence).externalReceiptDigest,
  );
}

/** A compact JWS in its three parts; what is signed, as bytes. */
export function proofParts(proof: Buffer): { header: string; payload: Buffer; signature: string } {
  const [header = '', payload = '', signature = ''] = proof.toString('latin1').split('.');
  return { header, payload: Buffer.from(payload, 'base64url'), signature };
}

/** A statement with the pattern's time, and its nonce. */
export function statementPattern(payload: Uint8Array, step: number): { bytes: Buffer; nonce: string } {
  const message = fromBinary(TransitionStatementSchema, payload);
  const bytes = encode(TransitionStatementSchema, { ...message, issuedTime: patternTime(step) });
  return { bytes, nonce: message.nonce };
}

function encode<Schema extends DescMessage>(schema: Schema, message: MessageShape<Schema>): Buffer {
  return Buffer.from(toBinary(schema, message));
}

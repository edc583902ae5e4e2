import { createHash } from 'node:crypto';
import type { DescMessage, MessageShape } from '@bufbuild/protobuf';
import { EffectState as WireState } from '../gen/surety/effect/v1/effect_pb.js';
import {
  ExecutionEvidenceSchema,
  ReconciliationEvidenceSchema,
  TerminalEvidenceSchema,
  UncertaintyEvidenceSchema,
  UncertaintyReason as WireUncertainty,
} from '../gen/surety/effect/v1/evidence_pb.js';
import { FieldRules } from '../identity/field-rules.js';
import { decodeStrictly, StrictProtobufError } from '../identity/strict-protobuf.js';
import type {
  Evidence,
  EvidenceFields,
  EvidenceKind,
  ExecutionEvidence,
  ReconciliationEvidence,
  TerminalEvidence,
  UncertaintyEvidence,
  UncertaintyReason,
} from '../ledger/effect/evidence.js';
import type { FieldViolation } from '../ledger/refusal.js';
import type { TerminalState } from '../ledger/types.js';

/** Greatest length of evidence (effect_service.proto): the longest of its texts together are below 2 KiB. */
export const MAX_EVIDENCE_BYTES = 4096;

const FIELD = 'evidence';
const MIN_ATTEMPT_OCTETS = 16;
const MAX_ATTEMPT_OCTETS = 256;
const MIN_RECEIPT_OCTETS = 8;
const MAX_RECEIPT_OCTETS = 512;
const MIN_SYSTEM_OCTETS = 3;
const MAX_SYSTEM_OCTETS = 256;

const UNCERTAINTY_NAMES: Readonly<Record<number, UncertaintyReason>> = {
  [WireUncertainty.TIMEOUT]: 'TIMEOUT',
  [WireUncertainty.COMMIT_RESPONSE_LOST]: 'COMMIT_RESPONSE_LOST',
  [WireUncertainty.TRANSPORT_DISCONNECT]: 'TRANSPORT_DISCONNECT',
};
const TERMINAL_NAMES: Readonly<Record<number, TerminalState>> = {
  [WireState.SUCCEEDED]: 'SUCCEEDED',
  [WireState.FAILED]: 'FAILED',
  [WireState.CANCELLED]: 'CANCELLED',
};

/** Evidence that breaks rules of its form: FIELD_INVALID with every violation at once. */
export class EvidenceInvalid extends Error {
  override readonly name = 'EvidenceInvalid';
  readonly reason = 'FIELD_INVALID';
  /** Paths begin with `evidence`. */
  constructor(readonly violations: readonly FieldViolation[]) {
    super('a field of the evidence breaks a rule');
  }
}

const READERS: {
  readonly [K in EvidenceKind]: (bytes: Uint8Array, rules: FieldRules) => EvidenceFields[K];
} = {
  execution: readExecution,
  uncertainty: readUncertainty,
  terminal: readTerminal,
  reconciliation: readReconciliation,
};

/**
 * Decodes the exact bytes of evidence and checks every field (effects.md, Transitions by workloads): the bytes must be the
 * one encoding of the message, since their digest is what is signed, compared and kept.
 *
 * @param kind which evidence the RPC takes
 * @param bytes at most {@link MAX_EVIDENCE_BYTES}
 * @throws {EvidenceInvalid}
 */
export function decodeEvidence<K extends EvidenceKind>(kind: K, bytes: Uint8Array): Evidence<K> {
  const rules = new FieldRules(FIELD);
  if (bytes.length === 0 || bytes.length > MAX_EVIDENCE_BYTES) {
    throw new EvidenceInvalid([{ field: FIELD, rule: `must be 1 to ${MAX_EVIDENCE_BYTES} bytes` }]);
  }
  const fields = READERS[kind](bytes, rules);
  if (rules.violations.length > 0) throw new EvidenceInvalid(rules.violations);
  // Copied: what came in may be a view of a receive buffer, and this is kept.
  const exact = Buffer.from(bytes);
  return { bytes: exact, digest: createHash('sha256').update(exact).digest(), fields };
}

function decode<Schema extends DescMessage>(schema: Schema, bytes: Uint8Array): MessageShape<Schema> {
  try {
    return decodeStrictly(schema, bytes);
  } catch (error) {
    if (!(error instanceof StrictProtobufError)) throw error;
    const field = error.field === '' ? FIELD : `${FIELD}.${error.field}`;
    throw new EvidenceInvalid([{ field, rule: error.rule }]);
  }
}

function readAttempt(value: string, rules: FieldRules): string {
  return rules.id('attempt_id', value, MIN_ATTEMPT_OCTETS, MAX_ATTEMPT_OCTETS);
}

function readExecution(bytes: Uint8Array, rules: FieldRules): ExecutionEvidence {
  const message = decode(ExecutionEvidenceSchema, bytes);
  return {
    attemptId: readAttempt(message.attemptId, rules),
    executorInstanceId: rules.id(
      'executor_instance_id',
      message.executorInstanceId,
      MIN_ATTEMPT_OCTETS,
      MAX_ATTEMPT_OCTETS,
    ),
    requestDigest: rules.digest('request_digest', message.requestDigest),
    startedAt: rules.time('start_time', message.startTime),
  };
}

function readUncertainty(bytes: Uint8Array, rules: FieldRules): UncertaintyEvidence {
  const message = decode(UncertaintyEvidenceSchema, bytes);
  return {
    attemptId: readAttempt(message.attemptId, rules),
    reason: rules.choice('reason', message.reason, UNCERTAINTY_NAMES),
    observationDigest: rules.digest('observation_digest', message.observationDigest),
    observedAt: rules.time('observed_time', message.observedTime),
  };
}

function readTerminal(bytes: Uint8Array, rules: FieldRules): TerminalEvidence {
  const message = decode(TerminalEvidenceSchema, bytes);
  return {
    attemptId: readAttempt(message.attemptId, rules),
    externalReceiptId: rules.id(
      'external_receipt_id',
      message.externalReceiptId,
      MIN_RECEIPT_OCTETS,
      MAX_RECEIPT_OCTETS,
    ),
    externalReceiptDigest: rules.digest('external_receipt_digest', message.externalReceiptDigest),
    observedAt: rules.time('observed_time', message.observedTime),
  };
}

function readReconciliation(bytes: Uint8Array, rules: FieldRules): ReconciliationEvidence {
  const message = decode(ReconciliationEvidenceSchema, bytes);
  return {
    attemptId: readAttempt(message.attemptId, rules),
    authoritySystemId: rules.id(
      'authority_system_id',
      message.authoritySystemId,
      MIN_SYSTEM_OCTETS,
      MAX_SYSTEM_OCTETS,
    ),
    queryId: rules.id('query_id', message.queryId, MIN_RECEIPT_OCTETS, MAX_RECEIPT_OCTETS),
    queryResponseDigest: rules.digest('query_response_digest', message.queryResponseDigest),
    observedAt: rules.time('observed_time', message.observedTime),
    terminalState: rules.choice('terminal_state', message.terminalState, TERMINAL_NAMES),
  };
}

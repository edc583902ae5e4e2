import { EffectState as WireState } from '../gen/surety/effect/v1/effect_pb.js';
import {
  ExecutionEvidenceSchema,
  ReconciliationEvidenceSchema,
  TerminalEvidenceSchema,
  UncertaintyEvidenceSchema,
  UncertaintyReason as WireUncertainty,
} from '../gen/surety/effect/v1/evidence_pb.js';
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
import { sha256 } from '../ledger/encoding.js';
import type { TerminalState } from '../ledger/types.js';
import { Violations } from './validate.js';

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

const READERS: {
  readonly [K in EvidenceKind]: (bytes: Uint8Array, violations: Violations) => EvidenceFields[K];
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
 * @param violations what was found in the rest of the request, which is told together with what is found here
 * @throws {Refused} FIELD_INVALID with every violation at once; paths begin with `evidence`
 */
export function decodeEvidence<K extends EvidenceKind>(
  kind: K,
  bytes: Uint8Array,
  violations: Violations = new Violations(),
): Evidence<K> {
  const fields = readFields(kind, bytes, violations);
  violations.throwIfAny();
  // Copied: what came in may be a view of a receive buffer, and this is kept.
  const exact = Buffer.from(bytes);
  return {
    bytes: exact,
    digest: sha256(exact),
    fields: fields as EvidenceFields[K],
  };
}

/** Undefined where the bytes are no such message; the violations then say why. */
function readFields<K extends EvidenceKind>(
  kind: K,
  bytes: Uint8Array,
  violations: Violations,
): EvidenceFields[K] | undefined {
  if (bytes.length === 0 || bytes.length > MAX_EVIDENCE_BYTES) {
    violations.refuse(FIELD, `must be 1 to ${MAX_EVIDENCE_BYTES} bytes`);
    return undefined;
  }
  try {
    return READERS[kind](bytes, violations.at(FIELD));
  } catch (error) {
    if (!(error instanceof StrictProtobufError)) throw error;
    violations.refuse(error.field === '' ? FIELD : `${FIELD}.${error.field}`, error.rule);
    return undefined;
  }
}

function readAttempt(value: string, violations: Violations): string {
  return violations.id('attempt_id', value, MIN_ATTEMPT_OCTETS, MAX_ATTEMPT_OCTETS);
}

function readExecution(bytes: Uint8Array, violations: Violations): ExecutionEvidence {
  const message = decodeStrictly(ExecutionEvidenceSchema, bytes);
  return {
    attemptId: readAttempt(message.attemptId, violations),
    executorInstanceId: violations.id(
      'executor_instance_id',
      message.executorInstanceId,
      MIN_ATTEMPT_OCTETS,
      MAX_ATTEMPT_OCTETS,
    ),
    requestDigest: violations.digest('request_digest', message.requestDigest),
    startedAt: violations.time('start_time', message.startTime),
  };
}

function readUncertainty(bytes: Uint8Array, violations: Violations): UncertaintyEvidence {
  const message = decodeStrictly(UncertaintyEvidenceSchema, bytes);
  return {
    attemptId: readAttempt(message.attemptId, violations),
    reason: violations.choice('reason', message.reason, UNCERTAINTY_NAMES),
    observationDigest: violations.digest('observation_digest', message.observationDigest),
    observedAt: violations.time('observed_time', message.observedTime),
  };
}

function readTerminal(bytes: Uint8Array, violations: Violations): TerminalEvidence {
  const message = decodeStrictly(TerminalEvidenceSchema, bytes);
  return {
    attemptId: readAttempt(message.attemptId, violations),
    externalReceiptId: violations.id(
      'external_receipt_id',
      message.externalReceiptId,
      MIN_RECEIPT_OCTETS,
      MAX_RECEIPT_OCTETS,
    ),
    externalReceiptDigest: violations.digest('external_receipt_digest', message.externalReceiptDigest),
    observedAt: violations.time('observed_time', message.observedTime),
  };
}

function readReconciliation(bytes: Uint8Array, violations: Violations): ReconciliationEvidence {
  const message = decodeStrictly(ReconciliationEvidenceSchema, bytes);
  return {
    attemptId: readAttempt(message.attemptId, violations),
    authoritySystemId: violations.id(
      'authority_system_id',
      message.authoritySystemId,
      MIN_SYSTEM_OCTETS,
      MAX_SYSTEM_OCTETS,
    ),
    queryId: violations.id('query_id', message.queryId, MIN_RECEIPT_OCTETS, MAX_RECEIPT_OCTETS),
    queryResponseDigest: violations.digest('query_response_digest', message.queryResponseDigest),
    observedAt: violations.time('observed_time', message.observedTime),
    terminalState: violations.choice('terminal_state', message.terminalState, TERMINAL_NAMES),
  };
}

import { toBinary, create } from '@bufbuild/protobuf';
import { Metadata, type StatusObject } from '@grpc/grpc-js';
import { Code } from '../gen/google/rpc/code_pb.js';
import { type Status, StatusSchema } from '../gen/google/rpc/status_pb.js';
import { CertificateRejected } from '../identity/certificate-rejected.js';
import { SignedMessageError } from '../identity/signed-message-error.js';
import { type Reason, type Refusal, refusal } from '../ledger/refusal.js';
import { Refused } from '../ledger/run-decision.js';
import { StoreError } from '../store/store-error.js';
import { errorDetails, fitDetails, shorten, wellFormed } from './status-details.js';

/** Which of the gRPC codes each reason has (api.md, Errors). The only such map. */
export const CODES: Readonly<Record<Reason, Code>> = {
  FIELD_INVALID: Code.INVALID_ARGUMENT,

  CERTIFICATE_REJECTED: Code.UNAUTHENTICATED,
  CALLER_UNKNOWN: Code.UNAUTHENTICATED,
  PROOF_BINDING_MISMATCH: Code.UNAUTHENTICATED,
  PROOF_EXPIRED: Code.UNAUTHENTICATED,
  PROOF_SIGNATURE_INVALID: Code.UNAUTHENTICATED,
  WORKLOAD_NOT_CURRENT: Code.UNAUTHENTICATED,
  COMMAND_SIGNATURE_INVALID: Code.UNAUTHENTICATED,
  COMMAND_EXPIRED: Code.UNAUTHENTICATED,
  POSSESSION_INVALID: Code.UNAUTHENTICATED,
  CLEARANCE_INVALID: Code.UNAUTHENTICATED,
  APPROVAL_SIGNATURE_INVALID: Code.UNAUTHENTICATED,

  METHOD_NOT_ALLOWED: Code.PERMISSION_DENIED,
  NOT_VISIBLE: Code.PERMISSION_DENIED,
  ROLE_MISSING: Code.PERMISSION_DENIED,
  DOMAIN_INACTIVE: Code.PERMISSION_DENIED,
  POLICY_REVISION_STALE: Code.PERMISSION_DENIED,
  CALLER_KIND_WITHOUT_AUTHORITY: Code.PERMISSION_DENIED,
  HARNESS_MISSING: Code.PERMISSION_DENIED,
  HARNESS_INACTIVE: Code.PERMISSION_DENIED,
  HARNESS_ASSURANCE_MISMATCH: Code.PERMISSION_DENIED,
  CREDENTIAL_EPOCH_STALE: Code.PERMISSION_DENIED,
  PRINCIPAL_MISSING: Code.PERMISSION_DENIED,
  PRINCIPAL_UNBOUND: Code.PERMISSION_DENIED,
  PRINCIPAL_INACTIVE: Code.PERMISSION_DENIED,
  GUEST_MISSING: Code.PERMISSION_DENIED,
  GUEST_INACTIVE: Code.PERMISSION_DENIED,
  GUEST_EXPIRED: Code.PERMISSION_DENIED,
  CREDENTIAL_MISSING: Code.PERMISSION_DENIED,
  CREDENTIAL_UNBOUND: Code.PERMISSION_DENIED,
  CREDENTIAL_INACTIVE: Code.PERMISSION_DENIED,
  CREDENTIAL_OUTSIDE_VALIDITY: Code.PERMISSION_DENIED,
  ELIGIBILITY_DENIED: Code.PERMISSION_DENIED,
  ENTITLEMENT_MISSING: Code.PERMISSION_DENIED,
  ENTITLEMENT_STALE: Code.PERMISSION_DENIED,
  GRANT_REQUIRED: Code.PERMISSION_DENIED,
  GRANT_MISSING: Code.PERMISSION_DENIED,
  GRANT_BINDING_STALE: Code.PERMISSION_DENIED,
  GRANT_INCONSISTENT: Code.PERMISSION_DENIED,
  GRANT_FOREIGN: Code.PERMISSION_DENIED,
  GRANT_REVOKED: Code.PERMISSION_DENIED,
  GRANT_EXPIRED: Code.PERMISSION_DENIED,
  GRANT_EXHAUSTED: Code.PERMISSION_DENIED,
  GRANT_ACTION_NOT_COVERED: Code.PERMISSION_DENIED,
  GRANT_RESOURCE_NOT_COVERED: Code.PERMISSION_DENIED,
  GRANT_INPUT_SOURCE_NOT_COVERED: Code.PERMISSION_DENIED,
  GRANT_OUTPUT_SINK_NOT_COVERED: Code.PERMISSION_DENIED,
  GRANT_DATA_CLASS_NOT_COVERED: Code.PERMISSION_DENIED,
  EVENT_NOT_VISIBLE: Code.PERMISSION_DENIED,
  EVENT_CLASS_MISMATCH: Code.PERMISSION_DENIED,
  EVENT_DEADLINE_PASSED: Code.PERMISSION_DENIED,
  DECISION_NOT_USABLE: Code.PERMISSION_DENIED,
  SINK_UNKNOWN: Code.PERMISSION_DENIED,
  OWNER_NOT_CURRENT: Code.PERMISSION_DENIED,
  OWNER_SCOPE_MISSING: Code.PERMISSION_DENIED,
  OWNER_REQUIRED: Code.PERMISSION_DENIED,
  APPROVER_NOT_INDEPENDENT: Code.PERMISSION_DENIED,
  BOUNDED_GRANT_NOT_USABLE: Code.PERMISSION_DENIED,
  CONDITION_DENIED: Code.PERMISSION_DENIED,

  EFFECT_IDENTITY_CONFLICT: Code.ALREADY_EXISTS,
  EVENT_IDENTITY_CONFLICT: Code.ALREADY_EXISTS,
  PROVENANCE_CONFLICT: Code.ALREADY_EXISTS,
  RECORD_EXISTS: Code.ALREADY_EXISTS,
  CALLER_KIND_CONFLICT: Code.ALREADY_EXISTS,
  KEY_REUSED: Code.ALREADY_EXISTS,
  ACTION_IDEMPOTENCY_CONFLICT: Code.ALREADY_EXISTS,
  RECEIPT_CONFLICT: Code.ALREADY_EXISTS,
  APPROVAL_REUSED: Code.ALREADY_EXISTS,
  BOUNDED_GRANT_CONFLICT: Code.ALREADY_EXISTS,
  GATE_SHAPE_OVERLAP: Code.ALREADY_EXISTS,
  REQUEST_ID_CONFLICT: Code.ALREADY_EXISTS,
  PROOF_REPLAYED: Code.ALREADY_EXISTS,
  NONCE_REPLAYED: Code.ALREADY_EXISTS,
  COMMAND_REPLAYED: Code.ALREADY_EXISTS,
  CLEARANCE_REPLAYED: Code.ALREADY_EXISTS,

  EFFECT_STATE_CONFLICT: Code.FAILED_PRECONDITION,
  EFFECT_MUST_RECONCILE: Code.FAILED_PRECONDITION,
  EFFECT_KEY_BUSY: Code.FAILED_PRECONDITION,
  EFFECT_KEY_DONE: Code.FAILED_PRECONDITION,
  EFFECT_EXECUTOR_MISMATCH: Code.FAILED_PRECONDITION,
  EFFECT_ATTEMPT_MISMATCH: Code.FAILED_PRECONDITION,
  EFFECT_REQUEST_MISMATCH: Code.FAILED_PRECONDITION,
  EVIDENCE_TIME_OUTSIDE_WINDOW: Code.FAILED_PRECONDITION,
  RECONCILER_NOT_INDEPENDENT: Code.FAILED_PRECONDITION,
  RECONCILE_TOO_EARLY: Code.FAILED_PRECONDITION,
  START_TOO_LATE: Code.FAILED_PRECONDITION,
  FROZEN: Code.FAILED_PRECONDITION,
  PROVENANCE_MISSING: Code.FAILED_PRECONDITION,
  EFFECT_ARCHIVED: Code.FAILED_PRECONDITION,
  GRANT_NOT_CURRENT: Code.FAILED_PRECONDITION,
  ACTOR_NOT_CURRENT: Code.FAILED_PRECONDITION,
  RECORD_MISSING: Code.FAILED_PRECONDITION,
  PENDING_WORK_CONFLICT: Code.FAILED_PRECONDITION,
  STANDING_NOT_ALLOWED: Code.FAILED_PRECONDITION,
  ALREADY_BOOTSTRAPPED: Code.FAILED_PRECONDITION,
  TEST_CLOCK_ABSENT: Code.FAILED_PRECONDITION,
  PROVENANCE_RULE_VIOLATED: Code.FAILED_PRECONDITION,
  ACTION_STATE_CONFLICT: Code.FAILED_PRECONDITION,
  ACTION_NOT_READY: Code.FAILED_PRECONDITION,
  EXPECTATION_MISMATCH: Code.FAILED_PRECONDITION,
  GATE_INVALID: Code.FAILED_PRECONDITION,
  APPROVAL_EXPIRED: Code.FAILED_PRECONDITION,
  RECOVERY_CONTRACT_EXISTS: Code.FAILED_PRECONDITION,
  VIEW_NOT_CURRENT: Code.FAILED_PRECONDITION,
  WITNESS_INVALID: Code.FAILED_PRECONDITION,
  EFFECT_NOT_BINDABLE: Code.FAILED_PRECONDITION,
  RECEIPT_LIMIT_REACHED: Code.FAILED_PRECONDITION,

  FENCE_LOST: Code.ABORTED,
  REVISION_STALE: Code.ABORTED,
  LEASE_LOST: Code.ABORTED,
  CHECK_STALE: Code.ABORTED,

  BACKPRESSURE: Code.RESOURCE_EXHAUSTED,
  QUOTA_EXHAUSTED: Code.RESOURCE_EXHAUSTED,
  FAIRNESS_HOLD: Code.RESOURCE_EXHAUSTED,
  UNKNOWN_CEILING: Code.RESOURCE_EXHAUSTED,

  STORE_UNAVAILABLE: Code.UNAVAILABLE,
  OUTCOME_UNKNOWN: Code.UNAVAILABLE,
  STORE_REGRESSED: Code.UNAVAILABLE,
  DRAINING: Code.UNAVAILABLE,
  CIRCUIT_OPEN: Code.UNAVAILABLE,
  DEADLINE_PASSED: Code.DEADLINE_EXCEEDED,

  DATA_CORRUPT: Code.DATA_LOSS,
  INTERNAL: Code.INTERNAL,
};

/** The codes that protocols which are not ours (health, reflection) prescribe for what their callers may not find. */
const PROTOCOL_CODES = { NOT_FOUND: Code.NOT_FOUND, UNIMPLEMENTED: Code.UNIMPLEMENTED } as const;

/** Thrown by the methods of a foreign protocol to answer as it prescribes; no reason of ours goes with it. */
export class ProtocolRefused extends Error {
  override readonly name = 'ProtocolRefused';
  constructor(
    private readonly code: keyof typeof PROTOCOL_CODES,
    message: string,
  ) {
    super(message);
  }

  /** What grpc-js sends. */
  get status(): StatusObject {
    return { code: PROTOCOL_CODES[this.code] as number, details: this.message, metadata: new Metadata() };
  }
}

/** Where `google.rpc.Status` travels. */
export const STATUS_DETAILS_KEY = 'grpc-status-details-bin';

/**
 * Octets of a message. Percent-encoded it triples at worst; with the details it stays below the 8 KB of metadata that a
 * Python client takes before it turns any code into RESOURCE_EXHAUSTED (architecture.md, grpc-js).
 */
const MAX_MESSAGE_OCTETS = 512;

/** A refusal as `google.rpc.Status`: its code, its message and at most 4 KiB of details, ErrorInfo first. */
export function statusOf(refused: Refusal, code: Code = CODES[refused.reason]): Status {
  const message = shorten(wellFormed(refused.message), MAX_MESSAGE_OCTETS);
  return create(StatusSchema, { code, message, details: fitDetails(message, errorDetails(refused, code)) });
}

/**
 * A refusal as what grpc-js sends; `trailers` are sent beside it.
 *
 * @param code the reason's own unless gRPC prescribes another for the case
 */
export function grpcStatus(
  refused: Refusal,
  trailers: Readonly<Record<string, string>> = {},
  code?: Code,
): StatusObject {
  const status = statusOf(refused, code);
  const metadata = new Metadata();
  for (const [key, value] of Object.entries(trailers)) metadata.set(key, value);
  metadata.set(STATUS_DETAILS_KEY, Buffer.from(toBinary(StatusSchema, status)));
  return { code: status.code, details: status.message, metadata };
}

/** The refusal that a thrown error stands for; undefined for everything that is a bug. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof Refused) return error.refusal;
  if (error instanceof CertificateRejected) {
    return refusal('CERTIFICATE_REJECTED', 'The certificate is not accepted.', {
      metadata: { rule: error.reason },
    });
  }
  if (error instanceof SignedMessageError) {
    if (error.reason === 'FIELD_INVALID') {
      return refusal('FIELD_INVALID', error.message, { violations: error.violations });
    }
    const { rule, field } = error;
    return refusal(error.reason, error.message, {
      metadata: { rule, ...(field === undefined ? {} : { field }) },
    });
  }
  // Only reads come here with one: the lane answers for itself. A read that failed did nothing, whatever became of it.
  if (error instanceof StoreError && error.transient) {
    return refusal('STORE_UNAVAILABLE', 'The store cannot be reached; nothing was done.');
  }
  return undefined;
}

/** What a caller learns of a bug: an id that the log has too, and nothing of what was thrown. */
export function internalRefusal(id: string): Refusal {
  return refusal('INTERNAL', `Internal error ${id}; it is not known whether the call was done.`, {
    metadata: { id },
  });
}

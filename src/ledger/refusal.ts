/**
 * Every reason that a refusal can carry: the names of `surety.error.v1.Reason` without their prefix. A test holds the two
 * lists against each other.
 */
export type Reason =
  | 'FIELD_INVALID'
  | 'CERTIFICATE_REJECTED'
  | 'CALLER_UNKNOWN'
  | 'PROOF_BINDING_MISMATCH'
  | 'PROOF_EXPIRED'
  | 'PROOF_SIGNATURE_INVALID'
  | 'WORKLOAD_NOT_CURRENT'
  | 'COMMAND_SIGNATURE_INVALID'
  | 'COMMAND_EXPIRED'
  | 'POSSESSION_INVALID'
  | 'CLEARANCE_INVALID'
  | 'APPROVAL_SIGNATURE_INVALID'
  | 'METHOD_NOT_ALLOWED'
  | 'NOT_VISIBLE'
  | 'ROLE_MISSING'
  | 'DOMAIN_INACTIVE'
  | 'POLICY_REVISION_STALE'
  | 'CALLER_KIND_WITHOUT_AUTHORITY'
  | 'HARNESS_MISSING'
  | 'HARNESS_INACTIVE'
  | 'HARNESS_ASSURANCE_MISMATCH'
  | 'CREDENTIAL_EPOCH_STALE'
  | 'PRINCIPAL_MISSING'
  | 'PRINCIPAL_UNBOUND'
  | 'PRINCIPAL_INACTIVE'
  | 'GUEST_MISSING'
  | 'GUEST_INACTIVE'
  | 'GUEST_EXPIRED'
  | 'CREDENTIAL_MISSING'
  | 'CREDENTIAL_UNBOUND'
  | 'CREDENTIAL_INACTIVE'
  | 'CREDENTIAL_OUTSIDE_VALIDITY'
  | 'ELIGIBILITY_DENIED'
  | 'ENTITLEMENT_MISSING'
  | 'ENTITLEMENT_STALE'
  | 'GRANT_REQUIRED'
  | 'GRANT_MISSING'
  | 'GRANT_BINDING_STALE'
  | 'GRANT_INCONSISTENT'
  | 'GRANT_FOREIGN'
  | 'GRANT_REVOKED'
  | 'GRANT_EXPIRED'
  | 'GRANT_EXHAUSTED'
  | 'GRANT_ACTION_NOT_COVERED'
  | 'GRANT_RESOURCE_NOT_COVERED'
  | 'GRANT_INPUT_SOURCE_NOT_COVERED'
  | 'GRANT_OUTPUT_SINK_NOT_COVERED'
  | 'GRANT_DATA_CLASS_NOT_COVERED'
  | 'EVENT_NOT_VISIBLE'
  | 'EVENT_CLASS_MISMATCH'
  | 'EVENT_DEADLINE_PASSED'
  | 'DECISION_NOT_USABLE'
  | 'SINK_UNKNOWN'
  | 'OWNER_NOT_CURRENT'
  | 'OWNER_SCOPE_MISSING'
  | 'OWNER_REQUIRED'
  | 'APPROVER_NOT_INDEPENDENT'
  | 'BOUNDED_GRANT_NOT_USABLE'
  | 'CONDITION_DENIED'
  | 'EFFECT_IDENTITY_CONFLICT'
  | 'EVENT_IDENTITY_CONFLICT'
  | 'PROVENANCE_CONFLICT'
  | 'RECORD_EXISTS'
  | 'CALLER_KIND_CONFLICT'
  | 'KEY_REUSED'
  | 'ACTION_IDEMPOTENCY_CONFLICT'
  | 'RECEIPT_CONFLICT'
  | 'APPROVAL_REUSED'
  | 'BOUNDED_GRANT_CONFLICT'
  | 'GATE_SHAPE_OVERLAP'
  | 'REQUEST_ID_CONFLICT'
  | 'PROOF_REPLAYED'
  | 'NONCE_REPLAYED'
  | 'COMMAND_REPLAYED'
  | 'CLEARANCE_REPLAYED'
  | 'EFFECT_STATE_CONFLICT'
  | 'EFFECT_MUST_RECONCILE'
  | 'EFFECT_KEY_BUSY'
  | 'EFFECT_KEY_DONE'
  | 'EFFECT_EXECUTOR_MISMATCH'
  | 'EFFECT_ATTEMPT_MISMATCH'
  | 'EFFECT_REQUEST_MISMATCH'
  | 'EVIDENCE_TIME_OUTSIDE_WINDOW'
  | 'RECONCILER_NOT_INDEPENDENT'
  | 'RECONCILE_TOO_EARLY'
  | 'START_TOO_LATE'
  | 'FROZEN'
  | 'PROVENANCE_MISSING'
  | 'EFFECT_ARCHIVED'
  | 'GRANT_NOT_CURRENT'
  | 'ACTOR_NOT_CURRENT'
  | 'RECORD_MISSING'
  | 'PENDING_WORK_CONFLICT'
  | 'STANDING_NOT_ALLOWED'
  | 'ALREADY_BOOTSTRAPPED'
  | 'TEST_CLOCK_ABSENT'
  | 'PROVENANCE_RULE_VIOLATED'
  | 'ACTION_STATE_CONFLICT'
  | 'ACTION_NOT_READY'
  | 'EXPECTATION_MISMATCH'
  | 'GATE_INVALID'
  | 'APPROVAL_EXPIRED'
  | 'RECOVERY_CONTRACT_EXISTS'
  | 'VIEW_NOT_CURRENT'
  | 'WITNESS_INVALID'
  | 'EFFECT_NOT_BINDABLE'
  | 'RECEIPT_LIMIT_REACHED'
  | 'FENCE_LOST'
  | 'REVISION_STALE'
  | 'LEASE_LOST'
  | 'CHECK_STALE'
  | 'BACKPRESSURE'
  | 'QUOTA_EXHAUSTED'
  | 'FAIRNESS_HOLD'
  | 'UNKNOWN_CEILING'
  | 'STORE_UNAVAILABLE'
  | 'OUTCOME_UNKNOWN'
  | 'STORE_REGRESSED'
  | 'DRAINING'
  | 'CIRCUIT_OPEN'
  | 'DEADLINE_PASSED'
  | 'DATA_CORRUPT'
  | 'INTERNAL';

/** A rule that a field of a request breaks. */
export interface FieldViolation {
  /** Path in the request, for example `evidence.attempt_id`. */
  readonly field: string;
  /** The rule, as a sentence. */
  readonly rule: string;
}

/** Why a command was refused. Plain data: one map in `src/rpc/status.ts` turns it into a gRPC status. */
export interface Refusal {
  readonly reason: Reason;
  /** A sentence for people; never the text of a driver or a library. */
  readonly message: string;
  readonly metadata?: Readonly<Record<string, string>>;
  /** Every violation at once, with FIELD_INVALID. */
  readonly violations?: readonly FieldViolation[];
  /** When it makes sense to come back, in microseconds from now; `never`: waiting changes nothing. */
  readonly retryAfter?: bigint | 'never';
  /** The thing that is in the way, for ResourceInfo and PreconditionFailure: its type and name. */
  readonly resource?: { readonly type: string; readonly name: string };
}

/** Makes a refusal. */
export function refusal(
  reason: Reason,
  message: string,
  rest: Omit<Refusal, 'reason' | 'message'> = {},
): Refusal {
  return { reason, message, ...rest };
}

import type { Duration } from '@bufbuild/protobuf/wkt';
import type {
  AcceptActionRequest,
  BeginDispatchRequest,
  BeginObservationRequest,
  CompleteActionRequest,
  DeferLeasedRequest,
  DeferObservationRequest,
  FailActionRequest,
  LeaseNextRequest,
  LeaseObservationRequest,
  VerifyActionRequest,
} from '../../gen/surety/action/v1/action_service_pb.js';
import type {
  AcceptAction,
  BeginDispatch,
  BeginObservation,
  CompleteAction,
  DeferLeased,
  DeferObservation,
  FailAction,
  HolderCommand,
  LeaseNext,
  LeaseObservation,
  VerifyAction,
} from '../../ledger/action/commands.js';
import {
  MAX_LEASE,
  MAX_OBSERVATION_WINDOW,
  MAX_OBSERVATIONS,
  MAX_PAYLOAD_BYTES,
  MAX_WITNESSES,
  MIN_LEASE,
  MIN_OBSERVATION_WINDOW,
} from '../../ledger/action/limits.js';
import { LEASABLE_STATES } from '../../ledger/action/states.js';
import type { CallContext } from '../handler.js';
import { Violations } from '../validate.js';
import { LEASABLE } from './action-enums.js';
import {
  commandBase,
  MAX_NAME_OCTETS,
  MAX_SOURCE_REF_OCTETS,
  readActionId,
  readDelay,
  readLeaseToken,
  readName,
  readReceipt,
  readRegistrationId,
  readRequestId,
  readScope,
} from './read-fields.js';

/** Requests of workers. Each function reads one and throws {Refused} FIELD_INVALID with every violation. */

const MAX_DETAIL_OCTETS = 512;

/** What every request of a leaseholder has. */
interface HolderRequest {
  readonly actionId: string;
  readonly leaseToken: bigint;
}

/** The common fields of a leaseholder's request. */
export function readHolder(v: Violations, request: HolderRequest, context: CallContext): HolderCommand {
  return {
    ...commandBase(context),
    kind: 'worker',
    actionId: readActionId(v, request.actionId),
    leaseToken: readLeaseToken(v, request.leaseToken),
  };
}

function readLease(
  v: Violations,
  request: LeaseNextRequest | LeaseObservationRequest,
  context: CallContext,
): LeaseObservation {
  const duration: Duration | undefined = request.leaseDuration;
  return {
    ...commandBase(context),
    kind: 'worker',
    registrationId: readRegistrationId(v, context, request.registrationId),
    requestId: readRequestId(v, request.requestId),
    scope: readScope(v, request.scope),
    duration: v.duration('lease_duration', duration, MIN_LEASE, MAX_LEASE),
  };
}

export function readLeaseNext(request: LeaseNextRequest, context: CallContext): LeaseNext {
  const v = new Violations();
  const lease = readLease(v, request, context);
  const named = v.list('states', request.states, 0, LEASABLE_STATES.length, (path, state) =>
    v.choice(path, state, LEASABLE),
  );
  v.throwIfAny();
  return { ...lease, states: named.length === 0 ? LEASABLE_STATES : [...new Set(named)] };
}

export function readLeaseObservation(
  request: LeaseObservationRequest,
  context: CallContext,
): LeaseObservation {
  const v = new Violations();
  const lease = readLease(v, request, context);
  v.throwIfAny();
  return lease;
}

/** All that the caller believes; what is checked before the transaction is added by `dispatchChecks`. */
export function readDispatch(
  request: BeginDispatchRequest,
  context: CallContext,
): Omit<BeginDispatch, 'checks'> {
  const v = new Violations();
  const { payload } = request;
  if (payload.length < 1 || payload.length > MAX_PAYLOAD_BYTES) {
    v.refuse('payload', `must be 1 to ${MAX_PAYLOAD_BYTES} bytes`);
  }
  const command = {
    ...readHolder(v, request, context),
    source: readName(v, 'source', request.source),
    sourceRef: v.id('source_ref', request.sourceRef, 1, MAX_SOURCE_REF_OCTETS),
    type: readName(v, 'type', request.type),
    payload: Buffer.from(payload),
    gateReceiptKey: readName(v, 'gate_receipt_key', request.gateReceiptKey),
    approvalId: readName(v, 'approval_id', request.approvalId),
    decisionId: readName(v, 'decision_id', request.decisionId),
    executionDigest: v.digest('execution_digest', request.executionDigest),
    observationWindow: v.duration(
      'observation_window',
      request.observationWindow,
      MIN_OBSERVATION_WINDOW,
      MAX_OBSERVATION_WINDOW,
    ),
    maxObservations: readCount(v, 'max_observations', request.maxObservations, 1),
    authorization: readAuthorization(v, request),
    effectId: v.optionalId('effect_id', request.effectId, 1, MAX_NAME_OCTETS) ?? null,
  };
  v.throwIfAny();
  return command;
}

/** The judgement of a validator of the caller's own: what it saw and until when it is good, both or neither. */
function readAuthorization(
  v: Violations,
  { viewDigest, authorizationExpireTime }: BeginDispatchRequest,
): BeginDispatch['authorization'] {
  const digest = v.optionalDigest('view_digest', viewDigest);
  if (digest === undefined) {
    if (authorizationExpireTime) {
      v.refuse('authorization_expire_time', 'must be absent where view_digest is empty');
    }
    return null;
  }
  return {
    viewDigest: digest,
    expiresAt: v.time('authorization_expire_time', authorizationExpireTime),
  };
}

export function readObservation(request: BeginObservationRequest, context: CallContext): BeginObservation {
  const v = new Violations();
  const command = {
    ...readHolder(v, request, context),
    requestId: readRequestId(v, request.requestId),
    executionDigest: v.digest('execution_digest', request.executionDigest),
  };
  v.throwIfAny();
  return command;
}

export function readDeferredObservation(
  request: DeferObservationRequest,
  context: CallContext,
): DeferObservation {
  const v = new Violations();
  const command = {
    ...readHolder(v, request, context),
    executionDigest: v.digest('execution_digest', request.executionDigest),
    observationNumber: readCount(v, 'observation_number', request.observationNumber, 0),
    delay: readDelay(v, request.delay),
  };
  v.throwIfAny();
  return command;
}

export function readDeferral(request: DeferLeasedRequest, context: CallContext): DeferLeased {
  const v = new Violations();
  const command = { ...readHolder(v, request, context), delay: readDelay(v, request.delay) };
  v.throwIfAny();
  return command;
}

export function readAcceptance(request: AcceptActionRequest, context: CallContext): AcceptAction {
  const v = new Violations();
  const command = { ...readHolder(v, request, context), receipt: readReceipt(v, request.receipt) };
  v.throwIfAny();
  return command;
}

export function readVerification(request: VerifyActionRequest, context: CallContext): VerifyAction {
  const v = new Violations();
  const command = {
    ...readHolder(v, request, context),
    witnessReceiptKeys: v.textSet('witness_receipt_keys', request.witnessReceiptKeys, {
      ...{ min: 1, max: MAX_WITNESSES },
      ...{ minOctets: 1, maxOctets: MAX_NAME_OCTETS },
    }),
    receipt: request.receipt === undefined ? null : readReceipt(v, request.receipt),
  };
  v.throwIfAny();
  return command;
}

export function readCompletion(request: CompleteActionRequest, context: CallContext): CompleteAction {
  const v = new Violations();
  const command = {
    ...readHolder(v, request, context),
    resultDigest: v.digest('result_digest', request.resultDigest),
  };
  v.throwIfAny();
  return command;
}

export function readFailure(request: FailActionRequest, context: CallContext): FailAction {
  const v = new Violations();
  const command = {
    ...readHolder(v, request, context),
    detail: v.id('detail', request.detail, 1, MAX_DETAIL_OCTETS),
    resultDigest: v.optionalDigest('result_digest', request.resultDigest) ?? null,
    retryable: request.retryable,
  };
  v.throwIfAny();
  return command;
}

function readCount(v: Violations, field: string, value: number, min: number): number {
  return Number(v.integer(field, BigInt(value), BigInt(min), BigInt(MAX_OBSERVATIONS)));
}

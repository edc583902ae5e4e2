import { create, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { EffectState as WireState } from '../gen/surety/effect/v1/effect_pb.js';
import { TransitionStatementSchema } from '../gen/surety/effect/v1/proof_pb.js';
import { WorkloadRole as WireRole } from '../gen/surety/identity/v1/workload_pb.js';
import { TimestampSchema } from '@bufbuild/protobuf/wkt';
import type { StatementFields } from '../ledger/effect/statement.js';
import type { EffectState, WorkloadRole } from '../ledger/types.js';
import { FieldRules } from './field-rules.js';
import { SignedMessageError } from './signed-message-error.js';
import { SIGNED_MESSAGES } from './signed-messages.js';
import { microsToTimestamp } from './timestamp.js';

const MAX_ID_OCTETS = 256;
// SPIFFE-ID, section 2.3.
const MAX_SPIFFE_ID_OCTETS = 2048;
// A trust domain name (SPIFFE-ID, section 2.1).
const MAX_DOMAIN_OCTETS = 255;
// 24 characters of base64 are 144 bits; 256 is room for whatever a client makes its nonces with. Printable, so that one
// can be shown, and ASCII, so that characters are octets.
const NONCE_PATTERN = /^[!-~]{24,256}$/;

const ROLE_NAMES: Readonly<Record<number, WorkloadRole>> = {
  [WireRole.EFFECT_EXECUTOR]: 'effect_executor',
  [WireRole.EFFECT_RECONCILER]: 'effect_reconciler',
  [WireRole.ACTION_WORKER]: 'action_worker',
};
const ROLE_NUMBERS: Readonly<Record<WorkloadRole, WireRole>> = {
  effect_executor: WireRole.EFFECT_EXECUTOR,
  effect_reconciler: WireRole.EFFECT_RECONCILER,
  action_worker: WireRole.ACTION_WORKER,
};
const STATE_NAMES: Readonly<Record<number, EffectState>> = {
  [WireState.PREPARED]: 'PREPARED',
  [WireState.EXECUTING]: 'EXECUTING',
  [WireState.SUCCEEDED]: 'SUCCEEDED',
  [WireState.FAILED]: 'FAILED',
  [WireState.CANCELLED]: 'CANCELLED',
  [WireState.UNKNOWN]: 'UNKNOWN',
};

type StatementMessage = MessageShape<typeof TransitionStatementSchema>;

/**
 * Checks the form of a decoded statement, field by field: proof.proto, TransitionStatement. Says nothing about whether the
 * fields are true; that is transition rule 3 of effects.md.
 *
 * @throws {SignedMessageError} FIELD_INVALID with every violation at once
 */
export function readTransitionStatement(message: StatementMessage): StatementFields {
  const rules = new FieldRules(SIGNED_MESSAGES.transition.field);
  const fields: StatementFields = {
    audience: rules.id('audience', message.audience, 1, MAX_SPIFFE_ID_OCTETS),
    incarnation: rules.positive('incarnation', message.incarnation),
    domainId: rules.id('domain_id', message.domainId, 1, MAX_DOMAIN_OCTETS),
    registrationId: rules.id('registration_id', message.registrationId, 1, MAX_ID_OCTETS),
    workloadId: rules.id('workload_id', message.workloadId, 1, MAX_ID_OCTETS),
    role: rules.choice('role', message.role, ROLE_NAMES),
    processId: rules.id('process_id', message.processId, 1, MAX_ID_OCTETS),
    processStart: rules.time('process_start_time', message.processStartTime),
    sessionId: rules.id('session_id', message.sessionId, 1, MAX_ID_OCTETS),
    credentialEpoch: rules.positive('credential_epoch', message.credentialEpoch),
    revocationEpoch: rules.positive('revocation_epoch', message.revocationEpoch),
    parentEventId: rules.id('parent_event_id', message.parentEventId, 1, MAX_ID_OCTETS),
    grantId: rules.id('grant_id', message.grantId, 1, MAX_ID_OCTETS),
    effectId: rules.id('effect_id', message.effectId, 1, MAX_ID_OCTETS),
    fence: rules.positive('fence', message.fence),
    fromState: rules.choice('from_state', message.fromState, STATE_NAMES),
    toState: rules.choice('to_state', message.toState, STATE_NAMES),
    evidenceDigest: rules.digest('evidence_digest', message.evidenceDigest),
    issuedAt: rules.time('issued_time', message.issuedTime),
    nonce: message.nonce,
  };
  if (!NONCE_PATTERN.test(message.nonce)) {
    rules.refuse('nonce', 'must be 24 to 256 printable ASCII characters without spaces');
  }
  if (rules.violations.length > 0) throw SignedMessageError.invalid(rules.violations);
  return fields;
}

/**
 * Serializes a statement: the payload of a transition proof.
 *
 * @throws {SignedMessageError} FIELD_INVALID where a field breaks a rule of its form: a lone surrogate would otherwise be
 *   replaced on the way, and something else be signed than was meant
 * @throws {RangeError} where a time is outside of 1970 to 9999, or an integer outside of 64 bits
 */
export function encodeTransitionStatement(fields: StatementFields): Uint8Array {
  const { role, fromState, toState, processStart, issuedAt, ...rest } = fields;
  const message = create(TransitionStatementSchema, {
    ...rest,
    evidenceDigest: Uint8Array.from(fields.evidenceDigest),
    role: ROLE_NUMBERS[role],
    fromState: WireState[fromState],
    toState: WireState[toState],
    processStartTime: create(TimestampSchema, microsToTimestamp(processStart)),
    issuedTime: create(TimestampSchema, microsToTimestamp(issuedAt)),
  });
  readTransitionStatement(message);
  return toBinary(TransitionStatementSchema, message);
}

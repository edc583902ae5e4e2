import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  type RegistrationSpec,
  RegistrationSpecSchema,
  type WorkloadRegistrationSchema,
} from '../gen/surety/identity/v1/workload_pb.js';
import { microsToTimestamp } from '../identity/timestamp.js';
import type { VerifiedPossession } from '../identity/verify-signed-message.js';
import type { RegistrationRow } from '../ledger/identity/records.js';
import {
  type ProvedRegistration,
  RECONCILER_WORKLOAD_PREFIX,
} from '../ledger/identity/registration-fields.js';
import { MAX_VALIDITY } from '../ledger/identity/registration-rules.js';
import { utf8Length } from '../ledger/text.js';
import { readBinding, readSpiffeId } from './identity-fields.js';
import type { Violations } from './validate.js';
import { WIRE_BINDINGS, WIRE_STATUSES, WIRE_WORKLOAD_ROLES, WORKLOAD_ROLES } from './wire-enums.js';

const MAX_ID_OCTETS = 256;
const MAX_SPIFFE_ID_OCTETS = 2048;
const MAX_DOMAIN_OCTETS = 255;
/** effects.md, Transitions by workloads: `authority_system_id`. */
const MIN_SYSTEM_OCTETS = 3;
const MAX_STANDING_SINKS = 64;
const MAX_INT64 = 2n ** 63n - 1n;

/**
 * Reads the registration that a proof of possession is over (identity.md, Workload registration): each field's form, and
 * what the fields say of each other. Notes what breaks a rule; use the result only behind `throwIfAny`. Whether the
 * registration may stand is decided in the transaction.
 *
 * @param statement at the path of the proof in the request
 */
export function readPossession(statement: Violations, possession: VerifiedPossession): ProvedRegistration {
  const { message, proofKey } = possession;
  const spec = message.registration ?? create(RegistrationSpecSchema);
  const v = statement.at('registration');
  const domainId = v.id('domain_id', spec.domainId, 1, MAX_DOMAIN_OCTETS);
  const { binding, digest } = readBinding(
    v,
    { binding: 'certificate_binding', digest: 'certificate_digest' },
    { binding: spec.certificateBinding, digest: spec.certificateDigest },
  );
  const role = v.choice('role', spec.role, WORKLOAD_ROLES);
  const proved: ProvedRegistration = {
    audience: statement.id('audience', message.audience, 1, MAX_SPIFFE_ID_OCTETS),
    incarnation: statement.integer('incarnation', message.incarnation, 1n, MAX_INT64),
    domainId,
    registrationId: v.id('registration_id', spec.registrationId, 1, MAX_ID_OCTETS),
    workloadId: v.id('workload_id', spec.workloadId, 1, MAX_ID_OCTETS),
    role,
    recipientScope: v.id('recipient_scope', spec.recipientScope, 1, MAX_ID_OCTETS),
    processId: v.id('process_id', spec.processId, 1, MAX_ID_OCTETS),
    processStartTime: v.time('process_start_time', spec.processStartTime),
    sessionId: v.id('session_id', spec.sessionId, 1, MAX_ID_OCTETS),
    spiffeId: readSpiffeId(v, 'spiffe_id', spec.spiffeId, domainId),
    certificateBinding: binding,
    certificateDigest: digest,
    proofKeyJwk: proofKey.jwk,
    proofKeyThumbprint: proofKey.thumbprint,
    credentialEpoch: v.integer('credential_epoch', spec.credentialEpoch, 1n, MAX_INT64),
    revocationEpoch: v.integer('revocation_epoch', spec.revocationEpoch, 1n, MAX_INT64),
    ...readPurpose(v, spec),
    issuedAt: v.time('issued_time', spec.issuedTime),
    expiresAt: v.time('expire_time', spec.expireTime),
    renewableUntil: v.optionalTime('renewable_until_time', spec.renewableUntilTime) ?? null,
    possessionDigest: possession.payloadDigest,
    possessionJws: possession.token,
  };
  const validity = proved.expiresAt - proved.issuedAt;
  if (validity <= 0n || validity > MAX_VALIDITY) {
    v.refuse('expire_time', 'must be after issued_time, by an hour at most');
  }
  requireWorkloadId(v, proved);
  return proved;
}

/** Bound to an event and a grant, or standing for sinks; a worker is neither (identity.md, Bound and standing). */
function readPurpose(
  v: Violations,
  spec: RegistrationSpec,
): Pick<ProvedRegistration, 'parentEventId' | 'grantId' | 'sinks'> {
  const parentEventId = v.optionalId('parent_event_id', spec.parentEventId, 1, MAX_ID_OCTETS) ?? null;
  const grantId = v.optionalId('grant_id', spec.grantId, 1, MAX_ID_OCTETS) ?? null;
  const worker = WORKLOAD_ROLES[spec.role] === 'action_worker';
  const bound = parentEventId !== null || grantId !== null;
  if ((parentEventId === null) !== (grantId === null)) {
    v.refuse(grantId === null ? 'grant_id' : 'parent_event_id', 'must be there with the other, or neither');
  }
  if (worker && bound) v.refuse('grant_id', 'must be empty: a worker is bound to no event and no grant');
  if (bound || worker) {
    if (spec.sinks.length > 0) v.refuse('sinks', 'must be empty but for a standing registration for effects');
    return { parentEventId, grantId, sinks: [] };
  }
  const limits = { min: 1, max: MAX_STANDING_SINKS, minOctets: 1, maxOctets: MAX_ID_OCTETS };
  return { parentEventId, grantId, sinks: v.textSet('sinks', spec.sinks, limits) };
}

function requireWorkloadId(v: Violations, { role, workloadId }: ProvedRegistration): void {
  if (role !== 'effect_reconciler') return;
  const system = workloadId.startsWith(RECONCILER_WORKLOAD_PREFIX)
    ? workloadId.slice(RECONCILER_WORKLOAD_PREFIX.length)
    : '';
  if (utf8Length(system) < MIN_SYSTEM_OCTETS) {
    v.refuse('workload_id', `must be ${RECONCILER_WORKLOAD_PREFIX} and the authority system`);
  }
}

/** A registration as it is stored. */
export function wireRegistration(
  domainId: string,
  row: RegistrationRow,
  proofKeyJwk: string,
): MessageInitShape<typeof WorkloadRegistrationSchema> {
  return {
    spec: {
      registrationId: row.registrationId,
      domainId,
      workloadId: row.workloadId,
      role: WIRE_WORKLOAD_ROLES[row.role],
      recipientScope: row.recipientScope,
      processId: row.processId,
      processStartTime: microsToTimestamp(row.processStartTime),
      sessionId: row.sessionId,
      spiffeId: row.spiffeId,
      certificateBinding: WIRE_BINDINGS[row.certificateBinding],
      certificateDigest: Uint8Array.from(row.certificateDigest ?? []),
      proofKeyJwk,
      credentialEpoch: row.credentialEpoch,
      revocationEpoch: row.revocationEpoch,
      parentEventId: row.parentEventId ?? '',
      grantId: row.grantId ?? '',
      sinks: [...row.sinks],
      issuedTime: microsToTimestamp(row.issuedAt),
      expireTime: microsToTimestamp(row.expiresAt),
      ...(row.renewableUntil === null ? {} : { renewableUntilTime: microsToTimestamp(row.renewableUntil) }),
    },
    status: WIRE_STATUSES[row.status],
    proofKeyThumbprint: row.proofKeyThumbprint,
    updateTime: microsToTimestamp(row.updatedAt),
  };
}

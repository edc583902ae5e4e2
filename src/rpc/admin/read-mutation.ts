import { create } from '@bufbuild/protobuf';
import type { AdminCommand } from '../../gen/surety/authority/v1/command_pb.js';
import {
  ActionConditionSchema,
  CredentialSchema,
  EntitlementSchema,
  GateShapeSchema,
  GrantSchema,
  GuestSchema,
  HarnessSchema,
  OperatorSchema,
  OwnerSchema,
  PrincipalSchema,
  SinkSchema,
  ToolSchema,
} from '../../gen/surety/authority/v1/records_pb.js';
import { isTrustDomain } from '../../identity/spiffe-id.js';
import { DEFAULT_REQUESTS_PER_MINUTE } from '../../ledger/admission/limits.js';
import type { Mutation } from '../../ledger/authority/mutations.js';
import { readProved } from '../read-proved.js';
import type { Violations } from '../validate.js';
import { STATUSES } from '../wire-enums.js';
import { readActionCondition, readGateShape, readTool } from './read-gate-records.js';
import { readGrant } from './read-grant.js';
import {
  readCredential,
  readEntitlement,
  readHarness,
  readOperator,
  readOwner,
  readSink,
} from './read-records.js';
import { MAX_ID_OCTETS } from './record-fields.js';

/** A domain is resumed, so it is never revoked. */
const DOMAIN_STATUSES = { 1: 'active', 2: 'suspended' } as const;

type WireMutation = AdminCommand['mutation'];
type Case = NonNullable<WireMutation['case']>;
type ValueOf<C extends Case> = Extract<WireMutation, { case: C }>['value'];

/** Reads one mutation; `v` is at the mutation's own path, `domainId` the domain that the command acts in. */
type ReadMutation<C extends Case> = (
  v: Violations,
  value: ValueOf<C>,
  domainId: string,
) => Mutation | Promise<Mutation>;

/**
 * Reads the mutation of a command: each field's form. What depends on rows or on the clock is decided in the transaction.
 * Fields that are the service's (revisions, epochs, uses, freezes) are not looked at. An absent record reads as an empty
 * one, whose required fields are then the violations. Use the result only behind `throwIfAny`.
 *
 * @param violations at the path of the command
 * @throws {SignedMessageError} where a proof of possession within it does not verify
 * @throws {Refused} FIELD_INVALID where there is no mutation
 */
export async function readMutation(
  violations: Violations,
  mutation: WireMutation,
  domainId: string,
): Promise<Mutation> {
  if (mutation.case === undefined) {
    violations.refuse('mutation', 'is required');
    throw violations.refusal();
  }
  const read = READERS[mutation.case] as ReadMutation<Case>;
  const field = mutation.case.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return read(violations.at(field), mutation.value, domainId);
}

const READERS: { readonly [C in Case]: ReadMutation<C> } = {
  createDomain: (v, { domainId, allowStandingRegistrations, requestsPerMinute }) => {
    if (!isTrustDomain(domainId)) v.refuse('domain_id', 'must be a SPIFFE trust domain');
    return {
      kind: 'create_domain',
      newDomainId: domainId,
      allowStanding: allowStandingRegistrations,
      requestsPerMinute: requestsPerMinute === 0 ? DEFAULT_REQUESTS_PER_MINUTE : requestsPerMinute,
    };
  },
  updateDomain: (v, { status, allowStandingRegistrations }) => ({
    kind: 'update_domain',
    status: v.choice('status', status, DOMAIN_STATUSES),
    allowStanding: allowStandingRegistrations,
  }),
  putSink: (v, { sink }) => readSink(v.at('sink'), sink ?? create(SinkSchema)),
  bumpPolicyRevision: () => ({ kind: 'bump_policy_revision' }),
  bumpRevocationEpoch: () => ({ kind: 'bump_revocation_epoch' }),
  setFreeze: (v, { sink, frozen }) => ({
    kind: 'set_freeze',
    sink: v.optionalId('sink', sink, 1, MAX_ID_OCTETS),
    frozen,
  }),
  setLimits: (_v, { actorRequestsPerMinute, pendingCeiling, fairnessBurst, maxHops }) => ({
    kind: 'set_limits',
    actorRequestsPerMinute,
    pendingCeiling,
    fairnessBurst,
    maxHops,
  }),
  setShare: (_v, { requestsPerMinute }) => ({ kind: 'set_share', requestsPerMinute }),
  setServiceLimit: (_v, { requestsPerMinute }) => ({ kind: 'set_service_limit', requestsPerMinute }),
  resetBreaker: (v, { sink }) => ({ kind: 'reset_breaker', sink: v.id('sink', sink, 1, MAX_ID_OCTETS) }),
  putPrincipal: (v, { principal = create(PrincipalSchema) }) => ({
    kind: 'put_principal',
    principalId: v.at('principal').id('principal_id', principal.principalId, 1, MAX_ID_OCTETS),
    status: v.at('principal').choice('status', principal.status, STATUSES),
  }),
  putGuest: (v, { guest = create(GuestSchema) }) => ({
    kind: 'put_guest',
    guestId: v.at('guest').id('guest_id', guest.guestId, 1, MAX_ID_OCTETS),
    status: v.at('guest').choice('status', guest.status, STATUSES),
    expiresAt: v.at('guest').time('expire_time', guest.expireTime),
  }),
  putHarness: (v, { harness }) => readHarness(v.at('harness'), harness ?? create(HarnessSchema)),
  bumpCredentialEpoch: (v, { harnessId }) => ({
    kind: 'bump_credential_epoch',
    harnessId: v.id('harness_id', harnessId, 1, MAX_ID_OCTETS),
  }),
  createCredential: (v, { credential }, domainId) =>
    readCredential(v.at('credential'), credential ?? create(CredentialSchema), domainId),
  revokeCredential: (v, { credentialId }) => ({
    kind: 'revoke_credential',
    credentialId: v.id('credential_id', credentialId, 1, MAX_ID_OCTETS),
  }),
  putEntitlement: (v, { entitlement }) =>
    readEntitlement(v.at('entitlement'), entitlement ?? create(EntitlementSchema)),
  revokeEntitlement: (v, { entitlementId }) => ({
    kind: 'revoke_entitlement',
    entitlementId: v.id('entitlement_id', entitlementId, 1, MAX_ID_OCTETS),
  }),
  createGrant: (v, { grant }) => readGrant(v.at('grant'), grant ?? create(GrantSchema)),
  revokeGrant: (v, { grantId }) => ({
    kind: 'revoke_grant',
    grantId: v.id('grant_id', grantId, 1, MAX_ID_OCTETS),
  }),
  putOperator: (v, { operator }) => readOperator(v.at('operator'), operator ?? create(OperatorSchema)),
  putOwner: (v, { owner }) => readOwner(v.at('owner'), owner ?? create(OwnerSchema)),
  registerWorkload: async (v, { possessionJws }) => ({
    kind: 'register_workload',
    proved: (await readProved(v.at('possession_jws'), possessionJws)).proved,
  }),
  renewWorkload: async (v, { possessionJws }) => ({
    kind: 'renew_workload',
    proved: (await readProved(v.at('possession_jws'), possessionJws)).proved,
  }),
  revokeWorkload: (v, { registrationId }) => ({
    kind: 'revoke_workload',
    registrationId: v.id('registration_id', registrationId, 1, MAX_ID_OCTETS),
  }),
  putGateShape: (v, { gateShape }) => readGateShape(v.at('gate_shape'), gateShape ?? create(GateShapeSchema)),
  putActionCondition: (v, { actionCondition }) =>
    readActionCondition(v.at('action_condition'), actionCondition ?? create(ActionConditionSchema)),
  putTool: (v, { tool }) => readTool(v.at('tool'), tool ?? create(ToolSchema)),
};

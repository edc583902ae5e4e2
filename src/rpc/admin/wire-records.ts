import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  CredentialSchema,
  DomainSchema,
  EntitlementSchema,
  GrantSchema,
  GuestSchema,
  HarnessSchema,
  OperatorSchema,
  OwnerSchema,
  PrincipalSchema,
  Sink,
  SinkSchema,
} from '../../gen/surety/authority/v1/records_pb.js';
import type { DataClass as WireClass } from '../../gen/surety/provenance/v1/record_pb.js';
import { microsToTimestamp } from '../../identity/timestamp.js';
import type {
  CredentialRow,
  DomainRow,
  EntitlementRow,
  GrantRow,
  GuestRow,
  HarnessRow,
  OperatorRow,
  OwnerRow,
  PrincipalRow,
  SinkRow,
} from '../../ledger/authority/records.js';
import type { ActorKind, Micros } from '../../ledger/types.js';
import { WIRE_BINDINGS, WIRE_OPERATOR_ROLES, WIRE_STATUSES } from '../wire-enums.js';

/** Rows of authority as the contract shows them. */

/** @param serviceRequestsPerMinute the service's limit, for its own domain; else 0 */
export function wireDomain(
  domainId: string,
  row: DomainRow,
  sinks: readonly Sink[],
  serviceRequestsPerMinute: number,
): MessageInitShape<typeof DomainSchema> {
  return {
    domainId,
    status: WIRE_STATUSES[row.status],
    policyRevision: row.policyRevision,
    revocationEpoch: row.revocationEpoch,
    frozen: row.frozen,
    freezeReason: row.freezeReason ?? '',
    allowStandingRegistrations: row.allowStanding,
    sinks: [...sinks],
    revision: row.revision,
    limits: { ...row.limits },
    serviceRequestsPerMinute,
  };
}

export function wireSink(row: SinkRow): MessageInitShape<typeof SinkSchema> {
  return {
    sink: row.sink,
    authoritySystems: [...row.authoritySystems],
    sendWindow: microsToTimestamp(row.sendWindow),
    settleTime: microsToTimestamp(row.settleTime),
    breakerThreshold: row.breakerThreshold,
    breakerReset: microsToTimestamp(row.breakerReset),
    unknownCeiling: row.unknownCeiling,
    unknownAge: microsToTimestamp(row.unknownAge),
    frozen: row.frozen,
    freezeReason: row.freezeReason ?? '',
    revision: row.revision,
  };
}

export function wirePrincipal(row: PrincipalRow): MessageInitShape<typeof PrincipalSchema> {
  return { principalId: row.principalId, status: WIRE_STATUSES[row.status], revision: row.revision };
}

export function wireGuest(row: GuestRow): MessageInitShape<typeof GuestSchema> {
  return {
    guestId: row.guestId,
    status: WIRE_STATUSES[row.status],
    expireTime: microsToTimestamp(row.expiresAt),
    revision: row.revision,
  };
}

export function wireHarness(row: HarnessRow): MessageInitShape<typeof HarnessSchema> {
  return {
    harnessId: row.harnessId,
    ...wireActor(row.ownerKind, row.ownerId),
    bindingAssurance: row.assurance,
    credentialEpoch: row.credentialEpoch,
    status: WIRE_STATUSES[row.status],
    revision: row.revision,
  };
}

export function wireCredential(row: CredentialRow): MessageInitShape<typeof CredentialSchema> {
  return {
    credentialId: row.credentialId,
    harnessId: row.harnessId,
    credentialEpoch: row.credentialEpoch,
    spiffeId: row.spiffeId,
    binding: WIRE_BINDINGS[row.binding],
    certificateDigest: Uint8Array.from(row.certificateDigest ?? []),
    notBeforeTime: microsToTimestamp(row.notBefore),
    expireTime: microsToTimestamp(row.expiresAt),
    status: WIRE_STATUSES[row.status],
    revision: row.revision,
  };
}

export function wireEntitlement(row: EntitlementRow): MessageInitShape<typeof EntitlementSchema> {
  return {
    entitlementId: row.entitlementId,
    principalId: row.principalId,
    action: row.action,
    resource: row.resource,
    policyRevision: row.policyRevision,
    expireTime: microsToTimestamp(row.expiresAt),
    ...wireRevocation(row.revokedAt),
    revision: row.revision,
  };
}

export function wireGrant(row: GrantRow): MessageInitShape<typeof GrantSchema> {
  return {
    grantId: row.grantId,
    ...wireActor(row.actorKind, row.actorId),
    harnessId: row.harnessId,
    actions: [...row.actions],
    resources: [...row.resources],
    inputSources: [...row.inputSources],
    outputSinks: [...row.outputSinks],
    dataClasses: row.dataClasses.map((dataClass) => dataClass as number as WireClass),
    maxUses: row.maxUses,
    uses: row.uses,
    repeatable: row.repeatable,
    expireTime: microsToTimestamp(row.expiresAt),
    ...wireRevocation(row.revokedAt),
    policyRevision: row.policyRevision,
    credentialEpoch: row.credentialEpoch,
    revision: row.revision,
  };
}

export function wireOperator(row: OperatorRow): MessageInitShape<typeof OperatorSchema> {
  return {
    spiffeId: row.spiffeId,
    signingKeyJwk: row.signingKeyJwk ?? '',
    roles: row.roles.map((role) => WIRE_OPERATOR_ROLES[role]),
    scopeDomainId: row.scopeDomainId ?? '',
    status: WIRE_STATUSES[row.status],
    revision: row.revision,
  };
}

export function wireOwner(row: OwnerRow): MessageInitShape<typeof OwnerSchema> {
  return {
    spiffeId: row.spiffeId,
    signingKeyJwk: row.signingKeyJwk,
    sourceScopes: [...row.sourceScopes],
    typeScopes: [...row.typeScopes],
    status: WIRE_STATUSES[row.status],
    revision: row.revision,
  };
}

/** A principal or guest in the two fields of the contract, of which one stays empty. */
export function wireActor(
  kind: ActorKind,
  id: string,
): { readonly principalId: string; readonly guestId: string } {
  return kind === 'principal' ? { principalId: id, guestId: '' } : { principalId: '', guestId: id };
}

function wireRevocation(revokedAt: Micros | null) {
  return revokedAt === null ? {} : { revokeTime: microsToTimestamp(revokedAt) };
}

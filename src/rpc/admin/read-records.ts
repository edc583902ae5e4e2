import type {
  Credential,
  Entitlement,
  Harness,
  Operator,
  Owner,
  Sink,
} from '../../gen/surety/authority/v1/records_pb.js';
import { isTrustDomain } from '../../identity/spiffe-id.js';
import {
  DEFAULT_BREAKER_RESET,
  DEFAULT_BREAKER_THRESHOLD,
  DEFAULT_UNKNOWN_AGE,
  DEFAULT_UNKNOWN_CEILING,
  MAX_LIMIT,
} from '../../ledger/admission/limits.js';
import { WILDCARD } from '../../ledger/authority/grant-rules.js';
import type { Mutation } from '../../ledger/authority/mutations.js';
import { DAY, HOUR, MINUTE, type Micros, SECOND } from '../../ledger/types.js';
import { readBinding, readPublicKey, readSpiffeId } from '../identity-fields.js';
import type { Violations } from '../validate.js';
import { OPERATOR_ROLES, STATUSES } from '../wire-enums.js';
import { MAX_ID_OCTETS, MAX_RESOURCE_OCTETS, readActor, readExact } from './record-fields.js';

const MAX_SINK_SYSTEMS = 16;
/** effects.md, Transitions by workloads: `authority_system_id`. */
const MIN_SYSTEM_OCTETS = 3;
const DEFAULT_SEND_WINDOW: Micros = MINUTE;
const DEFAULT_SETTLE_TIME: Micros = MINUTE;
/** Longer than anybody waits for a reconciliation; a sink that is to have no objective gets this one. */
const MAX_UNKNOWN_AGE: Micros = 366n * DAY;
const MAX_ASSURANCE_OCTETS = 64;
const MAX_SCOPES = 64;

/** Reads a sink; each of its times and ceilings has a default. */
export function readSink(v: Violations, sink: Sink): Mutation {
  const systems = { min: 1, max: MAX_SINK_SYSTEMS, minOctets: MIN_SYSTEM_OCTETS, maxOctets: MAX_ID_OCTETS };
  return {
    kind: 'put_sink',
    sink: readExact(v, 'sink', sink.sink, MAX_ID_OCTETS),
    authoritySystems: v.textSet('authority_systems', sink.authoritySystems, systems),
    sendWindow: v.optionalDuration('send_window', sink.sendWindow, SECOND, HOUR) ?? DEFAULT_SEND_WINDOW,
    settleTime: v.optionalDuration('settle_time', sink.settleTime, 0n, DAY) ?? DEFAULT_SETTLE_TIME,
    breakerThreshold: readCeiling(v, 'breaker_threshold', sink.breakerThreshold, DEFAULT_BREAKER_THRESHOLD),
    breakerReset:
      v.optionalDuration('breaker_reset', sink.breakerReset, SECOND, DAY) ?? DEFAULT_BREAKER_RESET,
    unknownCeiling: readCeiling(v, 'unknown_ceiling', sink.unknownCeiling, DEFAULT_UNKNOWN_CEILING),
    unknownAge:
      v.optionalDuration('unknown_age', sink.unknownAge, SECOND, MAX_UNKNOWN_AGE) ?? DEFAULT_UNKNOWN_AGE,
  };
}

/** A ceiling that may be left out as 0. */
function readCeiling(v: Violations, field: string, value: number, otherwise: number): number {
  return value === 0 ? otherwise : Number(v.integer(field, BigInt(value), 1n, BigInt(MAX_LIMIT)));
}

/** Reads a harness with its owner. */
export function readHarness(v: Violations, harness: Harness): Mutation {
  const { actorKind, actorId } = readActor(v, harness.principalId, harness.guestId);
  return {
    kind: 'put_harness',
    harnessId: readExact(v, 'harness_id', harness.harnessId, MAX_ID_OCTETS),
    ownerKind: actorKind,
    ownerId: actorId,
    assurance: v.id('binding_assurance', harness.bindingAssurance, 1, MAX_ASSURANCE_OCTETS),
    status: v.choice('status', harness.status, STATUSES),
  };
}

/** Reads a credential; its SPIFFE ID is of the domain that the command acts in. */
export function readCredential(v: Violations, credential: Credential, domainId: string): Mutation {
  const { binding, digest } = readBinding(
    v,
    { binding: 'binding', digest: 'certificate_digest' },
    { binding: credential.binding, digest: credential.certificateDigest },
  );
  const notBefore = v.optionalTime('not_before_time', credential.notBeforeTime);
  const expiresAt = v.time('expire_time', credential.expireTime);
  if (notBefore !== undefined && notBefore >= expiresAt)
    v.refuse('expire_time', 'must be after not_before_time');
  return {
    kind: 'create_credential',
    credentialId: v.id('credential_id', credential.credentialId, 1, MAX_ID_OCTETS),
    harnessId: v.id('harness_id', credential.harnessId, 1, MAX_ID_OCTETS),
    spiffeId: readSpiffeId(v, 'spiffe_id', credential.spiffeId, domainId),
    binding,
    certificateDigest: digest,
    notBefore,
    expiresAt,
  };
}

/** Reads an entitlement: one exact action on one exact resource, or on any. */
export function readEntitlement(v: Violations, entitlement: Entitlement): Mutation {
  return {
    kind: 'put_entitlement',
    entitlementId: v.id('entitlement_id', entitlement.entitlementId, 1, MAX_ID_OCTETS),
    principalId: v.id('principal_id', entitlement.principalId, 1, MAX_ID_OCTETS),
    action: readExact(v, 'action', entitlement.action, MAX_ID_OCTETS),
    resource: v.id('resource', entitlement.resource, 1, MAX_RESOURCE_OCTETS),
    expiresAt: v.time('expire_time', entitlement.expireTime),
  };
}

/** Reads an operator; one who only audits needs no key. */
export function readOperator(v: Violations, operator: Operator): Mutation {
  const roles = v.list('roles', operator.roles, 1, Object.keys(OPERATOR_ROLES).length, (path, role) =>
    v.choice(path, role, OPERATOR_ROLES),
  );
  if (new Set(roles).size !== roles.length) v.refuse('roles', 'must not hold a value twice');
  const keyless = operator.signingKeyJwk === '' && roles.every((role) => role === 'AUDITOR');
  const key = keyless ? undefined : readPublicKey(v, 'signing_key_jwk', operator.signingKeyJwk);
  const scope = operator.scopeDomainId;
  if (scope !== '' && !isTrustDomain(scope))
    v.refuse('scope_domain_id', 'must be the name of a trust domain');
  return {
    kind: 'put_operator',
    spiffeId: readSpiffeId(v, 'spiffe_id', operator.spiffeId),
    signingKeyJwk: key?.jwk ?? null,
    signingKeyThumbprint: key?.thumbprint ?? null,
    roles,
    scopeDomainId: scope === '' ? null : scope,
    status: v.choice('status', operator.status, STATUSES),
  };
}

/** Reads an owner; in each of its scopes `*` stands alone. */
export function readOwner(v: Violations, owner: Owner): Mutation {
  const key = readPublicKey(v, 'signing_key_jwk', owner.signingKeyJwk);
  return {
    kind: 'put_owner',
    spiffeId: readSpiffeId(v, 'spiffe_id', owner.spiffeId),
    signingKeyJwk: key.jwk,
    signingKeyThumbprint: key.thumbprint,
    sourceScopes: readScopes(v, 'source_scopes', owner.sourceScopes),
    typeScopes: readScopes(v, 'type_scopes', owner.typeScopes),
    status: v.choice('status', owner.status, STATUSES),
  };
}

function readScopes(v: Violations, field: string, values: readonly string[]): string[] {
  const limits = { min: 1, max: MAX_SCOPES, minOctets: 1, maxOctets: MAX_ID_OCTETS };
  const scopes = v.textSet(field, values, limits);
  if (scopes.includes(WILDCARD) && scopes.length > 1) v.refuse(field, 'must hold `*` alone or not at all');
  return scopes;
}

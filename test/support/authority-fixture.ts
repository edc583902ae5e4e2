import type {
  CallerRow,
  CredentialRow,
  EntitlementRow,
  GrantRow,
  GuestRow,
  HarnessRow,
  PrincipalRow,
} from '../../src/ledger/authority/records.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { type Caller, DAY, HOUR } from '../../src/ledger/types.js';
import { FIXTURE_DOMAIN, FIXTURE_NOW } from './ledger-fixture.js';

/** One harness with its principal, and all that it needs to be allowed something; each row can be changed. */

export const HARNESS_ID = 'planner';
export const HARNESS_SPIFFE_ID = `spiffe://${FIXTURE_DOMAIN}/harness/planner`;

export function caller(over: Partial<Caller> = {}): Caller {
  return {
    spiffeId: HARNESS_SPIFFE_ID,
    trustDomain: FIXTURE_DOMAIN,
    leafDigest: sha256('leaf'),
    keyThumbprint: 'planner-leaf-key',
    notAfter: FIXTURE_NOW + DAY,
    ...over,
  };
}

export function callerRow(over: Partial<CallerRow> = {}): CallerRow {
  return { spiffeId: HARNESS_SPIFFE_ID, kind: 'harness', refId: HARNESS_ID, ...over };
}

export function principalRow(over: Partial<PrincipalRow> = {}): PrincipalRow {
  return { principalId: 'paula', status: 'active', revision: 1n, ...over };
}

export function guestRow(over: Partial<GuestRow> = {}): GuestRow {
  return { guestId: 'gus', status: 'active', expiresAt: FIXTURE_NOW + HOUR, revision: 1n, ...over };
}

export function harnessRow(over: Partial<HarnessRow> = {}): HarnessRow {
  return {
    harnessId: HARNESS_ID,
    ownerKind: 'principal',
    ownerId: 'paula',
    assurance: 'attested',
    credentialEpoch: 1n,
    status: 'active',
    revision: 1n,
    ...over,
  };
}

export function credentialRow(over: Partial<CredentialRow> = {}): CredentialRow {
  return {
    credentialId: 'planner-1',
    harnessId: HARNESS_ID,
    credentialEpoch: 1n,
    spiffeId: HARNESS_SPIFFE_ID,
    binding: 'spiffe_id',
    certificateDigest: null,
    notBefore: FIXTURE_NOW - HOUR,
    expiresAt: FIXTURE_NOW + HOUR,
    status: 'active',
    revision: 1n,
    ...over,
  };
}

export function entitlementRow(over: Partial<EntitlementRow> = {}): EntitlementRow {
  return {
    entitlementId: 'ent-1',
    principalId: 'paula',
    action: 'payment.refund',
    resource: 'order-1184',
    policyRevision: 1n,
    expiresAt: FIXTURE_NOW + HOUR,
    revokedAt: null,
    revision: 1n,
    ...over,
  };
}

export function grantRow(over: Partial<GrantRow> = {}): GrantRow {
  return {
    grantId: 'grant-1',
    actorKind: 'principal',
    actorId: 'paula',
    harnessId: HARNESS_ID,
    actions: ['payment.refund'],
    resources: ['order-1184'],
    inputSources: ['tickets'],
    outputSinks: ['bank'],
    dataClasses: [2],
    maxUses: 1n,
    uses: 0n,
    repeatable: false,
    expiresAt: FIXTURE_NOW + HOUR,
    revokedAt: null,
    policyRevision: 1n,
    credentialEpoch: 1n,
    revision: 1n,
    ...over,
  };
}

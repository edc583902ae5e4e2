import { create } from '@bufbuild/protobuf';
import { TimestampSchema } from '@bufbuild/protobuf/wkt';
import { OperatorRole } from '../../src/gen/surety/authority/v1/records_pb.js';
import { CertificateBinding, RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { createSigningKey } from '../../src/identity/sign.js';
import { microsToTimestamp } from '../../src/identity/timestamp.js';
import {
  AdminWorld,
  DOMAIN,
  type MutationInit,
  now,
  SERVICE_DOMAIN,
  type Signer,
} from '../support/admin-world.js';

export const HOUR = 3_600_000_000n;
export const HARNESS = 'spiffe://acme.test/harness/planner';
export const EXECUTOR = 'spiffe://acme.test/executor/payments-a';
/** An administrator of acme.test, there. */
export const ANNA: Signer = { spiffeId: 'spiffe://acme.test/operator/anna', key: createSigningKey() };
/** An auditor of every domain. */
export const ANN = 'spiffe://surety.test/auditor/ann';
const active = RecordStatus.ACTIVE;

export const stamp = (micros: bigint) => create(TimestampSchema, microsToTimestamp(micros));
/** In an hour. */
export const later = () => stamp(now() + HOUR);

/** One record of each kind in acme.test, put by signed commands. */
export async function openAuthorityWorld(): Promise<AdminWorld> {
  const world = await AdminWorld.open();
  const execute = (mutation: MutationInit) => world.execute(DOMAIN, mutation);
  await world.execute(SERVICE_DOMAIN, {
    case: 'createDomain',
    value: { domainId: DOMAIN, allowStandingRegistrations: true },
  });
  await execute({ case: 'putSink', value: { sink: { sink: 'bank', authoritySystems: ['bank-ledger'] } } });
  await execute({ case: 'putPrincipal', value: { principal: { principalId: 'paula', status: active } } });
  await execute({
    case: 'putGuest',
    value: { guest: { guestId: 'gus', status: active, expireTime: later() } },
  });
  await execute({
    case: 'putHarness',
    value: {
      harness: { harnessId: 'planner', principalId: 'paula', bindingAssurance: 'attested', status: active },
    },
  });
  await execute({
    case: 'createCredential',
    value: {
      credential: {
        credentialId: 'planner-1',
        harnessId: 'planner',
        spiffeId: HARNESS,
        binding: CertificateBinding.SPIFFE_ID,
        expireTime: later(),
      },
    },
  });
  await execute({
    case: 'putEntitlement',
    value: {
      entitlement: {
        entitlementId: 'ent-1',
        principalId: 'paula',
        action: 'payment.refund',
        resource: '*',
        expireTime: later(),
      },
    },
  });
  await execute({
    case: 'createGrant',
    value: {
      grant: {
        grantId: 'grant-1',
        principalId: 'paula',
        harnessId: 'planner',
        actions: ['payment.refund'],
        resources: ['order "1184", {a}\\'],
        inputSources: ['tickets'],
        outputSinks: ['bank'],
        dataClasses: [2, 3],
        maxUses: 5n,
        expireTime: later(),
      },
    },
  });
  await execute({
    case: 'putOperator',
    value: {
      operator: {
        spiffeId: ANNA.spiffeId,
        signingKeyJwk: ANNA.key.publicKey.jwk,
        roles: [OperatorRole.ADMIN],
        status: active,
      },
    },
  });
  await execute({
    case: 'putOwner',
    value: {
      owner: {
        spiffeId: 'spiffe://acme.test/owner/olga',
        signingKeyJwk: createSigningKey().publicKey.jwk,
        sourceScopes: ['*'],
        typeScopes: ['mail'],
        status: active,
      },
    },
  });
  await world.execute(SERVICE_DOMAIN, {
    case: 'putOperator',
    value: { operator: { spiffeId: ANN, roles: [OperatorRole.AUDITOR], status: active } },
  });
  return world;
}

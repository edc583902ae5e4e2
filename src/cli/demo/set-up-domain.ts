import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { OperatorRole, type SinkSchema } from '../../gen/surety/authority/v1/records_pb.js';
import { CertificateBinding, RecordStatus } from '../../gen/surety/identity/v1/workload_pb.js';
import { DataClass } from '../../gen/surety/provenance/v1/record_pb.js';
import type { AdminSession, Mutation } from '../client/admin-session.js';
import { SuretyError } from '../client/surety-error.js';

/** The names that development domains use: acme.test in the demo, globex.test in tests of two domains. */
export interface DomainNames {
  readonly domainId: string;
  readonly harnessSpiffeId: string;
  readonly ownerSpiffeId: string;
  readonly ownerKeyJwk: string;
  /** Of every domain: its row lives in the service's own. */
  readonly auditorSpiffeId: string;
}

/** The sink of the development domains and the system whose word settles doubt about it. */
export const DEMO_SINK = 'payments';
export const DEMO_AUTHORITY_SYSTEM = 'bank-ledger';
export const DEMO_HARNESS = 'planner';
export const DEMO_PRINCIPAL = 'paula';
export const DEMO_ACTION = 'refund.create';
export const DEMO_INPUT_SOURCE = 'crm';
/** Governed actions: mail that a person has to approve. */
export const DEMO_ACTION_SOURCE = 'support-desk';
export const DEMO_ACTION_TYPE = 'mail.reply';
export const DEMO_TOOL = 'mail.send';
export const DEMO_DATA_CLASS = DataClass.C2_RESTRICTED;

const YEAR_MS = 365 * 86_400_000;

/**
 * Makes a domain with a sink, a principal, its harness with a credential, entitlements and an owner. What is there
 * already stays: it may run again on the same store.
 *
 * @param sinkLimits the sink's breaker and ceilings, where they are not to be the usual ones
 */
export async function setUpDomain(
  admin: AdminSession,
  serviceDomainId: string,
  names: DomainNames,
  sinkLimits: MessageInitShape<typeof SinkSchema> = {},
): Promise<void> {
  const { domainId } = names;
  const expireTime = timestampFromMs(Date.now() + YEAR_MS);
  const put = (mutation: Mutation): Promise<void> => unlessThere(admin, domainId, mutation);
  await unlessThere(admin, serviceDomainId, {
    case: 'createDomain',
    value: { domainId, allowStandingRegistrations: true },
  });
  await unlessThere(admin, serviceDomainId, {
    case: 'putOperator',
    value: {
      operator: {
        spiffeId: names.auditorSpiffeId,
        roles: [OperatorRole.AUDITOR],
        status: RecordStatus.ACTIVE,
      },
    },
  });
  await put({
    case: 'putSink',
    value: { sink: { ...sinkLimits, sink: DEMO_SINK, authoritySystems: [DEMO_AUTHORITY_SYSTEM] } },
  });
  await put({
    case: 'putPrincipal',
    value: { principal: { principalId: DEMO_PRINCIPAL, status: RecordStatus.ACTIVE } },
  });
  await put({
    case: 'putHarness',
    value: {
      harness: {
        harnessId: DEMO_HARNESS,
        principalId: DEMO_PRINCIPAL,
        bindingAssurance: 'attested',
        status: RecordStatus.ACTIVE,
      },
    },
  });
  await put({
    case: 'createCredential',
    value: {
      credential: {
        credentialId: `${DEMO_HARNESS}-1`,
        harnessId: DEMO_HARNESS,
        spiffeId: names.harnessSpiffeId,
        binding: CertificateBinding.SPIFFE_ID,
        notBeforeTime: timestampFromMs(Date.now() - 60_000),
        expireTime,
      },
    },
  });
  for (const action of [DEMO_ACTION, 'effect.cancel']) {
    await put({
      case: 'putEntitlement',
      value: {
        entitlement: {
          entitlementId: `${DEMO_PRINCIPAL}-${action}`,
          principalId: DEMO_PRINCIPAL,
          action,
          resource: '*',
          expireTime,
        },
      },
    });
  }
  await put({
    case: 'putOwner',
    value: {
      owner: {
        spiffeId: names.ownerSpiffeId,
        signingKeyJwk: names.ownerKeyJwk,
        sourceScopes: ['*'],
        typeScopes: ['*'],
        status: RecordStatus.ACTIVE,
      },
    },
  });
}

/** What a command that rests on there being no such record is refused with where there is one. */
const THERE: ReadonlySet<string> = new Set(['RECORD_EXISTS', 'REVISION_STALE']);

async function unlessThere(admin: AdminSession, domainId: string, mutation: Mutation): Promise<void> {
  try {
    await admin.make(domainId, mutation, 'development set-up');
  } catch (error) {
    if (!(error instanceof SuretyError) || !THERE.has(error.reason)) throw error;
  }
}

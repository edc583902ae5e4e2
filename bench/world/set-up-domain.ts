import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { AdminSession, Mutation } from '../../src/cli/client/admin-session.js';
import type { Channel } from '../../src/cli/client/service-client.js';
import { digest } from '../../src/cli/client/workload-session.js';
import { EventService } from '../../src/gen/surety/event/v1/event_service_pb.js';
import { CertificateBinding, RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { OriginKind } from '../../src/gen/surety/provenance/v1/record_pb.js';
import {
  ACTION,
  AUTHORITY_SYSTEM,
  DATA_CLASS,
  EVENTS_PER_HARNESS,
  HARNESSES,
  harnessSpiffeId,
  PRINCIPAL,
  SERVICE_DOMAIN,
  SINK,
} from './names.js';

const YEAR_MS = 365 * 86_400_000;
/** The most that a limit can be: what is measured is not to be held, though every rule is looked at. */
const NO_LIMIT = 1_000_000_000;
/** The shares of all domains together must fit into the service's limit. */
const SHARE = 400_000_000;
const MAX_HOPS = 16;
const DAY_SECONDS = 86_400n;
const REASON = 'benchmark';

/** Raises the service's limit, as its operator would for a busy service. */
export async function raiseServiceLimit(admin: AdminSession): Promise<void> {
  const limit = { requestsPerMinute: NO_LIMIT };
  await admin.execute(SERVICE_DOMAIN, { case: 'setServiceLimit', value: limit }, REASON);
}

/**
 * Makes a domain by signed commands: a sink, a principal, harnesses with credentials, an entitlement, limits.
 *
 * @param share its requests per minute
 */
export async function setUpDomain(admin: AdminSession, domainId: string, share = SHARE): Promise<void> {
  const expireTime = timestampFromMs(Date.now() + YEAR_MS);
  const domain = { domainId, allowStandingRegistrations: true };
  await admin.execute(SERVICE_DOMAIN, { case: 'createDomain', value: domain }, REASON);
  const mutations: Mutation[] = [
    { case: 'setShare', value: { requestsPerMinute: share } },
    {
      case: 'setLimits',
      value: {
        actorRequestsPerMinute: NO_LIMIT,
        pendingCeiling: NO_LIMIT,
        fairnessBurst: NO_LIMIT,
        maxHops: MAX_HOPS,
      },
    },
    {
      case: 'putSink',
      // What a round has left executing is lost after a while, and counts as not known: nobody is to be held for it.
      value: {
        sink: {
          sink: SINK,
          authoritySystems: [AUTHORITY_SYSTEM],
          breakerThreshold: NO_LIMIT,
          unknownCeiling: NO_LIMIT,
          unknownAge: { seconds: DAY_SECONDS },
        },
      },
    },
    {
      case: 'putPrincipal',
      value: { principal: { principalId: PRINCIPAL, status: RecordStatus.ACTIVE } },
    },
    ...HARNESSES.flatMap((harnessId) => harnessMutations(domainId, harnessId)),
    {
      case: 'putEntitlement',
      value: {
        entitlement: {
          entitlementId: `${PRINCIPAL}-${ACTION}`,
          principalId: PRINCIPAL,
          action: ACTION,
          resource: '*',
          expireTime,
        },
      },
    },
  ];
  for (const mutation of mutations) await admin.execute(domainId, mutation, REASON);
}

function harnessMutations(domainId: string, harnessId: string): Mutation[] {
  return [
    {
      case: 'putHarness',
      value: {
        harness: {
          harnessId,
          principalId: PRINCIPAL,
          bindingAssurance: 'attested',
          status: RecordStatus.ACTIVE,
        },
      },
    },
    {
      case: 'createCredential',
      value: {
        credential: {
          credentialId: `${harnessId}-1`,
          harnessId,
          spiffeId: harnessSpiffeId(domainId, harnessId),
          binding: CertificateBinding.SPIFFE_ID,
          notBeforeTime: timestampFromMs(Date.now() - 60_000),
          expireTime: timestampFromMs(Date.now() + YEAR_MS),
        },
      },
    },
  ];
}

/** Publishes a harness's events. @returns their ids */
export async function publishEvents(
  channel: Channel,
  harnessId: string,
  count = EVENTS_PER_HARNESS,
): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, i) => `event-${harnessId}-${i}`);
  for (const eventId of ids) {
    await channel.service(EventService).publishEvent({
      eventId,
      type: 'task.assigned',
      classification: DATA_CLASS,
      payloadDigest: digest(eventId),
      origin: {
        kind: OriginKind.HUMAN_INPUT,
        sourceId: 'support-desk',
        sourceDigest: digest(eventId),
        observedTime: timestampFromMs(Date.now()),
        principalId: PRINCIPAL,
        harnessId,
      },
      allowedSinks: [SINK],
    });
  }
  return ids;
}

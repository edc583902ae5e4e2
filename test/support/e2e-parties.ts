import { randomUUID } from 'node:crypto';
import { fromBinary, type MessageInitShape } from '@bufbuild/protobuf';
import { anyUnpack, timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { ServiceError } from '@grpc/grpc-js';
import type { Mutation } from '../../src/cli/client/admin-session.js';
import type { SuretyError } from '../../src/cli/client/surety-error.js';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import {
  DEMO_ACTION,
  DEMO_AUTHORITY_SYSTEM,
  DEMO_DATA_CLASS,
  DEMO_INPUT_SOURCE,
  DEMO_PRINCIPAL,
  DEMO_SINK,
} from '../../src/cli/demo/set-up-domain.js';
import { type ResourceInfo, ResourceInfoSchema } from '../../src/gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../src/gen/google/rpc/status_pb.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import {
  type DecideRequestSchema,
  type DecideResponse,
  PolicyService,
} from '../../src/gen/surety/authority/v1/policy_service_pb.js';
import type { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  EffectService,
  type ReserveEffectRequest,
  type ReserveEffectResponse,
  type TransitionResult,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import {
  EventService,
  type PublishEventRequestSchema,
} from '../../src/gen/surety/event/v1/event_service_pb.js';
import { CertificateBinding, RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { OriginKind } from '../../src/gen/surety/provenance/v1/record_pb.js';
import { ACME, AUDITOR, type E2eWorld, HARNESS, type StartedEffect } from './e2e-world.js';
import type { ServiceProcess } from './service-process.js';

/** Callers of the development set that a test may make harnesses of, where nobody else uses them. */
export const MAILER = 'spiffe://acme.test/worker/mailer';
export const VISITOR = 'spiffe://acme.test/executor/payments-b';

/** A whole request, or parts of one. */
export type ReserveRequest = Partial<Omit<ReserveEffectRequest, '$typeName' | '$unknown'>>;

const YEAR_MS = 365 * 86_400_000;

/** A whole request to reserve, for an event and a grant of its own unless told otherwise: it can be sent again. */
export async function reservation(world: E2eWorld, overrides: ReserveRequest = {}): Promise<ReserveRequest> {
  const eventId = overrides.eventId ?? (await world.publish());
  const grantId = overrides.grantId ?? (await world.grant());
  return {
    eventId,
    grantId,
    action: DEMO_ACTION,
    resource: 'order-1184',
    inputSource: DEMO_INPUT_SOURCE,
    outputSink: DEMO_SINK,
    dataClass: DEMO_DATA_CLASS,
    request: { case: 'requestDigest', value: digest(`request for ${eventId}`) },
    ...overrides,
  };
}

/** Sends a request to reserve exactly as it is. */
export function reserveAs(
  world: E2eWorld,
  spiffeId: string,
  request: ReserveRequest,
  service?: ServiceProcess,
): Promise<ReserveEffectResponse> {
  return world.channel(spiffeId, service).service(EffectService).reserveEffect(request);
}

/** Publishes an event that nobody in particular said, as a harness of its own choice. */
export async function publishAs(
  world: E2eWorld,
  spiffeId: string,
  overrides: Partial<MessageInitShape<typeof PublishEventRequestSchema>> = {},
): Promise<string> {
  const eventId = overrides.eventId ?? `event-${randomUUID()}`;
  await world
    .channel(spiffeId)
    .service(EventService)
    .publishEvent({
      eventId,
      type: 'task.assigned',
      classification: DEMO_DATA_CLASS,
      payloadDigest: digest(eventId),
      origin: {
        kind: OriginKind.INTERNAL_EVENT,
        sourceId: 'test',
        sourceDigest: digest(eventId),
        observedTime: timestampFromMs(Date.now()),
      },
      allowedSinks: [DEMO_SINK],
      ...overrides,
    } as MessageInitShape<typeof PublishEventRequestSchema>);
  return eventId;
}

/** A further harness of acme.test, in force, with a principal and the entitlements of the first one's. */
export async function addHarness(
  world: E2eWorld,
  names: { readonly spiffeId: string; readonly harnessId: string; readonly principalId: string },
): Promise<void> {
  const { principalId } = names;
  await put(world, {
    case: 'putPrincipal',
    value: { principal: { principalId, status: RecordStatus.ACTIVE } },
  });
  await putHarness(world, names);
  await credential(world, names);
  await entitle(world, principalId);
}

/** A harness of acme.test that acts for a guest, whose time is over after so many milliseconds. */
export async function addGuestHarness(
  world: E2eWorld,
  names: { readonly spiffeId: string; readonly harnessId: string; readonly guestId: string },
  lifeMs = YEAR_MS,
): Promise<void> {
  const expireTime = timestampFromMs((await world.now()) + lifeMs);
  await put(world, {
    case: 'putGuest',
    value: { guest: { guestId: names.guestId, status: RecordStatus.ACTIVE, expireTime } },
  });
  await putHarness(world, names);
  await credential(world, names);
}

/** Makes a harness, or changes its status or assurance. */
export function putHarness(
  world: E2eWorld,
  harness: {
    readonly harnessId: string;
    readonly principalId?: string;
    readonly guestId?: string;
    readonly status?: RecordStatus;
    readonly bindingAssurance?: string;
  },
): Promise<void> {
  const { harnessId, principalId = '', guestId = '' } = harness;
  const { status = RecordStatus.ACTIVE, bindingAssurance = 'attested' } = harness;
  return put(world, {
    case: 'putHarness',
    value: { harness: { harnessId, principalId, guestId, status, bindingAssurance } },
  });
}

/** A credential of a harness's present epoch. Answers its id. */
export async function credential(
  world: E2eWorld,
  names: { readonly spiffeId: string; readonly harnessId: string },
  lifeMs = YEAR_MS,
): Promise<string> {
  const credentialId = `credential-${randomUUID()}`;
  const { spiffeId, harnessId } = names;
  const expireTime = timestampFromMs((await world.now()) + lifeMs);
  await put(world, {
    case: 'createCredential',
    value: {
      credential: { credentialId, harnessId, spiffeId, binding: CertificateBinding.SPIFFE_ID, expireTime },
    },
  });
  return credentialId;
}

/** The entitlements that reserving and cancelling need, of the present policy revision; renewed where they are there. */
export async function entitle(world: E2eWorld, principalId: string = DEMO_PRINCIPAL): Promise<void> {
  const expireTime = timestampFromMs((await world.now()) + YEAR_MS);
  for (const action of [DEMO_ACTION, 'effect.cancel']) {
    const entitlementId = `${principalId}-${action}`;
    await put(world, {
      case: 'putEntitlement',
      value: { entitlement: { entitlementId, principalId, action, resource: '*', expireTime } },
    });
  }
}

/** Executes a command in acme.test. */
export async function put(world: E2eWorld, mutation: Mutation): Promise<void> {
  await world.admin.execute(ACME, mutation);
}

/** Asks for a decision, for cancelling an effect unless told otherwise. */
export function decide(
  world: E2eWorld,
  effectId: string,
  overrides: Partial<MessageInitShape<typeof DecideRequestSchema>> = {},
  spiffeId = HARNESS,
  service?: ServiceProcess,
): Promise<DecideResponse> {
  return world
    .channel(spiffeId, service)
    .service(PolicyService)
    .decide({
      action: 'effect.cancel',
      resource: effectId,
      requestDigest: digest(''),
      ...overrides,
    } as MessageInitShape<typeof DecideRequestSchema>);
}

/** Cancels an effect with a decision, by default a new one. */
export async function cancel(
  world: E2eWorld,
  effectId: string,
  decisionId?: string,
  spiffeId = HARNESS,
  service?: ServiceProcess,
): Promise<TransitionResult> {
  const decided = decisionId ?? (await decide(world, effectId, {}, spiffeId)).decision?.decisionId ?? '';
  const { result } = await world
    .channel(spiffeId, service)
    .service(EffectService)
    .cancelEffect({ effectId, decisionId: decided });
  if (!result) throw new Error('the service answered without a result');
  return result;
}

/** What must not move where nothing was done: the log's head, the fences, and how many rows there are of each kind. */
export async function traces(world: E2eWorld, domainId = ACME): Promise<Record<string, unknown>> {
  const { rows } = await world.sql.query(
    `SELECT seq, encode(chain_hash, 'hex') AS chain, fence_counter,
      (SELECT count(*) FROM effects WHERE domain_id = $1) AS effects,
      (SELECT count(*) FROM decisions WHERE domain_id = $1) AS decisions,
      (SELECT count(*) FROM decision_uses WHERE domain_id = $1) AS decision_uses,
      (SELECT count(*) FROM pending_work WHERE domain_id = $1) AS pending,
      (SELECT coalesce(sum(uses), 0) FROM grants WHERE domain_id = $1) AS uses
    FROM domain_heads WHERE domain_id = $1`,
    [domainId],
  );
  return rows[0] as Record<string, unknown>;
}

/** How many uses of a grant are consumed. */
export async function usesOf(world: E2eWorld, grantId: string): Promise<number> {
  const { rows } = await world.sql.query('SELECT uses FROM grants WHERE domain_id = $1 AND grant_id = $2', [
    ACME,
    grantId,
  ]);
  return Number(rows[0].uses);
}

/** Whether an effect's work is pending. */
export async function isPending(world: E2eWorld, effectId: string): Promise<boolean> {
  const { rowCount } = await world.sql.query(
    'SELECT FROM pending_work WHERE domain_id = $1 AND effect_id = $2',
    [ACME, effectId],
  );
  return rowCount === 1;
}

/** What `ResourceInfo` of an error names. */
export function resourceOf(error: SuretyError): ResourceInfo | undefined {
  const bytes = (error.cause as ServiceError).metadata.get('grpc-status-details-bin')[0];
  const details = Buffer.isBuffer(bytes) ? fromBinary(StatusSchema, bytes).details : [];
  return details
    .map((any) => anyUnpack(any, ResourceInfoSchema))
    .find((one): one is ResourceInfo => one !== undefined);
}

/** Writes past every trigger, as a superuser can. */
export async function bySuperuser(
  world: E2eWorld,
  statement: string,
  values: readonly unknown[] = [],
): Promise<void> {
  await world.sql.query('SET session_replication_role = replica');
  try {
    const { rowCount } = await world.sql.query(statement, [...values]);
    if (rowCount === 0) throw new Error('the statement changed nothing');
  } finally {
    await world.sql.query('SET session_replication_role = origin');
  }
}

/** What the whole log of acme.test is found to be. */
export async function findingsOfLog(world: E2eWorld): Promise<unknown> {
  const { verified, complete, findings } = await world
    .channel(AUDITOR)
    .service(AuditService)
    .verifyChain({ domainId: ACME });
  return { verified, complete, findings };
}

export const WHOLE_LOG = { verified: true, complete: true, findings: [] };

/** Settles an UNKNOWN effect as the domain's authority system says; a negative answer must have waited. */
export async function reconcileAs(
  world: E2eWorld,
  reconciler: WorkloadSession,
  { effect, attemptId }: StartedEffect,
  state: EffectState,
): Promise<TransitionResult> {
  const request = await reconciler.reconcile(effect, state, {
    attemptId,
    authoritySystemId: DEMO_AUTHORITY_SYSTEM,
    queryId: `query-${effect.effectId}`,
    response: 'what the ledger says',
    observedTime: timestampFromMs(await world.now()),
  });
  const { result } = await reconciler.channel.service(EffectService).reconcile(request);
  if (!result) throw new Error('the service answered without a result');
  return result;
}

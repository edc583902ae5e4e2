import { randomUUID } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  CertificateBinding,
  type RegistrationSpec,
  RegistrationSpecSchema,
  type WorkloadRole,
} from '../../gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../gen/surety/identity/v1/workload_service_pb.js';
import { createSigningKey, type SigningKey, signPossession } from '../../identity/sign.js';
import type { AdminSession } from './admin-session.js';
import type { Channel } from './service-client.js';
import { type ServiceName, WorkloadSession } from './workload-session.js';

/** How long a registration is made for, in milliseconds; the service allows an hour. */
const VALIDITY_MS = 3_600_000;

/** What a registration is for; the rest is filled in. */
export interface WorkloadWish {
  readonly domainId: string;
  readonly spiffeId: string;
  readonly role: WorkloadRole;
  readonly workloadId: string;
  /** Both or neither; neither for a standing registration, which names sinks. */
  readonly parentEventId?: string;
  readonly grantId?: string;
  readonly sinks?: readonly string[];
  readonly overrides?: Partial<MessageInitShape<typeof RegistrationSpecSchema>>;
}

/**
 * Registers a workload with a key of its own: the workload proves possession, the operator sends the command.
 *
 * @param channel the workload's own connection
 */
export async function registerWorkload(
  admin: AdminSession,
  channel: Channel,
  operator: Channel,
  wish: WorkloadWish,
  key: SigningKey = createSigningKey(),
  clock: () => number = Date.now,
): Promise<WorkloadSession> {
  const me = await operator.service(WorkloadService).whoAmI({ domainId: wish.domainId });
  const service = { audience: me.audience, incarnation: me.incarnation };
  const spec = registrationSpec(wish, key, {
    revocationEpoch: me.revocationEpoch,
    nowMs: Number(me.nowTime?.seconds ?? 0n) * 1000,
  });
  const possessionJws = await possession(spec, service, key);
  await admin.execute(wish.domainId, { case: 'registerWorkload', value: { possessionJws } }, 'register');
  return new WorkloadSession(channel, spec, key, service, clock);
}

/** The registration that a wish becomes. */
export function registrationSpec(
  wish: WorkloadWish,
  key: Pick<SigningKey, 'publicKey'>,
  at: { readonly revocationEpoch: bigint; readonly nowMs: number },
): RegistrationSpec {
  const init = {
    registrationId: `reg-${randomUUID()}`,
    domainId: wish.domainId,
    workloadId: wish.workloadId,
    role: wish.role,
    recipientScope: '*',
    processId: String(process.pid),
    processStartTime: timestampFromMs(at.nowMs),
    sessionId: `session-${randomUUID()}`,
    spiffeId: wish.spiffeId,
    certificateBinding: CertificateBinding.SPIFFE_ID,
    proofKeyJwk: key.publicKey.jwk,
    credentialEpoch: 1n,
    revocationEpoch: at.revocationEpoch,
    parentEventId: wish.parentEventId ?? '',
    grantId: wish.grantId ?? '',
    sinks: [...(wish.sinks ?? [])],
    issuedTime: timestampFromMs(at.nowMs),
    expireTime: timestampFromMs(at.nowMs + VALIDITY_MS),
    ...wish.overrides,
  };
  return create(RegistrationSpecSchema, init as MessageInitShape<typeof RegistrationSpecSchema>);
}

/** Proof of possession over the whole registration. */
export function possession(spec: RegistrationSpec, service: ServiceName, key: SigningKey): Promise<string> {
  return signPossession({ ...service, registration: spec }, key);
}

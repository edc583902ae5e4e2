import { toJsonString } from '@bufbuild/protobuf';
import { RegistrationSpecSchema } from '../../gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../gen/surety/identity/v1/workload_service_pb.js';
import { parsePublicJwk } from '../../identity/jwk.js';
import type { AdminSession } from '../client/admin-session.js';
import { registrationSpec, type WorkloadWish } from '../client/register-workload.js';
import type { Channel } from '../client/service-client.js';
import type { RoleHandle } from './role-handle.js';

/** Who registers. */
export interface Registrar {
  readonly domainId: string;
  readonly admin: AdminSession;
  readonly operator: Channel;
}

/**
 * Registers the workload that a process plays: it makes its key and proves possession, the operator sends the command.
 *
 * @param further what the role's `register` takes besides
 */
export async function registerRole(
  { domainId, admin, operator }: Registrar,
  handle: RoleHandle,
  wish: Pick<WorkloadWish, 'role' | 'workloadId' | 'sinks'>,
  further: Readonly<Record<string, string>> = {},
): Promise<void> {
  const me = await operator.service(WorkloadService).whoAmI({ domainId });
  const { jwk = '' } = await handle.must('key', {});
  const spec = registrationSpec(
    { ...wish, domainId, spiffeId: handle.spiffeId, overrides: { processId: String(handle.pid) } },
    { publicKey: parsePublicJwk(jwk) },
    { revocationEpoch: me.revocationEpoch, nowMs: Number(me.nowTime?.seconds ?? 0n) * 1000 },
  );
  const { possessionJws = '' } = await handle.must('register', {
    spec: toJsonString(RegistrationSpecSchema, spec),
    audience: me.audience,
    incarnation: String(me.incarnation),
    ...further,
  });
  const mutation = { case: 'registerWorkload', value: { possessionJws } } as const;
  await admin.execute(domainId, mutation, `register ${handle.name}`);
}

import { randomUUID } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { AdminSession } from '../../src/cli/client/admin-session.js';
import { registrationSpec } from '../../src/cli/client/register-workload.js';
import type { Channel } from '../../src/cli/client/service-client.js';
import { type ServiceName, WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_AUTHORITY_SYSTEM, DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import type { CommandResult } from '../../src/gen/surety/authority/v1/command_pb.js';
import {
  type RegistrationSpec,
  RegistrationSpecSchema,
  WorkloadRole,
} from '../../src/gen/surety/identity/v1/workload_pb.js';
import {
  type RenewWorkloadResponse,
  WorkloadService,
} from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { createSigningKey, type SigningKey, signPossession, signRenewal } from '../../src/identity/sign.js';
import { ACME, EXECUTOR_A, OPERATOR, RECONCILER } from './e2e-world.js';
import { type SpecInit, time, type TransitionRig } from './transition-rig.js';

const HOUR = 3_600_000_000n;

/** A registration with the key whose possession is proved. */
export interface Proved {
  readonly spec: RegistrationSpec;
  readonly key: SigningKey;
}

/** How a proof is to be another than the good one. */
export interface ProofWish {
  /** Who signs, in place of the key that the registration names. */
  readonly signer?: SigningKey;
  readonly service?: Partial<ServiceName>;
}

/** Where workloads are registered and renewed, with registrations that break what they are told to. */
export class RegistrationDesk {
  private constructor(
    private readonly rig: TransitionRig,
    readonly service: ServiceName,
    private readonly admin: AdminSession,
  ) {}

  static async open(rig: TransitionRig): Promise<RegistrationDesk> {
    const me = await rig.world.channel(OPERATOR).service(WorkloadService).whoAmI({ domainId: ACME });
    const { audience, incarnation } = me;
    return new RegistrationDesk(rig, { audience, incarnation }, rig.world.admin);
  }

  /** A good registration of an executor that stands for the demo's sink, but for these fields. */
  executor(changes: SpecInit = {}, key = createSigningKey()): Proved {
    return this.proved(EXECUTOR_A, WorkloadRole.EFFECT_EXECUTOR, 'payments', changes, key);
  }

  /** A good registration of a reconciler, likewise. */
  reconciler(changes: SpecInit = {}, key = createSigningKey()): Proved {
    const workloadId = `effect-system:${DEMO_AUTHORITY_SYSTEM}`;
    return this.proved(RECONCILER, WorkloadRole.EFFECT_RECONCILER, workloadId, changes, key);
  }

  /** The registration that renews another, but for these fields. */
  renewal(of: Proved, changes: SpecInit = {}, key = of.key): Proved {
    const spec = create(RegistrationSpecSchema, {
      ...of.spec,
      proofKeyJwk: key.publicKey.jwk,
      credentialEpoch: of.spec.credentialEpoch + 1n,
      issuedTime: time(this.rig.now),
      expireTime: time(this.rig.now + HOUR),
      ...changes,
    } as MessageInitShape<typeof RegistrationSpecSchema>);
    return { spec, key };
  }

  /** The proof of possession. */
  possession({ spec, key }: Proved, { signer = key, service = {} }: ProofWish = {}): Promise<string> {
    return signPossession({ ...this.service, ...service, registration: spec }, signer);
  }

  /** Registers by an operator's command. */
  async register(proved: Proved, wish: ProofWish = {}): Promise<WorkloadSession> {
    const possessionJws = await this.possession(proved, wish);
    await this.admin.execute(ACME, { case: 'registerWorkload', value: { possessionJws } });
    return this.session(proved);
  }

  /** Renews by an operator's command. */
  async renew(proved: Proved, wish: ProofWish = {}): Promise<CommandResult> {
    const possessionJws = await this.possession(proved, wish);
    return this.admin.execute(ACME, { case: 'renewWorkload', value: { possessionJws } });
  }

  /** What a workload sends to renew itself: the new key's possession, allowed by the key before. */
  async selfRenewal(proved: Proved, current: SigningKey) {
    const { spec } = proved;
    return {
      possessionJws: await this.possession(proved),
      authorizationJws: await signRenewal({ ...this.service, registration: spec }, current),
    };
  }

  /** Renews itself over its own connection, or over this one. */
  async renewSelf(proved: Proved, current: SigningKey, channel?: Channel): Promise<RenewWorkloadResponse> {
    const request = await this.selfRenewal(proved, current);
    const own = channel ?? this.rig.world.channel(proved.spec.spiffeId);
    return own.service(WorkloadService).renewWorkload(request);
  }

  async revoke(registrationId: string): Promise<CommandResult> {
    return this.admin.execute(ACME, { case: 'revokeWorkload', value: { registrationId } });
  }

  /** The workload at work under a registration. */
  session({ spec, key }: Proved, channel = this.rig.world.channel(spec.spiffeId)): WorkloadSession {
    return new WorkloadSession(channel, spec, key, this.service);
  }

  /** How many versions of a registration are kept. */
  async versions(registrationId: string): Promise<number> {
    const { rows } = await this.rig.world.sql.query(
      'SELECT count(*)::int AS count FROM registration_versions WHERE domain_id = $1 AND registration_id = $2',
      [ACME, registrationId],
    );
    return rows[0].count;
  }

  private proved(
    spiffeId: string,
    role: WorkloadRole,
    workloadId: string,
    changes: SpecInit,
    key: SigningKey,
  ): Proved {
    const { now } = this.rig;
    const bound = changes.grantId !== undefined || role === WorkloadRole.ACTION_WORKER;
    const overrides = {
      registrationId: `reg-${randomUUID()}`,
      issuedTime: time(now),
      expireTime: time(now + HOUR),
      sinks: bound ? [] : [DEMO_SINK],
      ...changes,
    };
    const at = { revocationEpoch: 1n, nowMs: Number(now / 1000n) };
    return {
      spec: registrationSpec({ domainId: ACME, spiffeId, role, workloadId, overrides }, key, at),
      key,
    };
  }
}

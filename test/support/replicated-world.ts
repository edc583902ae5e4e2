import { randomUUID } from 'node:crypto';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { expect } from 'vitest';
import { AdminSession } from '../../src/cli/client/admin-session.js';
import { registerWorkload } from '../../src/cli/client/register-workload.js';
import type { Channel } from '../../src/cli/client/service-client.js';
import type { SuretyError } from '../../src/cli/client/surety-error.js';
import { digest, WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_AUTHORITY_SYSTEM, DEMO_DATA_CLASS, DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import { PolicyService } from '../../src/gen/surety/authority/v1/policy_service_pb.js';
import { OperatorRole } from '../../src/gen/surety/authority/v1/records_pb.js';
import {
  EffectService,
  type ReserveEffectResponse,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { Reason } from '../../src/gen/surety/error/v1/reason_pb.js';
import { EventService } from '../../src/gen/surety/event/v1/event_service_pb.js';
import {
  CertificateBinding,
  RecordStatus,
  WorkloadRole,
} from '../../src/gen/surety/identity/v1/workload_pb.js';
import { OriginKind } from '../../src/gen/surety/provenance/v1/record_pb.js';
import { createSigningKey, type SigningKey } from '../../src/identity/sign.js';
import { addHarness, reservation } from './e2e-parties.js';
import { ACME, type E2eWorld, OPERATOR, openE2eWorld, refusedWith, SERVICE_DOMAIN } from './e2e-world.js';
import { OwnPki } from './own-pki.js';
import type { Certificate } from './pki.js';
import type { ServiceProcess } from './service-process.js';

/** A harness with all that it needs to reserve. */
export interface LivingHarness {
  readonly spiffeId: string;
  readonly harnessId: string;
  readonly principalId: string;
  readonly credentialId: string;
  readonly eventId: string;
  readonly grantId: string;
  /** One connection to each replica, in their order. */
  readonly channels: readonly Channel[];
}

/** An operator or auditor. */
export interface LivingOperator {
  readonly spiffeId: string;
  readonly key: SigningKey;
  readonly roles: readonly OperatorRole[];
  /** Where its row is. */
  readonly homeDomainId: string;
  readonly channels: readonly Channel[];
  /** Signs and sends, one for each replica. */
  readonly sessions: readonly AdminSession[];
}

/** Services on one database, two unless told otherwise, and callers of any name, each with a connection to each that lives. */
export class ReplicatedWorld {
  /** What the callers that were made here present, by SPIFFE ID. */
  readonly certificates = new Map<string, Certificate>();

  private constructor(
    readonly world: E2eWorld,
    readonly pki: OwnPki,
    readonly replicas: readonly ServiceProcess[],
  ) {}

  /**
   * @param env of every replica, besides what each world has
   * @param prepare changes the database, as its superuser, before anything connects to it
   */
  static async open(
    options: {
      readonly replicas?: number;
      readonly env?: Readonly<Record<string, string>>;
      readonly prepare?: (sql: pg.Client) => Promise<void>;
    } = {},
  ): Promise<ReplicatedWorld> {
    const { replicas = 2, env = {}, prepare } = options;
    const pki = await OwnPki.create();
    try {
      const world = await openE2eWorld({ globex: true, tls: pki.tls, env, ...(prepare ? { prepare } : {}) });
      const further = Array.from({ length: replicas - 1 }, () => world.startReplica());
      return new ReplicatedWorld(world, pki, [world.service, ...(await Promise.all(further))]);
    } catch (error) {
      pki.remove();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.world.close();
    this.pki.remove();
  }

  /** The same caller connected to each replica. */
  connect(certificate: Certificate): Channel[] {
    return this.replicas.map((service) => this.pki.channel({ service, certificate }));
  }

  private issue(spiffeId: string, notAfter: Date | undefined): Certificate {
    const certificate = this.pki.leaf(spiffeId, notAfter ? { notAfter } : {});
    this.certificates.set(spiffeId, certificate);
    return certificate;
  }

  /** A harness of acme.test with a principal of its own, whom both replicas have just let reserve. */
  async newHarness(spec: { notAfter?: Date } = {}): Promise<LivingHarness> {
    const harnessId = `h-${randomUUID()}`;
    const spiffeId = `spiffe://${ACME}/harness/${harnessId}`;
    const names = { spiffeId, harnessId, principalId: `principal-of-${harnessId}` };
    await addHarness(this.world, names);
    const { rows } = await this.world.sql.query(
      'SELECT credential_id FROM credentials WHERE spiffe_id = $1',
      [spiffeId],
    );
    const channels = this.connect(this.issue(spiffeId, spec.notAfter));
    const eventId = await this.publish(channels[0] as Channel);
    const grantId = await this.world.grant({ principalId: names.principalId, harnessId });
    const harness = { ...names, credentialId: rows[0].credential_id, eventId, grantId, channels };
    for (const channel of channels) await this.reserve(harness, channel);
    return harness;
  }

  async publish(channel: Channel, eventId = `event-${randomUUID()}`): Promise<string> {
    await channel.service(EventService).publishEvent({
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
    });
    return eventId;
  }

  /** Reserves an effect of its own. */
  async reserve(
    { eventId, grantId }: Pick<LivingHarness, 'eventId' | 'grantId'>,
    channel: Channel,
  ): Promise<ReserveEffectResponse> {
    const effectKey = randomUUID();
    const request = { case: 'requestDigest' as const, value: digest(effectKey) };
    const wish = await reservation(this.world, { eventId, grantId, effectKey, request });
    return channel.service(EffectService).reserveEffect(wish);
  }

  /** What a harness may no longer do, told by each replica at the first call of each kind. */
  async expectRefused(harness: LivingHarness, reason: keyof typeof Reason): Promise<void> {
    for (const channel of harness.channels) {
      const refused = await Promise.all([
        refusedWith(this.reserve(harness, channel)),
        refusedWith(this.publish(channel)),
        refusedWith(channel.service(EventService).getEvent({ eventId: harness.eventId })),
      ]);
      for (const one of refused) expect(one).toMatchObject({ code: 'PERMISSION_DENIED', reason });
      const question = { action: 'effect.cancel', resource: 'x', requestDigest: digest(randomUUID()) };
      const { decision } = await channel.service(PolicyService).decide(question);
      expect(decision).toMatchObject({ allowed: false, reason: Reason[reason] });
    }
  }

  async expectServed(harness: Pick<LivingHarness, 'eventId' | 'grantId' | 'channels'>): Promise<void> {
    for (const channel of harness.channels) {
      expect(await this.reserve(harness, channel)).toMatchObject({ duplicate: false });
    }
  }

  /** A workload with a standing registration, as it works on each replica. */
  async newWorkload(
    role: WorkloadRole.EFFECT_EXECUTOR | WorkloadRole.EFFECT_RECONCILER,
    options: { domainId?: string; notAfter?: Date; bound?: boolean } = {},
  ): Promise<WorkloadSession[]> {
    const { domainId = ACME, notAfter } = options;
    const executes = role === WorkloadRole.EFFECT_EXECUTOR;
    const spiffeId = `spiffe://${domainId}/${executes ? 'executor' : 'reconciler'}/w-${randomUUID()}`;
    const certificate = this.issue(spiffeId, notAfter);
    const channels = this.connect(certificate);
    const binding = {
      certificateBinding: CertificateBinding.CERTIFICATE,
      certificateDigest: Uint8Array.from(certificate.sha256),
    };
    const operator = this.world.channel(OPERATOR);
    const made = await registerWorkload(this.world.admin, channels[0] as Channel, operator, {
      domainId,
      spiffeId,
      role,
      workloadId: executes ? 'payments' : `effect-system:${DEMO_AUTHORITY_SYSTEM}`,
      sinks: [DEMO_SINK],
      ...(options.bound ? { overrides: binding } : {}),
    });
    return channels.map((channel) => new WorkloadSession(channel, made.registration, made.key, made.service));
  }

  /** An operator or auditor, of the service's own domain unless told otherwise. */
  async newOperator(
    roles: readonly OperatorRole[],
    options: { homeDomainId?: string; trustDomain?: string; scopeDomainId?: string; notAfter?: Date } = {},
  ): Promise<LivingOperator> {
    const { homeDomainId = SERVICE_DOMAIN, trustDomain = homeDomainId } = options;
    const spiffeId = `spiffe://${trustDomain}/operator/o-${randomUUID()}`;
    const key = createSigningKey();
    const channels = this.connect(this.issue(spiffeId, options.notAfter));
    const sessions = channels.map((channel) => new AdminSession(channel, key));
    const operator: LivingOperator = { spiffeId, key, roles, homeDomainId, channels, sessions };
    await this.setOperator(operator, RecordStatus.ACTIVE, options.scopeDomainId);
    return operator;
  }

  /** Changes an operator's status. */
  async setOperator(
    { spiffeId, key, roles, homeDomainId }: LivingOperator,
    status: RecordStatus,
    scopeDomainId = '',
  ): Promise<void> {
    const signingKeyJwk = key.publicKey.jwk;
    await this.world.admin.execute(homeDomainId, {
      case: 'putOperator',
      value: { operator: { spiffeId, signingKeyJwk, roles: [...roles], scopeDomainId, status } },
    });
  }
}

/** A stream that stands. */
export interface LivingStream {
  /** What its caller is told at the end; rejects where it ends without a refusal. */
  readonly ended: Promise<SuretyError>;
}

/** Waits for the first reply of a stream, and goes on reading it. */
export async function beginStream(replies: AsyncIterable<unknown>): Promise<LivingStream> {
  const iterator = replies[Symbol.asyncIterator]();
  await iterator.next();
  const readAll = async (): Promise<void> => {
    while ((await iterator.next()).done !== true);
  };
  const ended = refusedWith(readAll());
  // Looked at later, when it may have ended long ago.
  ended.catch(() => undefined);
  return { ended };
}

/** Polls until it holds. */
export async function until(holds: () => boolean, what: string, timeoutMs = 15_000): Promise<void> {
  const end = Date.now() + timeoutMs;
  while (!holds()) {
    if (Date.now() > end) throw new Error(`did not come: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

import { randomBytes, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt';
import pg from 'pg';
import { inject } from 'vitest';
import { ensureDevelopmentCertificates } from '../../certs/development-certificates.js';
import type { CertificateLayout } from '../../certs/layout.js';
import { AdminSession } from '../../src/cli/client/admin-session.js';
import { registerWorkload, type WorkloadWish } from '../../src/cli/client/register-workload.js';
import { Channel } from '../../src/cli/client/service-client.js';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import {
  DEMO_ACTION,
  DEMO_AUTHORITY_SYSTEM,
  DEMO_DATA_CLASS,
  DEMO_HARNESS,
  DEMO_INPUT_SOURCE,
  DEMO_PRINCIPAL,
  DEMO_SINK,
  setUpDomain,
} from '../../src/cli/demo/set-up-domain.js';
import type { GrantSchema } from '../../src/gen/surety/authority/v1/records_pb.js';
import { type Effect, EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  EffectService,
  type ReserveEffectRequestSchema,
  type ReserveEffectResponse,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { EventService } from '../../src/gen/surety/event/v1/event_service_pb.js';
import { WorkloadRole } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { OriginKind } from '../../src/gen/surety/provenance/v1/record_pb.js';
import { ClockService } from '../../src/gen/surety/testing/v1/clock_service_pb.js';
import { importSigningKey, type SigningKey } from '../../src/identity/sign.js';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { bootstrap } from '../../src/store/bootstrap.js';
import { ADMITS_ALL_SINK } from './admits-all.js';
import { createTestDatabase, type TestDatabase } from './postgres.js';
import { type ServiceProcess, type ServiceSettings, startServiceProcess } from './service-process.js';

export const ACME = 'acme.test';
export const GLOBEX = 'globex.test';
export const SERVICE_DOMAIN = 'surety.test';
export const AUDIENCE = 'spiffe://surety.test/surety';
export const OPERATOR = 'spiffe://surety.test/operator/root';
export const AUDITOR = 'spiffe://surety.test/auditor/ann';
export const HARNESS = 'spiffe://acme.test/harness/planner';
export const EXECUTOR_A = 'spiffe://acme.test/executor/payments-a';
export const EXECUTOR_B = 'spiffe://acme.test/executor/payments-b';
export const RECONCILER = 'spiffe://acme.test/reconciler/bank';

const YEAR_MS = 365 * 86_400_000;

/** A running service with the development domains, and everybody's connection to it. */
export interface E2eWorld {
  readonly database: TestDatabase;
  readonly layout: CertificateLayout;
  readonly service: ServiceProcess;
  /** SQL as the superuser. */
  readonly sql: pg.Client;
  readonly admin: AdminSession;
  /** A further replica on the same database. */
  startReplica(env?: Readonly<Record<string, string>>): Promise<ServiceProcess>;
  /** A connection with a development caller's certificate, to the service or to a replica; closed at the end. */
  channel(spiffeId: string, service?: ServiceProcess): Channel;
  signingKey(spiffeId: string): SigningKey;
  /** Publishes an event of the harness. */
  publish(eventId?: string): Promise<string>;
  /** Issues a grant; all sets hold the demo's values and these resources. */
  grant(overrides?: GrantWish): Promise<string>;
  /** Publishes, grants and reserves: an effect of its own, PREPARED. */
  reserve(overrides?: Reservation, service?: ServiceProcess): Promise<ReserveEffectResponse>;
  /** Registers an executor; standing for the demo's sink unless the wish says otherwise. */
  executor(
    spiffeId?: string,
    wish?: Partial<WorkloadWish>,
    service?: ServiceProcess,
  ): Promise<WorkloadSession>;
  reconciler(wish?: Partial<WorkloadWish>, service?: ServiceProcess): Promise<WorkloadSession>;
  /** Reserves, and brings the effect to a state with this executor. */
  effectIn(state: EffectState, executor: WorkloadSession, overrides?: Reservation): Promise<StartedEffect>;
  /** Moves the store's clock, by the test clock. */
  advance(ms: number): Promise<void>;
  /** The store's clock, in milliseconds. */
  now(): Promise<number>;
  /** Another connection for `sql`, where the database's server was stopped and started. */
  reconnect(): Promise<void>;
  close(): Promise<void>;
}

export type GrantWish = Partial<Omit<MessageInitShape<typeof GrantSchema>, '$typeName'>>;
export type Reservation = Partial<MessageInitShape<typeof ReserveEffectRequestSchema>>;

/** An effect with the attempt that it was started under. */
export interface StartedEffect {
  readonly effect: Effect;
  readonly attemptId: string;
}

/** Starts a service on a database of its own and sets up acme.test (and globex.test, where asked). */
export async function openE2eWorld(
  options: {
    env?: Readonly<Record<string, string>>;
    globex?: boolean;
    /** Changes the database, as its superuser, before anything connects to it. */
    prepare?: (sql: pg.Client) => Promise<void>;
    /** Files of the test's own, which it may change (own-pki.ts); the suite's development files unless given. */
    tls?: ServiceSettings['tls'];
    /** On a server of the test's own; one on the suite's unless given. */
    database?: TestDatabase;
  } = {},
): Promise<E2eWorld> {
  const layout = await ensureDevelopmentCertificates({ directory: inject('certificatesDirectory') });
  const database = options.database ?? (await createTestDatabase());
  const sql = await connectTo(database);
  await options.prepare?.(sql);
  await bootstrap({
    url: database.url,
    audience: AUDIENCE,
    serviceDomainId: SERVICE_DOMAIN,
    operator: { spiffeId: OPERATOR, ...publicKeyOf(layout, OPERATOR) },
    commandId: 'bootstrap',
    codec: auditCodec,
  });
  const start = (env: Readonly<Record<string, string>> = {}): Promise<ServiceProcess> =>
    startServiceProcess({
      databaseUrl: database.url,
      tls: options.tls ?? { ...layout.service, bundlesDir: layout.bundlesDir },
      env: { ...options.env, ...env },
    });
  const services = [await start()];
  const world = new World(database, layout, services, sql, start);
  try {
    await world.setUp(options.globex === true ? [ACME, GLOBEX] : [ACME]);
  } catch (error) {
    const log = world.service.log();
    await world.close();
    throw new Error(`the world could not be set up: ${String(error)}\n${log}`, { cause: error });
  }
  return world;
}

class World implements E2eWorld {
  private readonly channels = new Map<string, Channel>();
  private advanced = 0;

  constructor(
    readonly database: TestDatabase,
    readonly layout: CertificateLayout,
    private readonly services: ServiceProcess[],
    public sql: pg.Client,
    private readonly start: (env?: Readonly<Record<string, string>>) => Promise<ServiceProcess>,
  ) {}

  get service(): ServiceProcess {
    return this.services[0] as ServiceProcess;
  }

  get admin(): AdminSession {
    return new AdminSession(this.channel(OPERATOR), this.signingKey(OPERATOR));
  }

  async setUp(domains: readonly string[]): Promise<void> {
    for (const domainId of domains) {
      const names = {
        domainId,
        harnessSpiffeId: `spiffe://${domainId}/harness/planner`,
        ownerSpiffeId: `spiffe://${domainId}/owner/olga`,
        ownerKeyJwk: readFileSync(
          this.layout.signingKeys[`spiffe://${domainId}/owner/olga`]?.publicJwk ?? '',
          'utf8',
        ),
        auditorSpiffeId: AUDITOR,
      };
      await setUpDomain(this.admin, SERVICE_DOMAIN, names, ADMITS_ALL_SINK);
    }
  }

  async startReplica(env: Readonly<Record<string, string>> = {}): Promise<ServiceProcess> {
    const service = await this.start(env);
    this.services.push(service);
    return service;
  }

  channel(spiffeId: string, service: ServiceProcess = this.service): Channel {
    const name = `${spiffeId} ${service.target}`;
    let channel = this.channels.get(name);
    if (!channel) {
      const files = this.layout.callers[spiffeId];
      if (!files) throw new Error(`no certificate of ${spiffeId}`);
      channel = new Channel(service.target, {
        certificate: readFileSync(files.cert),
        key: readFileSync(files.key),
        roots: readFileSync(this.layout.serviceBundle),
      });
      this.channels.set(name, channel);
    }
    return channel;
  }

  signingKey(spiffeId: string): SigningKey {
    return importSigningKey(readFileSync(this.layout.signingKeys[spiffeId]?.pem ?? '', 'utf8'));
  }

  async publish(eventId = `event-${randomUUID()}`): Promise<string> {
    await this.channel(HARNESS)
      .service(EventService)
      .publishEvent({
        eventId,
        type: 'task.assigned',
        classification: DEMO_DATA_CLASS,
        payloadDigest: digest(eventId),
        origin: {
          kind: OriginKind.HUMAN_INPUT,
          sourceId: 'support-desk',
          sourceDigest: digest(eventId),
          observedTime: timestampFromMs(Date.now()),
          principalId: DEMO_PRINCIPAL,
          harnessId: DEMO_HARNESS,
        },
        allowedSinks: [DEMO_SINK],
      });
    return eventId;
  }

  async grant(overrides: GrantWish = {}): Promise<string> {
    const grantId = overrides.grantId ?? `grant-${randomUUID()}`;
    await this.admin.execute(ACME, {
      case: 'createGrant',
      value: {
        grant: {
          principalId: DEMO_PRINCIPAL,
          harnessId: DEMO_HARNESS,
          actions: [DEMO_ACTION],
          resources: ['order-1184'],
          inputSources: [DEMO_INPUT_SOURCE],
          outputSinks: [DEMO_SINK],
          dataClasses: [DEMO_DATA_CLASS],
          maxUses: 1000n,
          expireTime: timestampFromMs((await this.now()) + YEAR_MS),
          ...overrides,
          grantId,
        },
      },
    });
    return grantId;
  }

  async reserve(overrides: Reservation = {}, service?: ServiceProcess): Promise<ReserveEffectResponse> {
    const eventId = overrides.eventId ?? (await this.publish());
    const grantId = overrides.grantId ?? (await this.grant());
    return this.channel(HARNESS, service)
      .service(EffectService)
      .reserveEffect({
        eventId,
        grantId,
        action: DEMO_ACTION,
        resource: 'order-1184',
        inputSource: DEMO_INPUT_SOURCE,
        outputSink: DEMO_SINK,
        dataClass: DEMO_DATA_CLASS,
        request: { case: 'requestDigest', value: digest(`request for ${eventId}`) },
        ...overrides,
      } as MessageInitShape<typeof ReserveEffectRequestSchema>);
  }

  executor(
    spiffeId = EXECUTOR_A,
    wish: Partial<WorkloadWish> = {},
    service?: ServiceProcess,
  ): Promise<WorkloadSession> {
    return this.register(this.channel(spiffeId, service), {
      domainId: ACME,
      spiffeId,
      role: WorkloadRole.EFFECT_EXECUTOR,
      workloadId: 'payments',
      ...(wish.grantId === undefined ? { sinks: [DEMO_SINK] } : {}),
      ...wish,
    });
  }

  reconciler(wish: Partial<WorkloadWish> = {}, service?: ServiceProcess): Promise<WorkloadSession> {
    return this.register(this.channel(RECONCILER, service), {
      domainId: ACME,
      spiffeId: RECONCILER,
      role: WorkloadRole.EFFECT_RECONCILER,
      workloadId: `effect-system:${DEMO_AUTHORITY_SYSTEM}`,
      ...(wish.grantId === undefined ? { sinks: [DEMO_SINK] } : {}),
      ...wish,
    });
  }

  /** Its statements and evidence go by the test clock, as far as it was moved here. */
  private register(channel: Channel, wish: WorkloadWish): Promise<WorkloadSession> {
    const clock = (): number => Date.now() + this.advanced;
    return registerWorkload(this.admin, channel, this.channel(OPERATOR), wish, undefined, clock);
  }

  async effectIn(
    state: EffectState,
    executor: WorkloadSession,
    overrides: Reservation = {},
  ): Promise<StartedEffect> {
    const { effectId } = await this.reserve(overrides);
    const attemptId = `attempt-${randomBytes(12).toString('hex')}`;
    const look = (): Promise<Effect> => executor.look(effectId);
    const effects = executor.channel.service(EffectService);
    if (state === EffectState.PREPARED) return { effect: await look(), attemptId };
    const now = await this.now();
    await effects.startExecution(await executor.start(await look(), attemptId, now));
    if (state === EffectState.EXECUTING) return { effect: await look(), attemptId };
    if (state === EffectState.UNKNOWN) {
      await effects.markUnknown(
        await executor.markUnknown(await look(), {
          attemptId,
          reason: 1,
          observationDigest: digest('nothing came back'),
          observedTime: timestampFromMs(now),
        }),
      );
    } else {
      await effects.acknowledgeTerminal(
        await executor.acknowledge(await look(), state, {
          attemptId,
          receiptId: `receipt-${effectId}`,
          receipt: 'done',
          observedTime: timestampFromMs(now),
        }),
      );
    }
    return { effect: await look(), attemptId };
  }

  async advance(ms: number): Promise<void> {
    await this.channel(OPERATOR)
      .service(ClockService)
      .advance({ by: durationFromMs(ms) });
    this.advanced += ms;
  }

  async now(): Promise<number> {
    const { rows } = await this.sql.query('SELECT surety_now() AS now');
    return Math.floor(Number(rows[0].now) / 1000);
  }

  async reconnect(): Promise<void> {
    this.sql = await connectTo(this.database);
  }

  async close(): Promise<void> {
    for (const channel of this.channels.values()) channel.close();
    await Promise.all(this.services.map((service) => service.stop()));
    await this.sql.end();
    await this.database.drop();
  }
}

async function connectTo(database: TestDatabase): Promise<pg.Client> {
  const sql = new pg.Client({ connectionString: database.url });
  // A server that is stopped breaks it: whoever uses it then is told so.
  sql.on('error', () => undefined);
  await sql.connect();
  return sql;
}

function publicKeyOf(
  layout: CertificateLayout,
  spiffeId: string,
): { signingKeyJwk: string; signingKeyThumbprint: string } {
  const key = importSigningKey(readFileSync(layout.signingKeys[spiffeId]?.pem ?? '', 'utf8'));
  return { signingKeyJwk: key.publicKey.jwk, signingKeyThumbprint: key.publicKey.thumbprint };
}

/** The reason with which a call is refused; the call succeeding is a failure of the test. */
export async function refusedWith(call: Promise<unknown>): Promise<SuretyError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof SuretyError) return error;
    throw error;
  }
  throw new Error('the call was not refused');
}

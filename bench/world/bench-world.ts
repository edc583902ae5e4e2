import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { toBinary } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import pg from 'pg';
import { AdminSession } from '../../src/cli/client/admin-session.js';
import { registerWorkload } from '../../src/cli/client/register-workload.js';
import { Channel } from '../../src/cli/client/service-client.js';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  startEmbeddedPostgres,
} from '../../src/embedded/embedded-postgres.js';
import { RegistrationSpecSchema, WorkloadRole } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { createSigningKey, type SigningKey } from '../../src/identity/sign.js';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { bootstrap } from '../../src/store/bootstrap.js';
import { migrate } from '../../src/store/migrate.js';
import { serviceRole } from '../../src/store/migrate-roles.js';
import type { LaneOrder } from '../lane/messages.js';
import type { LoadOrder, RegistrationText } from '../load/messages.js';
import { Child } from '../measure/child.js';
import { Costs } from '../measure/costs.js';
import { familyTimeMs, processTimeMs } from '../measure/processor-time.js';
import { StoreGrowth } from '../measure/store-growth.js';
import { type BenchCertificates, mintCertificates } from './certificates.js';
import {
  DOMAIN,
  executorSpiffeId,
  HARNESSES,
  harnessSpiffeId,
  OPERATOR,
  SERVICE,
  SERVICE_DOMAIN,
  SINK,
  UNCHAINED_DOMAIN,
} from './names.js';
import { ServiceProcess } from './service-process.js';
import { publishEvents, raiseServiceLimit, setUpDomain } from './set-up-domain.js';
import { readSql } from './sql.js';
import { Undoing } from './undoing.js';

/** The service's own default; the lane without RPC has the same. */
export const BATCH_LIMIT = 128;

/** A Postgres, a service on it with two domains, and the processes that make load. */
export class BenchWorld {
  /** By what is stored since the beginning, for `stored-effects.ts`. */
  reserved = 0;
  settled = 0;
  readonly events: Record<string, readonly (readonly string[])[]> = {};
  /** Processor time of a call on each tier. What prepares a round is not in it: the children read theirs by themselves. */
  readonly costs = new Costs(() => ({
    postgres: () => familyTimeMs(this.postgres.pid),
    service: () => processTimeMs(this.service.pid),
  }));
  /** Bytes that a call leaves in the store and its log. */
  readonly growth: StoreGrowth;
  private current: ServiceProcess | undefined;

  private constructor(
    readonly postgres: EmbeddedPostgres,
    readonly sql: pg.Client,
    readonly folder: string,
    readonly certificates: BenchCertificates,
    readonly operatorKey: SigningKey,
    readonly load: Child<LoadOrder>,
    readonly lane: Child<LaneOrder>,
    readonly undoing: Undoing,
    readonly profile: string | undefined,
  ) {
    this.growth = new StoreGrowth(sql);
  }

  /**
   * @param profile where the CPU profiles of service, lane and load go, if any are wanted
   * @param given an empty server that somebody else started and ends
   */
  static async open(undoing: Undoing, profile?: string, given?: EmbeddedPostgres): Promise<BenchWorld> {
    const folder = await mkdtemp(path.join(tmpdir(), 'surety-bench-'));
    undoing.add(() => rm(folder, { recursive: true, force: true }));
    const postgres = given ?? (await startEmbeddedPostgres(placeOf(folder)));
    if (!given) undoing.add(() => postgres.stop());
    const sql = new pg.Client({ connectionString: postgres.url });
    await sql.connect();
    undoing.add(() => sql.end());
    const certificates = await mintCertificates(path.join(folder, 'certificates'));
    const operatorKey = createSigningKey();
    await prepareDatabase(postgres.url, sql, operatorKey);
    const load = Child.start<LoadOrder>('load/load-main.js', profile);
    undoing.add(() => load.stop());
    const lane = Child.start<LaneOrder>('lane/lane-main.js', profile);
    undoing.add(() => lane.stop());
    const world = new BenchWorld(
      postgres,
      sql,
      folder,
      certificates,
      operatorKey,
      load,
      lane,
      undoing,
      profile,
    );
    await world.startService();
    await world.setUp();
    await world.connect();
    return world;
  }

  get service(): ServiceProcess {
    if (!this.current) throw new Error('there is no service');
    return this.current;
  }

  /** Ends the service and starts another one, which has served nothing yet. */
  async restartService(): Promise<void> {
    await this.current?.stop();
    await this.startService();
  }

  /**
   * Connects the load to the service, with a registration that is fresh.
   *
   * @param validityMs how long it is valid, where that matters
   */
  async connect(validityMs?: number): Promise<void> {
    const registration = await this.registerExecutor(validityMs);
    await this.load.send({
      kind: 'open',
      target: this.service.target,
      harnesses: HARNESSES.map((harness) => this.certificates.identity(harnessSpiffeId(DOMAIN, harness))),
      executor: this.certificates.identity(executorSpiffeId(DOMAIN)),
      registration,
    });
    await this.lane.send({
      kind: 'open',
      url: this.postgres.url,
      role: serviceRole,
      batchLimit: BATCH_LIMIT,
    });
  }

  /** Another service on the same database, which is ended with the world. */
  async startFurtherService(): Promise<ServiceProcess> {
    const service = await ServiceProcess.start(this.postgres.url, this.certificates, this.profile);
    this.undoing.add(() => service.stop());
    return service;
  }

  private async startService(): Promise<void> {
    this.current = await this.startFurtherService();
  }

  private async setUp(): Promise<void> {
    const operator = this.channel(OPERATOR);
    const admin = new AdminSession(operator, this.operatorKey);
    try {
      await raiseServiceLimit(admin);
      for (const domainId of [DOMAIN, UNCHAINED_DOMAIN]) {
        await setUpDomain(admin, domainId);
        const events: string[][] = [];
        for (const harness of HARNESSES) {
          const channel = this.channel(harnessSpiffeId(domainId, harness));
          events.push(await publishEvents(channel, harness));
          channel.close();
        }
        this.events[domainId] = events;
      }
    } finally {
      operator.close();
    }
  }

  /** An executor with a registration that is fresh; its connection is the caller's to close. */
  async executorSession(validityMs?: number): Promise<WorkloadSession> {
    const spiffeId = executorSpiffeId(DOMAIN);
    const operator = this.channel(OPERATOR);
    try {
      return await registerWorkload(
        new AdminSession(operator, this.operatorKey),
        this.channel(spiffeId),
        operator,
        {
          domainId: DOMAIN,
          spiffeId,
          role: WorkloadRole.EFFECT_EXECUTOR,
          workloadId: 'payments',
          sinks: [SINK],
          ...(validityMs === undefined
            ? {}
            : { overrides: { expireTime: timestampFromMs(Date.now() + validityMs) } }),
        },
      );
    } finally {
      operator.close();
    }
  }

  private async registerExecutor(validityMs?: number): Promise<RegistrationText> {
    const session = await this.executorSession(validityMs);
    try {
      const pem = session.key.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
      return {
        spec: Buffer.from(toBinary(RegistrationSpecSchema, session.registration)).toString('base64'),
        signingKey: pem,
        audience: session.service.audience,
        incarnation: String(session.service.incarnation),
      };
    } finally {
      session.channel.close();
    }
  }

  /** A connection to the service; the caller's to close. */
  channel(spiffeId: string): Channel {
    const { certificate, key, roots } = this.certificates.identity(spiffeId);
    return new Channel(this.service.target, {
      certificate: Buffer.from(certificate),
      key: Buffer.from(key),
      roots: Buffer.from(roots),
    });
  }
}

function placeOf(folder: string): EmbeddedPostgresOptions {
  return { dataDir: path.join(folder, 'postgres'), removeWhenDone: true };
}

async function prepareDatabase(url: string, sql: pg.Client, operatorKey: SigningKey): Promise<void> {
  await migrate({ url });
  await bootstrap({
    url,
    audience: SERVICE,
    serviceDomainId: SERVICE_DOMAIN,
    operator: {
      spiffeId: OPERATOR,
      signingKeyJwk: operatorKey.publicKey.jwk,
      signingKeyThumbprint: operatorKey.publicKey.thumbprint,
    },
    commandId: 'bootstrap',
    codec: auditCodec,
  });
  await sql.query(await readSql('baseline.sql'));
}

import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { readConfiguration } from '../../src/config/configuration.js';
import {
  Health,
  HealthCheckResponse_ServingStatus as ServingStatus,
  HealthCheckResponseSchema,
} from '../../src/gen/grpc/health/v1/health_pb.js';
import { ServerReflection } from '../../src/gen/grpc/reflection/v1/reflection_pb.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { CallerKind } from '../../src/gen/surety/identity/v1/workload_pb.js';
import {
  WhoAmIResponseSchema,
  WorkloadService,
} from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { ClockService } from '../../src/gen/surety/testing/v1/clock_service_pb.js';
import { parsePublicJwk } from '../../src/identity/jwk.js';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { newId } from '../../src/rpc/new-id.js';
import { TEST_CLOCK } from '../../src/server/bindings.js';
import { type Service, type ServiceConfiguration, startService } from '../../src/server/service.js';
import { bootstrap } from '../../src/store/bootstrap.js';
import { Authority, BundleFolder, type Certificate } from '../support/pki.js';
import { createTestDatabase, startPrivatePostgres, type TestDatabase } from '../support/postgres.js';
import { CALLERS, pathOf, readAll, resultOf, SERVICE_ID, TestClient } from '../rpc/harness.js';

const log = pino({ level: 'silent' });

let folder: string;
let bundles: BundleFolder;
const authorities = { surety: Authority.root('surety'), acme: Authority.root('acme') };
const own = authorities.surety.leaf(SERVICE_ID, { dnsNames: ['localhost'] });
const root = authorities.surety.leaf(CALLERS.operator);

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'surety-service-'));
  bundles = new BundleFolder()
    .bundle('surety.test', authorities.surety)
    .bundle('acme.test', authorities.acme);
  writeFileSync(join(folder, 'service.pem'), own.pem);
  writeFileSync(join(folder, 'service.key'), own.keyPem);
});
afterAll(() => {
  rmSync(folder, { recursive: true });
  bundles.remove();
});

/** Ended in reverse order. */
const started: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of started.splice(0).reverse()) await end();
});

async function database(): Promise<TestDatabase> {
  const made = await createTestDatabase();
  started.push(() => made.drop());
  return made;
}

async function bootstrapped(url: string, audience = SERVICE_ID): Promise<void> {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = parsePublicJwk(JSON.stringify(publicKey.export({ format: 'jwk' })));
  await bootstrap({
    url,
    audience,
    serviceDomainId: 'surety.test',
    operator: { spiffeId: CALLERS.operator, signingKeyJwk: key.jwk, signingKeyThumbprint: key.thumbprint },
    commandId: newId('cmd'),
    codec: auditCodec,
  });
}

function configured(variables: Readonly<Record<string, string>>): ServiceConfiguration {
  return readConfiguration(
    {
      SURETY_LISTEN: '127.0.0.1:0',
      SURETY_ADMIN_LISTEN: '127.0.0.1:0',
      SURETY_TLS_CERT_FILE: join(folder, 'service.pem'),
      SURETY_TLS_KEY_FILE: join(folder, 'service.key'),
      SURETY_BUNDLES_DIR: bundles.path,
      ...variables,
    },
    'serve',
  ) as ServiceConfiguration;
}

async function serve(variables: Readonly<Record<string, string>>): Promise<Service> {
  const service = await startService(configured(variables), log);
  started.push(() => service.drain());
  return service;
}

function clientOf({ grpc }: Service, certificate: Certificate): TestClient {
  const client = new TestClient(grpc.port, authorities.surety.pem, certificate);
  started.push(async () => client.close());
  return client;
}

const admin = async ({ admin: { port } }: Service, path: string): Promise<{ code: number; text: string }> => {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return { code: response.status, text: await response.text() };
};

const statusOf = async (client: TestClient, service = ''): Promise<string> => {
  const { code, reply } = await client.call(Health.method.check, { service });
  return reply === undefined
    ? code
    : (ServingStatus[fromBinary(HealthCheckResponseSchema, reply).status] ?? '');
};

/** Opens a reflection stream and closes it. */
function reflect({ client }: TestClient): Promise<string> {
  const asIs = (bytes: Buffer): Buffer => bytes;
  const stream = client.makeBidiStreamRequest(
    pathOf(ServerReflection.method.serverReflectionInfo),
    asIs,
    asIs,
  );
  stream.end();
  stream.resume();
  return new Promise((resolve) => {
    stream.on('end', () => resolve('OK'));
    stream.on('error', (error) => resolve(resultOf(error as never, undefined).code));
  });
}

describe('a service', () => {
  it('serves the operator, health, readiness and metrics, and drains', async () => {
    const { url, serviceUrl } = await database();
    await bootstrapped(url);
    const service = await serve({ SURETY_DATABASE_URL: serviceUrl, SURETY_MIGRATION_URL: url });
    const client = clientOf(service, root);
    const { code, reply } = await client.call(WorkloadService.method.whoAmI, { domainId: 'surety.test' });
    expect(code).toBe('OK');
    expect(fromBinary(WhoAmIResponseSchema, reply ?? Buffer.alloc(0))).toMatchObject({
      spiffeId: CALLERS.operator,
      kind: CallerKind.OPERATOR,
      domainId: 'surety.test',
      audience: SERVICE_ID,
    });
    expect(await statusOf(client)).toBe('SERVING');
    expect(await statusOf(clientOf(service, own))).toBe('SERVING');
    expect(await statusOf(client, TEST_CLOCK)).toBe('NOT_FOUND');
    expect(await reflect(client)).toBe('UNIMPLEMENTED');
    expect(await admin(service, '/livez')).toEqual({ code: 200, text: 'live\n' });
    expect(await admin(service, '/readyz')).toEqual({ code: 200, text: 'ready\n' });
    const metrics = (await admin(service, '/metrics')).text;
    expect(metrics).toMatch(/grpc_server_handled_total\{.*grpc_method="WhoAmI",grpc_code="OK"\} 1/);
    expect(metrics).toMatch(
      /rpc_server_call_duration_seconds_count\{.*WhoAmI",rpc_response_status_code="OK"\} 1\n/,
    );
    expect(metrics).toMatch(/surety_connection_wait_seconds_count\{pool="read"\} [1-9]/);
    expect(metrics).toContain('surety_connections 2');
    await service.drain();
    expect(await statusOf(client)).toBe('UNAVAILABLE');
    await expect(admin(service, '/livez')).rejects.toThrow();
  });

  it('with one login alone migrates with it and serves as the role', async () => {
    const { url } = await database();
    await bootstrapped(url);
    const service = await serve({ SURETY_DATABASE_URL: url, SURETY_REFLECTION: '1' });
    const client = clientOf(service, root);
    expect((await client.call(WorkloadService.method.whoAmI)).code).toBe('OK');
    expect(await reflect(client)).toBe('OK');
  });

  it('ends a watch with DRAINING, and lets a call that is under way end', async () => {
    const { url } = await database();
    await bootstrapped(url);
    const service = await serve({ SURETY_DATABASE_URL: url });
    const client = clientOf(service, root);
    const watch = client.stream(AuditService.method.watchEntries, { domainId: 'surety.test' });
    const health = client.stream(Health.method.watch, {});
    const begun = [watch, health].map((stream) => new Promise((resolve) => stream.once('data', resolve)));
    const [watching, watchingHealth] = [readAll(watch), readAll(health)];
    await Promise.all(begun);
    const calls = Array.from({ length: 20 }, () => client.call(WorkloadService.method.whoAmI));
    await service.drain();
    expect((await watching).end).toMatchObject({ code: 'UNAVAILABLE', reason: 'DRAINING' });
    const told = (await watchingHealth).messages.map(
      (one) => fromBinary(HealthCheckResponseSchema, one).status,
    );
    expect(told).toEqual([ServingStatus.SERVING, ServingStatus.NOT_SERVING]);
    const codes = new Set((await Promise.all(calls)).map(({ code, reason }) => reason ?? code));
    // Whose call had not left when the connection said that it takes no more finds nobody at another one.
    expect([...codes].filter((code) => !['OK', 'DRAINING', 'UNAVAILABLE'].includes(code))).toEqual([]);
  });

  it('moves the clock of a test database, and judges certificates by it', async () => {
    const { url } = await database();
    await bootstrapped(url);
    const service = await serve({ SURETY_DATABASE_URL: url, SURETY_TEST_CLOCK: '1' });
    const client = clientOf(service, root);
    expect(await statusOf(client, TEST_CLOCK)).toBe('SERVING');
    const hour = await client.call(ClockService.method.advance, { by: { seconds: 3_600n } });
    expect(hour.code).toBe('OK');
    expect((await client.call(WorkloadService.method.whoAmI)).code).toBe('OK');
    expect((await client.call(ClockService.method.advance, { by: { seconds: 86_400n } })).code).toBe('OK');
    expect(await client.call(WorkloadService.method.whoAmI)).toMatchObject({
      reason: 'CERTIFICATE_REJECTED',
      metadata: { rule: 'EXPIRED' },
    });
  });

  it('says that it is not ready while its store is away, and recovers by itself', async () => {
    const postgres = await startPrivatePostgres();
    started.push(() => postgres.stop());
    const { url } = await postgres.createTestDatabase();
    await bootstrapped(url);
    const service = await serve({ SURETY_DATABASE_URL: url });
    const client = clientOf(service, own);
    expect(await statusOf(client)).toBe('SERVING');
    await postgres.kill();
    const readiness = async (): Promise<string> => (await admin(service, '/readyz')).text;
    await expect.poll(readiness, { timeout: 60_000 }).toBe('not ready: the store does not answer\n');
    expect(await statusOf(client)).toBe('NOT_SERVING');
    expect(await clientOf(service, root).call(WorkloadService.method.whoAmI)).toMatchObject({
      code: 'UNAVAILABLE',
      reason: 'STORE_UNAVAILABLE',
    });
    await postgres.restart();
    await expect.poll(readiness, { timeout: 60_000 }).toBe('ready\n');
    expect(await statusOf(client)).toBe('SERVING');
  }, 60_000);
});

describe('a service does not start', () => {
  const refused = async (variables: Readonly<Record<string, string>>): Promise<string> => {
    try {
      await serve(variables);
    } catch (error) {
      return (error as Error).message;
    }
    return 'started';
  };

  it('before the bootstrap', async () => {
    const { url } = await database();
    expect(await refused({ SURETY_DATABASE_URL: url })).toMatch(/run surety bootstrap/);
  });

  it('under another name than the bootstrap gave it', async () => {
    const { url } = await database();
    await bootstrapped(url, 'spiffe://surety.test/other');
    expect(await refused({ SURETY_DATABASE_URL: url })).toMatch(
      /names spiffe:\/\/surety\.test\/surety.*for spiffe:\/\/surety\.test\/other/,
    );
  });

  it('with a test clock or a fault on a database that is not for tests', async () => {
    const { url } = await database();
    await bootstrapped(url);
    const { Client } = await import('pg').then((module) => module.default);
    const client = new Client(url);
    await client.connect();
    await client.query('UPDATE service_state SET test_database = false');
    await client.end();
    expect(await refused({ SURETY_DATABASE_URL: url, SURETY_TEST_CLOCK: '1' })).toMatch(
      /^SURETY_TEST_CLOCK is only/,
    );
    expect(await refused({ SURETY_DATABASE_URL: url, SURETY_FAULT: 'before-commit:error' })).toMatch(
      /^SURETY_FAULT/,
    );
    expect(await refused({ SURETY_DATABASE_URL: url })).toBe('started');
  });

  it('on a port that is taken, and leaves nothing behind', async () => {
    const { url, name } = await database();
    await bootstrapped(url);
    const first = await serve({ SURETY_DATABASE_URL: url });
    const taken = { SURETY_DATABASE_URL: url, SURETY_LISTEN: `127.0.0.1:${first.grpc.port}` };
    expect(await refused(taken)).toMatch(/EADDRINUSE/);
    const adminTaken = { SURETY_DATABASE_URL: url, SURETY_ADMIN_LISTEN: `127.0.0.1:${first.admin.port}` };
    expect(await refused(adminTaken)).toMatch(/EADDRINUSE/);
    await first.drain();
    const { Client } = await import('pg').then((module) => module.default);
    const client = new Client(url);
    await client.connect();
    const left =
      "SELECT count(*)::int AS left FROM pg_stat_activity WHERE datname = $1 AND application_name LIKE 'surety%'";
    await expect.poll(async () => (await client.query(left, [name])).rows[0]).toEqual({ left: 0 });
    await client.end();
  });

  it('when a file cannot be used, and names it', async () => {
    const { url } = await database();
    await bootstrapped(url);
    writeFileSync(join(folder, 'bad.key'), 'nothing');
    expect(
      await refused({ SURETY_DATABASE_URL: url, SURETY_TLS_KEY_FILE: join(folder, 'bad.key') }),
    ).toContain('bad.key');
  });

  it('without its database', async () => {
    const message = await refused({ SURETY_DATABASE_URL: 'postgres://u:hunter2@127.0.0.1:1/none' });
    expect(message).toBe('The database did not answer.');
  });
});

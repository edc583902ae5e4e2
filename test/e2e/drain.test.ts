import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Channel } from '../../src/cli/client/service-client.js';
import type { SuretyError } from '../../src/cli/client/surety-error.js';
import {
  Health,
  HealthCheckResponse_ServingStatus as Serving,
} from '../../src/gen/grpc/health/v1/health_pb.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { expectSound } from '../fault/store-invariants.js';
import { ACME, AUDITOR, type E2eWorld, HARNESS, openE2eWorld, refusedWith } from '../support/e2e-world.js';
import { patientUrl } from '../support/postgres.js';
import type { ServiceProcess } from '../support/service-process.js';
import { type ExactCall, ExactCalls, openChannel } from './exact-calls.js';

// architecture.md and issue "Effects end to end", 9: on SIGTERM health goes first, calls in flight finish, watches end,
// then the pool goes. A fault holds a call up for as long as the test wants, so that there is one in flight.

let world: E2eWorld;
let calls: ExactCalls;
const channels: Channel[] = [];
/** While this file is there, a reservation with the fault `HELD` is held before its COMMIT. */
const folder = mkdtempSync(path.join(os.tmpdir(), 'surety-drain-'));
const heldWhile = path.join(folder, 'held');

beforeAll(async () => {
  world = await openE2eWorld();
  calls = new ExactCalls(world, await world.executor());
});
afterAll(async () => {
  for (const channel of channels) channel.close();
  rmSync(folder, { recursive: true });
  await world.close();
});

const HELD = { SURETY_FAULT: `before-commit:hold@effect.reserve=${heldWhile}` };
/** Longer than any test: a service that waits for it instead of what has ended is seen. */
const LONG_GRACE = { SURETY_DRAIN_GRACE_MS: '600000' };

/** The longest that the service lets a call take. */
const PATIENCE_MS = 60_000;

/** With a login that nothing else here uses, so that its connections can be told from others. */
function start(env: Readonly<Record<string, string>> = {}): Promise<ServiceProcess> {
  const { url, serviceUrl } = world.database;
  return world.startReplica({
    SURETY_DATABASE_URL: patientUrl(serviceUrl),
    SURETY_MIGRATION_URL: url,
    ...LONG_GRACE,
    ...env,
  });
}

function connect(spiffeId: string, service: ServiceProcess): Channel {
  const channel = openChannel(world, spiffeId, service);
  channels.push(channel);
  return channel;
}

/** Sends a reservation and waits until its batch holds the lock of the domain, until it is let go. */
async function inFlight(
  call: ExactCall,
  service: ServiceProcess,
): Promise<{ answer: ReturnType<ExactCall['send']>; letGo: () => void }> {
  writeFileSync(heldWhile, '');
  const answer = call.send(service, PATIENCE_MS);
  answer.catch(() => undefined);
  const held = `SELECT count(*)::int AS count FROM pg_stat_activity
    WHERE datname = current_database() AND state = 'idle in transaction' AND query LIKE 'INSERT%'`;
  await expect.poll(async () => (await world.sql.query(held)).rows[0].count).toBe(1);
  return { answer, letGo: () => rmSync(heldWhile) };
}

/** What a stream brought, with the moments, until it ended. */
class Watched<Message> {
  readonly seen: { readonly at: number; readonly message: Message }[] = [];
  readonly end: Promise<{ readonly at: number; readonly error: SuretyError | undefined }>;

  constructor(stream: AsyncIterable<Message>) {
    this.end = this.read(stream);
  }

  private async read(stream: AsyncIterable<Message>): ReturnType<() => Watched<Message>['end']> {
    try {
      for await (const message of stream) this.seen.push({ at: performance.now(), message });
      return { at: performance.now(), error: undefined };
    } catch (error) {
      return { at: performance.now(), error: error as SuretyError };
    }
  }
}

async function readiness({ admin }: ServiceProcess): Promise<{ status: number; text: string }> {
  const response = await fetch(`${admin}/readyz`);
  return { status: response.status, text: await response.text() };
}

describe('a service that is told to stop', () => {
  test('says so first, finishes what it has begun, ends watches, and goes', async () => {
    const service = await start(HELD);
    const [auditor, harness] = [connect(AUDITOR, service), connect(HARNESS, service)];
    const health = new Watched(auditor.service(Health).watch({}));
    const entries = new Watched(auditor.service(AuditService).watchEntries({ domainId: ACME }));
    await harness.service(WorkloadService).whoAmI({ domainId: ACME });
    await expect.poll(() => health.seen.length).toBe(1);
    await expect.poll(() => entries.seen.length).toBeGreaterThan(0);
    const { answer, letGo } = await inFlight(await calls.reserve(), service);

    process.kill(service.pid, 'SIGTERM');
    await expect.poll(() => health.seen.at(-1)?.message.status).toBe(Serving.NOT_SERVING);
    expect(await readiness(service)).toEqual({ status: 503, text: 'not ready: draining\n' });
    const watch = await entries.end;
    expect(watch.error).toMatchObject({ code: 'UNAVAILABLE', reason: 'DRAINING' });
    expect(health.seen.map(({ message }) => message.status)).toEqual([Serving.SERVING, Serving.NOT_SERVING]);
    expect(health.seen[1]?.at).toBeLessThan(watch.at);
    expect((await health.end).error).toMatchObject({ code: 'UNAVAILABLE' });
    // Nothing new, on a connection that is there or on a new one.
    expect(await refusedWith(harness.service(WorkloadService).whoAmI({}))).toMatchObject({
      code: 'UNAVAILABLE',
    });
    const late = connect(HARNESS, service).service(WorkloadService).whoAmI({});
    expect(await refusedWith(late)).toMatchObject({ code: 'UNAVAILABLE' });
    expect(await Promise.race([service.ended, sleep(0, 'there')])).toBe('there');

    letGo();
    expect(await answer).toMatchObject({ duplicate: false });
    expect(await service.ended).toBe(0);
    expect(service.log().trim().split('\n').at(-1)).toContain('drained');
    await nothingIsLeft(service);
    await expectSound(world.sql, ACME);
  });

  test('and is idle: is gone without waiting for its grace, with exit code 0', async () => {
    const service = await start();
    process.kill(service.pid, 'SIGINT');
    expect(await service.ended).toBe(0);
    await nothingIsLeft(service);
  });

  test('twice: exits at once, and the exact repeat of what it had begun is answered', async () => {
    const service = await start(HELD);
    const call = await calls.reserve();
    const { answer } = await inFlight(call, service);
    process.kill(service.pid, 'SIGTERM');
    await expect.poll(() => service.log()).toContain('a second signal ends at once');
    process.kill(service.pid, 'SIGTERM');
    expect(await service.ended).toBe(130);
    expect(await refusedWith(answer)).toMatchObject({ code: 'UNAVAILABLE', reason: '' });
    expect(await call.send(world.service)).toMatchObject({ duplicate: false });
    await expectSound(world.sql, ACME);
  });

  test('with a call that takes longer than the grace: it is cut off, its command is not', async () => {
    const service = await start({ ...HELD, SURETY_DRAIN_GRACE_MS: '300' });
    const call = await calls.reserve();
    const { answer, letGo } = await inFlight(call, service);
    process.kill(service.pid, 'SIGTERM');
    expect(await refusedWith(answer)).toMatchObject({ code: 'UNAVAILABLE', reason: '' });
    // The grace is over, and it waits for what was begun.
    await sleep(500);
    expect(await readiness(service)).toEqual({ status: 503, text: 'not ready: draining\n' });
    letGo();
    expect(await service.ended).toBe(0);
    await nothingIsLeft(service);
    expect(await call.send(world.service)).toMatchObject({ duplicate: true });
    await expectSound(world.sql, ACME);
  });
});

/** Neither a connection to the store, nor a port. */
async function nothingIsLeft(service: ServiceProcess): Promise<void> {
  const ports = [service.target, new URL(service.admin).host];
  for (const port of ports) await expect(fetch(`http://${port}`)).rejects.toThrow();
  const left = `SELECT application_name, state, query FROM pg_stat_activity
    WHERE datname = current_database() AND usename = '${new URL(world.database.serviceUrl).username}'`;
  // The server ends a session when it next looks, not when the client has gone.
  await expect.poll(async () => (await world.sql.query(left)).rows).toEqual([]);
}

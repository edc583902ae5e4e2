import { randomUUID, X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { durationFromMs, type Timestamp, timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { certificateLayout } from '../../certs/layout.js';
import { AdminSession } from '../../src/cli/client/admin-session.js';
import { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_AUTHORITY_SYSTEM } from '../../src/cli/demo/set-up-domain.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { type Effect, EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { ReplayService } from '../../src/gen/surety/replay/v1/replay_service_pb.js';
import { ClockService } from '../../src/gen/surety/testing/v1/clock_service_pb.js';
import { runCommand } from '../support/command-process.js';
import {
  ACME,
  type E2eWorld,
  EXECUTOR_A,
  HARNESS,
  OPERATOR,
  openE2eWorld,
  refusedWith,
} from '../support/e2e-world.js';
import { OwnPki } from '../support/own-pki.js';
import type { ServiceProcess } from '../support/service-process.js';
import { shiftedClock } from '../support/preloads.js';

// style.md, 5: the store's clock judges. A process whose own clock is an hour off decides everything as another would.

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** How far two readings of one clock may lie apart here, with everything that is between them. */
const NEAR_MS = 10 * MINUTE_MS;

let world: E2eWorld;
let pki: OwnPki;
beforeAll(async () => {
  pki = await OwnPki.create();
  world = await openE2eWorld();
});
afterAll(async () => {
  pki.remove();
  await world.close();
});

describe.each([
  { skew: 'an hour ahead', shiftMs: HOUR_MS },
  { skew: 'an hour behind', shiftMs: -HOUR_MS },
])('a service whose clock is $skew', ({ shiftMs }) => {
  let service: ServiceProcess;
  let executor: WorkloadSession;
  let reconciler: WorkloadSession;
  let admin: AdminSession;

  beforeAll(async () => {
    service = await world.startReplica({
      ...shiftedClock(shiftMs),
      SURETY_TLS_CERT_FILE: pki.tls.cert,
      SURETY_TLS_KEY_FILE: pki.tls.key,
      SURETY_BUNDLES_DIR: pki.tls.bundlesDir,
    });
    executor = await world.executor(EXECUTOR_A, {}, service);
    reconciler = await world.reconciler({}, service);
    admin = new AdminSession(world.channel(OPERATOR, service), world.signingKey(OPERATOR));
  });
  afterAll(() => service.stop());

  const near = async (time: Timestamp | undefined, aheadMs = 0): Promise<void> => {
    const distance = (time === undefined ? 0 : timestampMs(time)) - (await world.now()) - aheadMs;
    expect(Math.abs(distance)).toBeLessThan(NEAR_MS);
  };

  /** The executor with another clock, for the statements that it signs. */
  const at = (offsetMs: number): WorkloadSession => {
    const { channel, registration, key, service: name, clock } = executor;
    return new WorkloadSession(channel, registration, key, name, () => clock() + offsetMs);
  };

  const effects = () => executor.channel.service(EffectService);

  const reconcile = async (effect: Effect, attemptId: string, state: EffectState) => {
    const request = await reconciler.reconcile(effect, state, {
      attemptId,
      authoritySystemId: DEMO_AUTHORITY_SYSTEM,
      queryId: `query-${randomUUID()}`,
      response: 'what the ledger says',
      observedTime: timestampFromMs(await world.now()),
    });
    return reconciler.channel.service(EffectService).reconcile(request);
  };

  test('is off indeed, and tells the store’s time all the same', async () => {
    const line = JSON.parse(service.log().split('\n')[0] ?? '') as { time: string };
    expect(Math.abs(Date.parse(line.time) - Date.now() - shiftMs)).toBeLessThan(NEAR_MS);
    const me = await world.channel(HARNESS, service).service(WorkloadService).whoAmI({});
    await near(me.nowTime);
    const { nowTime } = await world.channel(OPERATOR, service).service(ClockService).now({});
    await near(nowTime);
  });

  test('takes an effect through its whole life, at the store’s times', async () => {
    const reserved = await world.reserve({}, service);
    await near(reserved.startBeforeTime, 24 * HOUR_MS);
    const attemptId = `attempt-${randomUUID()}`;
    const look = (): Promise<Effect> => executor.look(reserved.effectId);
    const started = await effects().startExecution(await executor.start(await look(), attemptId));
    await near(started.result?.transitionTime);
    await near(started.executionDeadlineTime, 15 * MINUTE_MS);
    const doubt = {
      attemptId,
      reason: 1,
      observationDigest: new Uint8Array(32),
      observedTime: timestampFromMs(await world.now()),
    };
    await effects().markUnknown(await executor.markUnknown(await look(), doubt));
    const { result } = await reconcile(await look(), attemptId, EffectState.SUCCEEDED);
    expect(result).toMatchObject({ state: EffectState.SUCCEEDED, duplicate: false });
    await near(result?.transitionTime);
  });

  test.each([
    { offset: -200, reason: undefined },
    { offset: -310, reason: 'PROOF_EXPIRED' },
    { offset: 50, reason: undefined },
    { offset: 600, reason: 'PROOF_EXPIRED' },
  ])('judges a statement that was issued $offset s from the store’s now', async ({ offset, reason }) => {
    const { effect, attemptId } = await world.effectIn(EffectState.PREPARED, executor);
    const request = await at(offset * SECOND_MS).start(effect, attemptId, await world.now());
    const answer = effects().startExecution(request);
    if (reason === undefined) expect(await answer).toMatchObject({ result: { duplicate: false } });
    else expect(await refusedWith(answer)).toMatchObject({ reason });
  });

  test('judges the time of evidence by the store’s', async () => {
    const { effect, attemptId } = await world.effectIn(EffectState.PREPARED, executor);
    for (const offsetMs of [-80 * SECOND_MS, 600 * SECOND_MS, shiftMs]) {
      const late = effects().startExecution(
        await executor.start(effect, attemptId, (await world.now()) + offsetMs),
      );
      expect(await refusedWith(late)).toMatchObject({ reason: 'EVIDENCE_TIME_OUTSIDE_WINDOW' });
    }
    const now = await world.now();
    const { result } = await effects().startExecution(await executor.start(effect, attemptId, now));
    expect(result).toMatchObject({ state: EffectState.EXECUTING });
  });

  test('lets nothing expire early, and nothing live on', async () => {
    const soon = timestampFromMs((await world.now()) + MINUTE_MS);
    const grantId = await world.grant({ expireTime: soon, maxUses: 10n });
    const reservationTtl = durationFromMs(MINUTE_MS);
    const [inTime, late] = [
      await admin.sign(ACME, putPrincipal(), 'in time'),
      await admin.sign(ACME, putPrincipal(), 'late'),
    ];
    const replay = world.channel(HARNESS, service).service(ReplayService);
    const consume = (): ReturnType<typeof replay.consumeNonce> =>
      replay.consumeNonce({
        scope: 'a-test',
        nonce: randomUUID(),
        consumptionId: randomUUID(),
        expireTime: soon,
      });
    const execute = (commandJws: string) =>
      world.channel(OPERATOR, service).service(AdminService).executeCommand({ commandJws });

    // In time, though by the process's clock it is over, or far from it.
    const { effectId } = await world.reserve({ grantId, reservationTtl }, service);
    await consume();
    await execute(inTime);
    const doubtful = await world.effectIn(EffectState.UNKNOWN, executor);
    const early = reconcile(doubtful.effect, doubtful.attemptId, EffectState.FAILED);
    expect(await refusedWith(early)).toMatchObject({ reason: 'RECONCILE_TOO_EARLY' });
    const executing = await world.effectIn(EffectState.EXECUTING, executor);
    // Answers after a round of this process's sweeps.
    await world
      .channel(OPERATOR, service)
      .service(ClockService)
      .advance({ by: durationFromMs(1) });
    expect(await executor.look(effectId)).toMatchObject({ state: EffectState.PREPARED });
    expect(await executor.look(executing.effect.effectId)).toMatchObject({ state: EffectState.EXECUTING });

    await world.advance(121 * SECOND_MS);
    expect(await refusedWith(world.reserve({ grantId }, service))).toMatchObject({ reason: 'GRANT_EXPIRED' });
    expect(await refusedWith(consume())).toMatchObject({ reason: 'FIELD_INVALID' });
    expect(await refusedWith(execute(late))).toMatchObject({ reason: 'COMMAND_EXPIRED' });
    expect(await executor.look(effectId)).toMatchObject({ state: EffectState.CANCELLED });
    const { result } = await reconcile(doubtful.effect, doubtful.attemptId, EffectState.FAILED);
    expect(result).toMatchObject({ state: EffectState.FAILED });
  });

  test('judges certificates by the store’s clock', async () => {
    const who = (spec: { notBefore?: Date; notAfter?: Date }) =>
      pki
        .channel({ service, certificate: pki.leaf(HARNESS, spec) })
        .service(WorkloadService)
        .whoAmI({});
    const from = async (ms: number): Promise<Date> => new Date((await world.now()) + ms);
    const ends = await who({ notAfter: await from(30 * MINUTE_MS) });
    expect(ends.spiffeId).toBe(HARNESS);
    const began = await who({ notBefore: await from(-30 * MINUTE_MS) });
    expect(began.spiffeId).toBe(HARNESS);
    const over = who({ notBefore: await from(-2 * HOUR_MS), notAfter: await from(-10 * MINUTE_MS) });
    expect(await refusedWith(over)).toMatchObject({
      code: expect.stringMatching(/UNAVAILABLE|UNAUTHENTICATED/),
    });
  });

  test('and a command line and certificates whose clock is so too', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'surety-clock-'));
    try {
      const env = { SURETY_STATE_DIR: folder, ...shiftedClock(shiftMs) };
      expect(await runCommand(['certs'], env)).toMatchObject({
        code: 0,
      });
      const layout = certificateLayout(path.join(folder, 'certs'));
      const { validFrom, validTo } = new X509Certificate(readFileSync(layout.service.cert));
      // A program with the right time can use them at once, and for most of a day.
      expect(Date.parse(validFrom)).toBeLessThan(Date.now() - 50 * MINUTE_MS);
      expect(Date.parse(validTo)).toBeGreaterThan(Date.now() + 22 * HOUR_MS);
      const health = await runCommand(['health', '--address', service.target], {
        ...env,
        SURETY_TLS_CERT_FILE: pki.tls.cert,
        SURETY_TLS_KEY_FILE: pki.tls.key,
        SURETY_BUNDLES_DIR: pki.tls.bundlesDir,
      });
      expect(health).toMatchObject({ code: 0, out: 'SERVING\n' });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

/** A command that may be executed any number of times. */
function putPrincipal(): Parameters<AdminSession['sign']>[1] {
  return { case: 'putPrincipal', value: { principal: { principalId: `p-${randomUUID()}`, status: 1 } } };
}

import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  AdminService,
  type GetAdmissionStatusResponse,
  GetAdmissionStatusResponseSchema,
} from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { BreakerState } from '../../src/gen/surety/authority/v1/admission_pb.js';
import {
  ConsumeNonceRequestSchema,
  ReplayService,
} from '../../src/gen/surety/replay/v1/replay_service_pb.js';
import { microsToTimestamp } from '../../src/identity/timestamp.js';
import { DEFAULT_LIMITS } from '../../src/ledger/admission/limits.js';
import { MAX_LIVE_NONCES } from '../../src/ledger/replay/live-nonces.js';
import { MINUTE, SECOND } from '../../src/ledger/types.js';
import { adminService } from '../../src/rpc/admin-service.js';
import { replayService } from '../../src/rpc/replay-service.js';
import { callerOf, DOMAIN, EXECUTOR_A, SERVICE_DOMAIN, SINK } from '../support/effect-world.js';
import { contextOf, handlersOf } from '../support/handlers.js';
import { StillClock } from '../support/still-clock.js';
import { type Peer, refusalOf, ServiceWorld, startRequest, type Workload } from './effect-service-world.js';

// authority.md, Admission, and api.md: GetAdmissionStatus shows every counter, by the store's clock, without any content.

const ROOT: Peer = { caller: callerOf('spiffe://surety.test/operator/root'), kind: 'operator' };
const ANNA: Peer = { caller: callerOf('spiffe://acme.test/operator/anna'), kind: 'operator' };
const BREAKER_RESET = 60n * SECOND;
const UNKNOWN_AGE = 3600n * SECOND;

let service: ServiceWorld;
let clock: StillClock;
let executor: Workload;

beforeAll(async () => {
  service = await ServiceWorld.open();
  clock = await StillClock.install(service.world.admin);
  await service.operator(ROOT, ['ADMIN'], SERVICE_DOMAIN);
  await service.operator(ANNA);
  await service.world.admin.query(
    `UPDATE sinks SET breaker_threshold = 1, breaker_reset = $1, unknown_ceiling = 7, unknown_age = $2`,
    [String(BREAKER_RESET), String(UNKNOWN_AGE)],
  );
  executor = await service.workload(EXECUTOR_A);
});
afterAll(() => service.close());

async function status(peer = ROOT, domainId = DOMAIN): Promise<GetAdmissionStatusResponse> {
  const { getAdmissionStatus } = handlersOf(AdminService, adminService(service.tools));
  const context = contextOf(peer.caller, peer.kind, { domainId });
  const answer = await getAdmissionStatus({ pageSize: 0, pageToken: '' } as never, context);
  const schema = GetAdmissionStatusResponseSchema;
  return fromBinary(schema, toBinary(schema, create(schema, answer)));
}

const startOf = (span: bigint) => microsToTimestamp(clock.now - (clock.now % span));

test('of a domain that nobody has called yet everything is 0', async () => {
  const { status: shown, actors, nextPageToken } = await status();
  expect(shown).toMatchObject({
    nowTime: microsToTimestamp(clock.now),
    limits: DEFAULT_LIMITS,
    minute: { startTime: startOf(MINUTE), ordinary: 0, safety: 0, ordinaryLeft: 54_000 },
    pending: 0,
    window: { startTime: startOf(10n * SECOND), activeActors: 0, leastServed: 0, mostServed: 0, served: [] },
    sinks: [
      {
        ...{ sink: SINK, breaker: BreakerState.CLOSED, failures: 0, breakerThreshold: 1, probeEffectId: '' },
        ...{ unknown: 0, unknownCeiling: 7, unknownAge: { seconds: 3600n } },
      },
    ],
  });
  expect(shown?.sinks[0]).not.toHaveProperty('openTime');
  expect(shown?.sinks[0]?.oldestUnknownAge).toBeUndefined();
  expect({ actors, nextPageToken }).toEqual({ actors: [], nextPageToken: '' });
});

test('calls, pending work, what is UNKNOWN and the breaker that it opened are there at once', async () => {
  await service.lose(executor);
  const { status: shown, actors } = await status();
  // Published, reserved and started; marked unknown.
  const minute = { startTime: startOf(MINUTE), ordinary: 3, safety: 1 };
  expect(shown).toMatchObject({
    minute: { ...minute, ordinaryLeft: 54_000 - 3 },
    pending: 1,
    window: { activeActors: 1, leastServed: 3, mostServed: 3, served: [{ calls: 3, actors: 1 }] },
    sinks: [
      {
        ...{ breaker: BreakerState.OPEN, failures: 1, unknown: 1, oldestUnknownAge: { seconds: 0n } },
        openTime: microsToTimestamp(clock.now),
        tryTime: microsToTimestamp(clock.now + BREAKER_RESET),
      },
    ],
  });
  expect(actors).toMatchObject([
    { actor: 'harness:planner', minute: { ...minute, ordinaryLeft: 5_400 - 3 }, windowCalls: 3 },
  ]);
});

test('a minute and a window that are over count 0, what is not settled stays', async () => {
  await clock.move(BREAKER_RESET);
  const { status: shown, actors } = await status();
  expect(shown).toMatchObject({
    minute: { startTime: startOf(MINUTE), ordinary: 0, safety: 0, ordinaryLeft: 54_000 },
    pending: 1,
    window: { startTime: startOf(10n * SECOND), activeActors: 0, served: [] },
    sinks: [{ breaker: BreakerState.OPEN, unknown: 1, oldestUnknownAge: { seconds: 60n } }],
  });
  expect(actors).toMatchObject([
    { actor: 'harness:planner', minute: { ordinary: 0, safety: 0, ordinaryLeft: 5_400 }, windowCalls: 0 },
  ]);
});

test('the probe is named while it is in flight', async () => {
  const effect = await service.reserve();
  await service.call(
    'startExecution',
    executor,
    await startRequest(executor, effect, { evidence: { startTime: microsToTimestamp(clock.now) } }),
  );
  const { status: shown } = await status();
  expect(shown?.sinks).toMatchObject([
    { breaker: BreakerState.HALF_OPEN, probeEffectId: effect.effectId, failures: 1, unknown: 1 },
  ]);
  expect(shown?.pending).toBe(2);
});

test('what holds for an actor is shown, not more than follows from a small share', async () => {
  const share = (requests: number) =>
    service.world.admin.query('UPDATE domains SET requests_per_minute = $1 WHERE domain_id = $2', [
      requests,
      DOMAIN,
    ]);
  await share(200);
  const { status: shown, actors } = await status();
  expect(shown?.limits).toMatchObject({
    requestsPerMinute: 200,
    actorRequestsPerMinute: 100,
    fairnessBurst: 17,
  });
  const { ordinary = 0 } = actors[0]?.minute ?? {};
  expect(actors[0]?.minute?.ordinaryLeft).toBe(90 - ordinary);
  await share(DEFAULT_LIMITS.requestsPerMinute);
});

test('nonces of a caller are there while they are live, and how many there may be', async () => {
  const { consumeNonce } = handlersOf(ReplayService, replayService(service.tools));
  const consume = (nonce: string, expiresAt: bigint) => {
    const consumptionId = `consumption-of-${nonce}`;
    const expireTime = microsToTimestamp(expiresAt);
    return consumeNonce(
      create(ConsumeNonceRequestSchema, { scope: 'webhooks', nonce, consumptionId, expireTime }),
      contextOf(EXECUTOR_A, 'executor'),
    );
  };
  const live = async () => {
    const { status: shown, actors } = await status();
    expect(shown?.liveNonceCeiling).toBe(MAX_LIVE_NONCES);
    return actors.map(({ actor, liveNonces }) => [actor, liveNonces]);
  };
  const [harness, caller] = ['harness:planner', `caller:${EXECUTOR_A.spiffeId}`];
  for (const nonce of ['one', 'two']) await consume(nonce, clock.now + MINUTE);
  await consume('later', clock.now + 120n * MINUTE);
  const counted = await live();
  expect(counted).toContainEqual([caller, 3]);
  expect(counted).toContainEqual([harness, 0]);
  await clock.move(60n * MINUTE);
  expect(await live()).toContainEqual([caller, 1]);
  await clock.move(120n * MINUTE);
  expect(await live()).toContainEqual([caller, 0]);
});

test("the service's limit and what of it is given out are told in its own domain alone", async () => {
  const { service: shares } = (await status(ROOT, SERVICE_DOMAIN)).status ?? {};
  expect(shares).toMatchObject({ requestsPerMinute: 6_000_000, givenOut: 120_000n });
  expect((await status(ANNA)).status?.service).toBeUndefined();
});

test('is for operators of the domain, by their rows', async () => {
  expect(await refusalOf(status(ANNA, SERVICE_DOMAIN))).toMatchObject({ reason: 'NOT_VISIBLE' });
  const nobody: Peer = { caller: callerOf('spiffe://acme.test/operator/nobody'), kind: 'operator' };
  expect(await refusalOf(status(nobody))).toMatchObject({ reason: 'NOT_VISIBLE' });
});

import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  AdvanceRequestSchema,
  ClockService,
  NowRequestSchema,
} from '../../src/gen/surety/testing/v1/clock_service_pb.js';
import { timestampToMicros, type TimestampFields } from '../../src/identity/timestamp.js';
import { clockService, type ClockTools } from '../../src/rpc/clock-service.js';
import { ConnectionPool } from '../../src/store/connection-pool.js';
import { PgTestClock } from '../../src/store/test-clock.js';
import { callerOf, type EffectWorld, HARNESS, openWorld, type Replica } from '../support/effect-world.js';
import { contextOf, handlersOf, reasonOf, toolsOf } from '../support/handlers.js';

const OPERATOR = callerOf('spiffe://acme.test/operator/olaf');
const HOUR = 3_600_000_000n;

let world: EffectWorld;
let replica: Replica;
let pool: ConnectionPool;
let swept = 0;

beforeAll(async () => {
  world = await openWorld();
  replica = world.replica();
  pool = new ConnectionPool({ url: world.database.serviceUrl, applicationName: 'surety-test' }, 1);
  await world.seed('operators', [
    {
      spiffeId: OPERATOR.spiffeId,
      signingKeyJwk: null,
      signingKeyThumbprint: null,
      roles: ['ADMIN'],
      scopeDomainId: null,
      status: 'active',
      revision: 1n,
    },
  ]);
});

afterAll(async () => {
  await pool.close();
  await world.close();
});

const tools = (): ClockTools => ({
  clock: new PgTestClock(pool),
  sweepOnce: async () => {
    swept += 1;
  },
});
const clock = (test: ClockTools | undefined = tools()) =>
  handlersOf(ClockService, clockService(toolsOf(replica), test));
const operator = () => contextOf(OPERATOR, 'operator');
const now = (over = clock(), context = operator()) => over.now(create(NowRequestSchema), context);
const advance = (by: object | undefined, over = clock()) =>
  over.advance(create(AdvanceRequestSchema, by === undefined ? {} : { by }), operator());
const micros = ({ nowTime }: { nowTime?: unknown }) =>
  timestampToMicros(nowTime as TimestampFields) as bigint;

describe('ClockService (architecture.md, Time and faults in tests)', () => {
  test('moves the clock of every reader and answers after one round of the sweeps', async () => {
    const before = micros(await now());
    const after = micros(await advance({ seconds: 3600n, nanos: 0 }));
    expect(after - before).toBeGreaterThanOrEqual(HOUR);
    expect(swept).toBe(1);
    const set = await replica.reader.gather('acme.test', {});
    expect(set?.now).toBeGreaterThanOrEqual(after);
  });

  test('never backwards, never by nothing, at most by 366 days', async () => {
    for (const by of [
      undefined,
      { seconds: 0n, nanos: 0 },
      { seconds: -1n, nanos: 0 },
      { seconds: 31_622_401n, nanos: 0 },
    ]) {
      expect(await reasonOf(advance(by))).toBe('FIELD_INVALID');
    }
  });

  test('is not there without a test clock, nor on a database that is none for tests', async () => {
    const without = handlersOf(ClockService, clockService(toolsOf(replica), undefined));
    expect(await reasonOf(now(without))).toBe('TEST_CLOCK_ABSENT');
    expect(await reasonOf(advance({ seconds: 1n, nanos: 0 }, without))).toBe('TEST_CLOCK_ABSENT');
    await world.admin.query('UPDATE service_state SET clock_offset = 0, test_database = false');
    expect(await reasonOf(now())).toBe('TEST_CLOCK_ABSENT');
    expect(await reasonOf(advance({ seconds: 1n, nanos: 0 }))).toBe('TEST_CLOCK_ABSENT');
  });

  test('is for operators', async () => {
    expect(await reasonOf(now(clock(), contextOf(HARNESS, 'operator')))).toBe('NOT_VISIBLE');
  });
});

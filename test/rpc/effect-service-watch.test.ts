import { ADMITS_ALL } from '../support/admits-all.js';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import type { WatchEffectsResponse } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { Refused } from '../../src/ledger/run-decision.js';
import { PositionPoller } from '../../src/rpc/watch/position-poller.js';
import {
  callerOf,
  EXECUTOR_A,
  publish,
  RECONCILER,
  reservation,
  reserve,
  seedGrant,
} from '../support/effect-world.js';
import {
  acknowledgeRequest,
  type Peer,
  PLANNER,
  refusalOf,
  ServiceWorld,
  type Workload,
} from './effect-service-world.js';

const OPERATOR: Peer = { caller: callerOf('spiffe://acme.test/operator/olaf'), kind: 'operator' };

let service: ServiceWorld;
let executor: Workload;
const watches: Watch[] = [];

beforeAll(async () => {
  service = await ServiceWorld.open();
  await service.operator(OPERATOR);
  await service.world.seed('sinks', [
    {
      sink: 'mail',
      authoritySystems: ['mail-log'],
      sendWindow: 1_000_000n,
      settleTime: 0n,
      ...ADMITS_ALL,
      frozen: false,
      freezeReason: null,
      revision: 1n,
    },
  ]);
  executor = await service.workload(EXECUTOR_A, { sinks: ['bank', 'mail'] });
});
afterAll(() => service.close());
afterEach(() => {
  for (const watch of watches.splice(0)) watch.stop();
});

/** Where the log is: each test watches what it does itself. */
async function head(): Promise<bigint> {
  const { rows } = await service.world.admin.query<{ seq: string }>(
    `SELECT seq FROM domain_heads WHERE domain_id = 'acme.test'`,
  );
  return BigInt(rows[0]?.seq ?? 0);
}

/** A watch that takes what comes, until it is stopped. */
class Watch {
  readonly messages: WatchEffectsResponse[] = [];
  readonly #controller = new AbortController();
  readonly ended: Promise<unknown>;

  constructor(
    peer: Peer,
    request: { afterPosition?: bigint; outputSink?: string; registrationId?: string },
    positions = service.positions,
  ) {
    this.ended = this.#take(service.watch(peer, request, this.#controller.signal, positions)).then(
      () => 'end',
      (error: unknown) => (error instanceof Refused ? error.refusal : error),
    );
    watches.push(this);
  }

  async #take(stream: AsyncIterable<WatchEffectsResponse>): Promise<void> {
    for await (const message of stream) this.messages.push(message);
  }

  get steps() {
    return this.messages.flatMap(({ step }) => (step ? [step] : []));
  }

  /** What was told of an effect: the states that it entered. */
  statesOf(effectId: string): string[] {
    return this.steps.filter((step) => step.effectId === effectId).map((step) => EffectState[step.toState]);
  }

  /** Waits for its first message, which says where it stands. */
  async begun(): Promise<void> {
    for (let waited = 0; this.messages.length === 0 && waited < 60_000; waited += 20) await sleep(20);
    expect(this.messages.length).toBeGreaterThanOrEqual(1);
  }

  async until(count: number): Promise<void> {
    for (let waited = 0; this.steps.length < count && waited < 60_000; waited += 20) await sleep(20);
    expect(this.steps.length).toBeGreaterThanOrEqual(count);
  }

  stop(): void {
    this.#controller.abort();
  }
}

async function finish(effectId: string): Promise<void> {
  const started = await service.start(executor, await service.show(effectId));
  await service.call(
    'acknowledgeTerminal',
    executor,
    await acknowledgeRequest(executor, started, 'SUCCEEDED'),
  );
}

test('tells each step as it comes, and where the log is in between', async () => {
  const before = await service.reserve();
  const watch = new Watch(OPERATOR, {});
  await watch.until(1);
  const { effectId } = await service.reserve();
  await finish(effectId);
  await watch.until(4);
  expect(watch.messages[0]?.position).toBe(0n);
  expect(watch.messages[0]?.step).toBeUndefined();
  expect(watch.statesOf(before.effectId)).toEqual(['PREPARED']);
  expect(watch.statesOf(effectId)).toEqual(['PREPARED', 'EXECUTING', 'SUCCEEDED']);
  const { steps } = await service.call('getEffectHistory', PLANNER, { effectId });
  expect(watch.steps.filter((step) => step.effectId === effectId)).toEqual(steps);
  for (const { position, step } of watch.messages) if (step) expect(step.auditPosition).toBe(position);
});

test('two replicas write, a watcher comes back again and again: it has each step once, in the order of the log', async () => {
  const grant = await seedGrant(service.world);
  const other = service.world.replica();
  const start = await head();
  const events = await Promise.all(Array.from({ length: 60 }, () => publish(service.replica)));
  const writing = Promise.all(
    events.map(async (eventId, i) => {
      await sleep(i * 10);
      const outcome = await reserve(
        i % 2 ? other : service.replica,
        reservation(eventId, grant.grantId, { effectKey: eventId }),
      );
      if (!outcome.ok) throw new Error(outcome.refusal.reason);
    }),
  );
  const positions: bigint[] = [];
  while (positions.length < 60) {
    const watch = new Watch(OPERATOR, { afterPosition: positions.at(-1) ?? start });
    const wanted = Math.min(60 - positions.length, 7);
    await watch.until(wanted);
    watch.stop();
    await watch.ended;
    positions.push(...watch.steps.map((step) => step.auditPosition));
  }
  await writing;
  const { rows } = await service.world.admin.query<{ seq: string }>(
    `SELECT seq FROM audit_entries WHERE domain_id = 'acme.test' AND effect_id IS NOT NULL AND seq > $1 ORDER BY seq`,
    [start],
  );
  expect(positions).toEqual(rows.map(({ seq }) => BigInt(seq)));
});

test('only one sink, and the position moves on with the log all the same', async () => {
  const grant = await seedGrant(service.world, { outputSinks: ['bank', 'mail'] });
  const { grantId } = grant;
  const mail = new Watch(OPERATOR, { outputSink: 'mail', afterPosition: await head() });
  await service.reserve({ grantId });
  const sent = await service.reserve({ grantId, outputSink: 'mail' });
  await mail.until(1);
  expect(mail.steps.map((step) => step.effectId)).toEqual([sent.effectId]);
  expect(mail.messages.at(-1)?.position).toBe(sent.auditPosition);
});

describe('a reconciler', () => {
  test('has what is at the sinks of its system, and of a registration that came after it began', async () => {
    const { grantId } = await seedGrant(service.world, { outputSinks: ['bank', 'mail'] });
    const standing = await service.workload(RECONCILER, { sinks: ['mail', 'bank'] });
    const { registrationId } = standing.registration;
    const watch = new Watch(standing, { registrationId, afterPosition: await head() });
    const mailed = await service.reserve({ grantId, outputSink: 'mail' });
    const lost = await service.lose(executor, { grantId });
    await watch.until(3);
    expect(watch.statesOf(lost.effectId)).toEqual(['PREPARED', 'EXECUTING', 'UNKNOWN']);
    expect(watch.statesOf(mailed.effectId)).toEqual([]);

    // Bound to one event and grant; the next is for another, made while the watch is under way.
    await service.tamper(`UPDATE registrations SET status = 'revoked' WHERE registration_id = $1`, [
      registrationId,
    ]);
    const bound = { sinks: [], grantId };
    const first = await service.workload(RECONCILER, { ...bound, parentEventId: lost.eventId });
    const { steps } = watch;
    const later = new Watch(first, { afterPosition: steps.at(-1)?.auditPosition ?? 0n });
    await later.begun();
    const eventId = await publish(service.replica);
    await service.workload(RECONCILER, { ...bound, parentEventId: eventId });
    const another = await service.reserve({ grantId, eventId });
    await service.reserve({ grantId });
    await later.until(1);
    await sleep(100);
    expect(later.steps.map((step) => step.effectId)).toEqual([another.effectId]);
  });

  test('whose registration is revoked hears why with the next step, and nothing of it', async () => {
    const reconciler = await service.workload(RECONCILER);
    const { registrationId } = reconciler.registration;
    const watch = new Watch(reconciler, { registrationId, afterPosition: await head() });
    await service.reserve();
    await watch.until(1);
    await service.tamper(`UPDATE registrations SET status = 'revoked' WHERE registration_id = $1`, [
      registrationId,
    ]);
    await service.reserve();
    expect(await watch.ended).toMatchObject({ reason: 'WORKLOAD_NOT_CURRENT', metadata: { rule: 'status' } });
    expect(watch.steps).toHaveLength(1);
  });
});

test('an operator who is none any more is told so within seconds, though nothing happens', async () => {
  const watch = new Watch(OPERATOR, { afterPosition: await head() });
  await watch.begun();
  const set = 'UPDATE operators SET status = $1 WHERE spiffe_id = $2';
  await service.tamper(set, ['revoked', OPERATOR.caller.spiffeId]);
  expect(await watch.ended).toMatchObject({ reason: 'NOT_VISIBLE' });
  await service.tamper(set, ['active', OPERATOR.caller.spiffeId]);
});

test('who may not watch is refused before anything is told', async () => {
  const stranger: Peer = { caller: callerOf('spiffe://globex.test/operator/gina'), kind: 'operator' };
  const watch = new Watch(stranger, {});
  expect(await watch.ended).toMatchObject({ reason: 'NOT_VISIBLE' });
  expect(watch.messages).toEqual([]);
  const wild = new Watch(OPERATOR, {
    afterPosition: -1n,
    outputSink: 's\n',
    registrationId: 'r'.repeat(257),
  });
  expect(await wild.ended).toMatchObject({
    violations: [{ field: 'after_position' }, { field: 'output_sink' }, { field: 'registration_id' }],
  });
});

test('a drain ends it with where to go on from', async () => {
  const afterPosition = await head();
  const { auditPosition } = await service.reserve();
  const positions = new PositionPoller(service.replica.reader, 10);
  const watch = new Watch(OPERATOR, { afterPosition }, positions);
  await watch.until(1);
  positions.close();
  expect(await watch.ended).toMatchObject({ reason: 'DRAINING' });
  expect(watch.messages.at(-1)?.position).toBe(auditPosition);
});

test.each([
  [
    'an entry is changed',
    `UPDATE audit_entries SET entry = decode(replace(encode(entry, 'hex'), encode('planner', 'hex'),
       encode('plannex', 'hex')), 'hex') WHERE effect_id = $1`,
    /^audit_entry\/acme\.test\/\d+$/,
  ],
  ['an effect is removed', 'DELETE FROM effects WHERE effect_id = $1', /^effect\/eff_/],
])(
  'where %s it is named when what stands before was told, and nothing passed over',
  async (_, sql, record) => {
    const afterPosition = await head();
    const good = [await service.reserve(), await service.reserve()];
    const { effectId, auditPosition } = await service.reserve();
    const behind = await service.reserve();
    await service.tamper(sql, [effectId]);
    const watch = new Watch(OPERATOR, { afterPosition });
    const refused = await refusalOf(watch.ended.then((end) => Promise.reject(new Refused(end as never))));
    expect(refused.reason).toBe('DATA_CORRUPT');
    expect(refused.metadata?.['record']).toMatch(record);
    expect(refused.metadata?.['position']).toBe(String(auditPosition));
    expect(watch.steps.map((step) => step.effectId)).toEqual(good.map((reserved) => reserved.effectId));
    // Who has looked into it goes on behind it.
    const resumed = new Watch(OPERATOR, { afterPosition: BigInt(refused.metadata?.['position'] ?? 0) });
    await resumed.until(1);
    expect(resumed.steps.map((step) => step.effectId)).toEqual([behind.effectId]);
  },
);

test('a reader that takes nothing costs one page, however much is written meanwhile', async () => {
  const grant = await seedGrant(service.world);
  const controller = new AbortController();
  const stream = service.watch(OPERATOR, { afterPosition: await head() }, controller.signal);
  const first = await stream.next();
  expect(first.value?.step).toBeUndefined();
  const events = await Promise.all(Array.from({ length: 300 }, () => publish(service.replica)));
  await Promise.all(
    events.map((eventId) =>
      reserve(service.replica, reservation(eventId, grant.grantId, { effectKey: eventId })),
    ),
  );
  expect(service.positions.waiting).toBe(0);
  let last = 0n;
  for (let taken = 0; taken < 300; taken += 1) {
    const { value } = await stream.next();
    if (!value?.step) throw new Error('no step');
    expect(value.position).toBeGreaterThan(last);
    last = value.position;
  }
  controller.abort();
  await stream.return(undefined);
});

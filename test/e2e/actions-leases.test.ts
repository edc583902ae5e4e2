import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Held, WorkerSession } from '../../src/cli/client/worker-session.js';
import { digest } from '../../src/cli/client/workload-session.js';
import { ActionState, FailureReason } from '../../src/gen/surety/action/v1/action_pb.js';
import { ActionService } from '../../src/gen/surety/action/v1/action_service_pb.js';
import { ActionEventKind } from '../../src/gen/surety/action/v1/event_pb.js';
import {
  ActionParties,
  EXECUTION,
  OWNER,
  receipt,
  registerWorker,
  WORKER,
} from '../support/action-parties.js';
import { ACME, type E2eWorld, HARNESS, openE2eWorld, OPERATOR, refusedWith } from '../support/e2e-world.js';
import type { ServiceProcess } from '../support/service-process.js';

// actions.md, I3, I6, I7 and "Repeating a call whose answer was lost", with two replicas and the store's clock moved.

let world: E2eWorld;
let parties: ActionParties;
let replica: ServiceProcess;
let elsewhere: WorkerSession;
beforeAll(async () => {
  world = await openE2eWorld();
  [parties, replica] = await Promise.all([ActionParties.join(world), world.startReplica()]);
  elsewhere = await registerWorker(world, replica);
}, 60_000);
afterAll(() => world.close());

const show = async (actionId: string) => {
  const { action } = await world
    .channel(OPERATOR)
    .service(ActionService)
    .getAction({ actionId, domainId: ACME });
  return action;
};

describe('two replicas', () => {
  test('give each action of a scope to one of many workers', async () => {
    const source = `many-${randomUUID()}`;
    const ready = await Promise.all(Array.from({ length: 12 }, () => parties.gated({ source })));
    const scope = { sourceScope: { case: 'source' as const, value: source } };
    const taken = await Promise.all(
      Array.from({ length: 16 }, (_, i) => (i % 2 === 0 ? parties.worker : elsewhere).leaseNext({ scope })),
    );
    const ids = taken.flatMap((held) => (held ? [held.action.actionId] : []));
    expect(ids.toSorted()).toEqual(ready.map(({ action }) => action.actionId).toSorted());
    expect(new Set(taken.flatMap((held) => (held ? [held.lease.leaseToken] : []))).size).toBe(12);
  });

  test('repeat a lease and an observation by their request ids, whichever is asked', async () => {
    const { held } = await parties.dispatched();
    const request = {
      requestId: `observation-${randomUUID()}`,
      actionId: held.action.actionId,
      leaseToken: held.lease.leaseToken,
      executionDigest: EXECUTION,
    };
    const first = await parties.worker.actions.beginObservation(request);
    const again = await elsewhere.actions.beginObservation(request);
    expect([first.observationNumber, again.observationNumber, again.duplicate]).toEqual([1, 1, true]);
    expect(again.observation).toEqual(first.observation);
  });
});

describe('a lease that ran out', () => {
  test('leaves its holder nothing, and a DISPATCHED action only to observe', async () => {
    const { held } = await parties.dispatched({}, 10_000);
    const { actionId } = held.action;
    await world.advance(11_000);
    const late = await Promise.all(
      [
        parties.worker.beginObservation(held),
        parties.worker.deferObservation(held, 0, 1_000),
        parties.worker.accept(held, receipt('late')),
        parties.worker.fail(held, { detail: 'late' }),
      ].map(refusedWith),
    );
    // The sweep has taken it back: whoever moves the clock sweeps.
    const lost = { code: 'ABORTED', reason: 'LEASE_LOST', metadata: { rule: 'absent' } };
    for (const refused of late) expect(refused).toMatchObject(lost);
    const scope = { actionIds: [actionId] };
    expect(await elsewhere.leaseNext({ scope })).toBeUndefined();
    const observed = (await elsewhere.leaseObservation({ scope })) as Held;
    expect(observed.lease.leaseToken).toBeGreaterThan(held.lease.leaseToken);
    // The one that lost it has a token that is not the one, even where the holder is the same.
    expect(await refusedWith(parties.worker.accept(held, receipt('late')))).toMatchObject({
      reason: 'LEASE_LOST',
      metadata: { rule: 'token' },
    });
    const { observationNumber } = await elsewhere.beginObservation(observed);
    const deferred = await elsewhere.deferObservation(observed, observationNumber, 60_000);
    expect([deferred.state, deferred.lease]).toEqual([ActionState.DISPATCHED, undefined]);
    expect(await elsewhere.leaseObservation({ scope })).toBeUndefined();
    await world.advance(61_000);
    const again = (await parties.worker.leaseObservation({ scope })) as Held;
    const accepted = await parties.worker.accept(again, receipt('found', 'provider', 'found'));
    expect(accepted.action?.state).toBe(ActionState.ACCEPTED);
  });

  test('is settled as ambiguous when the observation window is over, and never handed out again', async () => {
    const { held } = await parties.dispatched({}, 10_000);
    const { actionId } = held.action;
    await world.advance(601_000);
    const answer = await elsewhere.actions.leaseObservation({
      requestId: `observe-${randomUUID()}`,
      registrationId: elsewhere.registration.registrationId,
      scope: { actionIds: [actionId] },
      leaseDuration: { seconds: 60n, nanos: 0 },
    });
    expect(answer.action).toBeUndefined();
    const ended = await show(actionId);
    expect(ended).toMatchObject({
      state: ActionState.FAILED,
      failureReason: FailureReason.OBSERVATION_DEADLINE,
      attemptCount: 1,
    });
  });

  test('is kept by exact repeats: what was done under it is answered as done', async () => {
    const { held } = await parties.dispatched({}, 10_000);
    const first = await parties.worker.accept(held, receipt('accepted'));
    await world.advance(11_000);
    const again = await parties.worker.accept(held, receipt('accepted'));
    expect([first.duplicate, again.duplicate]).toEqual([false, true]);
    expect(await refusedWith(parties.worker.accept(held, receipt('another')))).toMatchObject({
      reason: expect.stringMatching(/^(LEASE_LOST|ACTION_STATE_CONFLICT)$/),
    });
  });
});

describe('time', () => {
  test('ends an approval inside of the lease', async () => {
    const { actionId } = await parties.propose();
    const request = await parties.owner.approval(await parties.owner.look(actionId), {
      validForMs: 30_000,
      decidedAtMs: await world.now(),
      fields: {
        channel: 'c',
        thread: 't',
        event: 'e',
        event_key: 'k',
        delivery: 'd',
        delivery_message: 'm',
        binding_method: 'r',
      },
    });
    await world.channel(OWNER).service(ActionService).gateAction(request);
    const held = (await parties.worker.leaseNext({
      scope: { actionIds: [actionId] },
      leaseMs: 120_000,
    })) as Held;
    await world.advance(31_000);
    const gate = {
      gateReceiptKey: request.receiptKey ?? '',
      approvalId: request.approvalId ?? '',
      decisionId: request.decisionId ?? '',
    };
    expect(await refusedWith(parties.dispatch(held, gate))).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'APPROVAL_EXPIRED',
      metadata: { rule: 'expires_at' },
    });
    expect((await show(actionId))?.state).toBe(ActionState.GATED);
  });

  test('keeps a deferred action back until it has come', async () => {
    const { held } = await parties.leased();
    const scope = { actionIds: [held.action.actionId] };
    const deferred = await parties.worker.defer(held, 30_000);
    expect(deferred.lease).toBeUndefined();
    expect(await parties.worker.leaseNext({ scope })).toBeUndefined();
    await world.advance(31_000);
    expect((await parties.worker.leaseNext({ scope }))?.action.actionId).toBe(held.action.actionId);
  });
});

describe('a worker', () => {
  test('whose registration was revoked holds nothing any more, on any replica', async () => {
    const { held } = await parties.leased();
    const { registrationId } = elsewhere.registration;
    await world.admin.execute(ACME, { case: 'revokeWorkload', value: { registrationId } });
    const request = {
      requestId: `revoked-${randomUUID()}`,
      registrationId,
      leaseDuration: { seconds: 60n, nanos: 0 },
    };
    for (const actions of [parties.worker.actions, elsewhere.actions]) {
      expect(await refusedWith(actions.leaseNext(request))).toMatchObject({
        code: 'UNAUTHENTICATED',
        reason: 'WORKLOAD_NOT_CURRENT',
        metadata: { rule: 'status' },
      });
    }
    // The other registration of the same SPIFFE ID is in force.
    expect((await parties.worker.defer(held, 1_000)).state).toBe(ActionState.GATED);
    await world.admin.execute(ACME, { case: 'bumpRevocationEpoch', value: {} });
    const next = world
      .channel(WORKER)
      .service(ActionService)
      .leaseNext({ ...request, registrationId: '' });
    expect(await refusedWith(next)).toMatchObject({ reason: 'WORKLOAD_NOT_CURRENT' });
    const worker = await registerWorker(world);
    expect(await worker.leaseNext({ scope: { actionIds: ['act_absent'] } })).toBeUndefined();
  });

  test('that nobody registered, and a harness, lease nothing', async () => {
    const request = { requestId: randomUUID(), leaseDuration: { seconds: 60n, nanos: 0 } };
    const asHarness = world.channel(HARNESS).service(ActionService).leaseNext(request);
    expect(await refusedWith(asHarness)).toMatchObject({
      code: 'PERMISSION_DENIED',
      reason: 'METHOD_NOT_ALLOWED',
    });
  });
});

test('a watcher on the other replica hears each event once, and where the log is', async () => {
  const worker = await registerWorker(world);
  const { gate, action } = await parties.gated();
  const { actionId } = action;
  const watcher = world.channel(OWNER, replica).service(ActionService);
  const controller = new AbortController();
  const stream = watcher.watchActions({ domainId: ACME, actionId }, { signal: controller.signal });
  const held = (await worker.leaseNext({ scope: { actionIds: [actionId] } })) as Held;
  await parties.dispatch(held, gate, worker);
  const mine = { ...held, action: (await show(actionId)) as Held['action'] };
  await worker.accept(mine, receipt('accepted'));
  await worker.verify(mine, ['accepted']);
  await worker.complete(mine, digest('done'));
  const told: string[] = [];
  for await (const { event } of stream) {
    if (event) told.push(ActionEventKind[event.kind]);
    if (event?.kind === ActionEventKind.COMPLETED) break;
  }
  controller.abort();
  expect(told).toEqual(['PROPOSED', 'GATED', 'LEASED', 'DISPATCHED', 'ACCEPTED', 'VERIFIED', 'COMPLETED']);
});

import { randomUUID } from 'node:crypto';
import { durationFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import type { Held, WorkerSession } from '../../src/cli/client/worker-session.js';
import { ActionState } from '../../src/gen/surety/action/v1/action_pb.js';
import {
  EXECUTION,
  type GateOfAction,
  type Leased,
  LONG_MS,
  type NamedCalls,
  PAST_SHORT_MS,
  receipt,
  SHORT_MS,
} from '../action-samples.js';
import type { ActionWorld } from '../action-world.js';
import type { Case } from '../case.js';
import { expectRefused, expectSame, expectThat, expectThere, Unmet } from '../expect.js';

/** What the holder of an action in a state can do with it. */
function callsIn(
  state: 'gated' | 'dispatched' | 'accepted',
  world: ActionWorld,
  worker: WorkerSession,
  held: Held,
  gate: GateOfAction,
): NamedCalls {
  // Whoever tries knows the digest of the dispatch, also where there was none yet.
  const known = { ...held, action: { ...held.action, executionDigest: EXECUTION } };
  const always: NamedCalls = [
    ['GetDispatchView', () => worker.view(held)],
    ['FailAction', () => worker.fail(held, { detail: 'not mine' })],
  ];
  const deferred: NamedCalls[number] = ['DeferLeased', () => worker.defer(held, 1_000)];
  const own: Readonly<Record<typeof state, NamedCalls>> = {
    gated: [['BeginDispatch', () => world.dispatch(held, gate, {}, worker)], deferred],
    dispatched: [
      ['BeginObservation', () => worker.beginObservation(known)],
      ['DeferObservation', () => worker.deferObservation(known, 0, 1_000)],
      ['AcceptAction', () => worker.accept(held, receipt('stolen'))],
    ],
    accepted: [['VerifyAction', () => worker.verify(held, ['accepted'])], deferred],
  };
  return [...own[state], ...always];
}

const STATES_AT_WORK = [
  ['gated', (world: ActionWorld) => world.leased({}, {}, SHORT_MS)],
  ['dispatched', (world: ActionWorld) => world.dispatched({}, SHORT_MS)],
  ['accepted', (world: ActionWorld) => world.accepted(SHORT_MS)],
] as const;

/** Takes the lease of an action that was released. */
async function nextLease(world: ActionWorld, { action }: Leased, worker: WorkerSession): Promise<Held> {
  const scope = { actionIds: [action.actionId] };
  const { state } = await world.look(action);
  const held =
    state === ActionState.DISPATCHED
      ? await worker.leaseObservation({ scope, leaseMs: LONG_MS })
      : await worker.leaseNext({ scope, leaseMs: LONG_MS });
  return expectThere("the next holder's lease", held);
}

/** I3: single-writer leases. */
export const LEASE_CASES: readonly Case<ActionWorld>[] = [
  ...STATES_AT_WORK.map(
    ([state, reach]): Case<ActionWorld> => ({
      id: `lease.stale-holder.${state}`,
      rule: 'I3',
      title: `A holder whose lease ran out can do nothing with an action that is ${state}, also when another holds it.`,
      alone: true,
      run: async (world) => {
        const leased = await reach(world);
        const { action, gate } = leased;
        const stale = leased.held;
        await world.advance(PAST_SHORT_MS);
        await world.allRefused(action, callsIn(state, world, world.worker, stale, gate), 'LEASE_LOST');
        const next = await nextLease(world, leased, world.courier);
        expectThat(next.lease.leaseToken > stale.lease.leaseToken, 'the next token is greater');
        const forged = { action: stale.action, lease: next.lease };
        for (const lease of [stale, forged]) {
          await world.allRefused(action, callsIn(state, world, world.worker, lease, gate), 'LEASE_LOST');
        }
        expectSame('the holder', (await world.look(action)).lease?.holderSpiffeId, world.names.courier);
      },
    }),
  ),
  {
    id: 'lease.own-old-token',
    rule: 'I3',
    title: 'A worker that leases an action again does nothing with the token of before.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      await world.worker.defer(held, 1);
      const again = await leaseWhenReady(world, action.actionId);
      expectThat(again.lease.leaseToken > held.lease.leaseToken, 'the next token is greater');
      await world.allRefused(action, callsIn('gated', world, world.worker, held, gate), 'LEASE_LOST');
    },
  },
  {
    id: 'lease.stranger',
    rule: 'I3, RPCs',
    title: 'A worker that never held an action does nothing with another’s lease and does not see it.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const { actionId } = action;
      const all = (what: Held) =>
        (['gated', 'dispatched', 'accepted'] as const).flatMap((state) =>
          callsIn(state, world, world.courier, what, gate),
        );
      await world.allRefused(action, all(held), 'NOT_VISIBLE');
      await expectRefused('GetAction', world.actions('courier').getAction({ actionId }), 'NOT_VISIBLE');
      const absent = { ...held, action: { ...held.action, actionId: `absent-${randomUUID()}` } };
      for (const [name, call] of all(absent)) {
        await expectRefused(`${name} of what is not there`, call(), 'NOT_VISIBLE');
      }
    },
  },
  {
    id: 'lease.once',
    rule: 'I3',
    title: 'What is leased is handed out to nobody else, however many ask at once.',
    run: async (world) => {
      const { action } = await world.gated();
      const scope = { actionIds: [action.actionId] };
      const asked = Array.from({ length: 8 }, (_, i) =>
        (i % 2 === 0 ? world.worker : world.courier).leaseNext({ scope, leaseMs: LONG_MS }),
      );
      const held = (await Promise.all(asked)).filter((each) => each !== undefined);
      expectSame('leases', held.length, 1);
    },
  },
  {
    id: 'lease.is-the-callers',
    rule: 'I3',
    title:
      'The holder of a lease is the authenticated caller, and its end is counted from the store’s clock.',
    run: async (world) => {
      const { held } = await world.leased();
      const { holderSpiffeId, registrationId, leaseTime, expireTime } = held.lease;
      expectSame('holder', holderSpiffeId, world.names.worker);
      expectSame('registration', registrationId, world.worker.registration.registrationId);
      const [from, to] = [expectThere('lease_time', leaseTime), expectThere('expire_time', expireTime)];
      expectSame('duration in ms', timestampMs(to) - timestampMs(from), LONG_MS);
    },
  },
  {
    id: 'lease.bounds',
    rule: 'LeaseNext',
    title: 'A lease lasts a second to an hour; others are refused.',
    run: async (world) => {
      const scope = { actionIds: [`absent-${randomUUID()}`] };
      for (const leaseMs of [999, 3_600_001]) {
        await expectRefused(`${leaseMs} ms`, world.worker.leaseNext({ scope, leaseMs }), 'FIELD_INVALID');
        await expectRefused(
          `${leaseMs} ms to observe`,
          world.worker.leaseObservation({ scope, leaseMs }),
          'FIELD_INVALID',
        );
      }
      for (const leaseMs of [1_000, 3_600_000]) {
        expectSame('nothing ready', await world.worker.leaseNext({ scope, leaseMs }), undefined);
      }
    },
  },
  {
    id: 'lease.states',
    rule: 'LeaseNext, I6',
    title: 'LeaseNext takes GATED, ACCEPTED and VERIFIED and refuses to be asked for anything else.',
    run: async (world) => {
      const { PROPOSED, DISPATCHED, COMPLETED, FAILED } = ActionState;
      for (const state of [PROPOSED, DISPATCHED, COMPLETED, FAILED]) {
        const call = world.worker.leaseNext({ states: [state] });
        await expectRefused(ActionState[state], call, 'FIELD_INVALID');
      }
    },
  },
  {
    id: 'lease.scope',
    rule: 'LeaseNext',
    title: 'A scope narrows by exact source, by prefix, by type and by id.',
    run: async (world) => {
      const source = `scope-${randomUUID()}`;
      const { action } = await world.gated({ source, type: 'scoped.type' });
      const { actionId } = action;
      const exact = (value: string) => ({ sourceScope: { case: 'source', value } }) as const;
      const prefix = (value: string) => ({ sourceScope: { case: 'sourcePrefix', value } }) as const;
      const misses = [
        exact(source.slice(0, -1)),
        prefix(`${source}-more`),
        { ...exact(source), types: ['another.type'] },
        { ...exact(source), actionIds: ['another'] },
      ];
      for (const scope of misses) {
        expectSame('out of scope', (await world.worker.leaseNext({ scope }))?.action.actionId, undefined);
      }
      const hits = [
        exact(source),
        prefix(source.slice(0, -1)),
        { ...exact(source), types: ['scoped.type'] },
        { actionIds: [actionId] },
      ];
      for (const scope of hits) {
        const held = await readyIn(world, scope);
        expectSame('in scope', held.action.actionId, actionId);
        await world.worker.defer(held, 1);
      }
    },
  },
  {
    id: 'lease.order',
    rule: 'LeaseNext',
    title: 'What was proposed first is handed out first.',
    run: async (world) => {
      const source = `order-${randomUUID()}`;
      const proposed: string[] = [];
      for (let i = 0; i < 3; i += 1) proposed.push((await world.gated({ source })).action.actionId);
      const leased: string[] = [];
      const scope = { sourceScope: { case: 'source', value: source } } as const;
      for (let i = 0; i < 3; i += 1) leased.push((await readyIn(world, scope)).action.actionId);
      expectSame('order', leased, proposed);
    },
  },
  {
    id: 'lease.deferred',
    rule: 'DeferLeased, I11',
    title: 'What was let go with a delay is handed out when the store’s clock has reached it, not before.',
    alone: true,
    run: async (world) => {
      const { action, held } = await world.leased();
      const scope = { actionIds: [action.actionId] };
      const deferred = await world.worker.defer(held, SHORT_MS);
      expectSame('lease', deferred.lease, undefined);
      expectSame('too early', await world.courier.leaseNext({ scope }), undefined);
      await world.advance(PAST_SHORT_MS);
      expectThere('a lease when it is ready', await world.courier.leaseNext({ scope }));
    },
  },
  {
    id: 'lease.delays',
    rule: 'DeferLeased',
    title: 'A delay is more than nothing and a day at most.',
    run: async (world) => {
      const { action, held } = await world.leased();
      for (const delayMs of [0, 86_400_001]) {
        const call = () => world.worker.defer(held, delayMs);
        await world.refusedWithoutTrace(`${delayMs} ms`, action, call, 'FIELD_INVALID');
      }
    },
  },
  {
    id: 'lease.proposed',
    rule: 'LeaseNext',
    title: 'What nobody approved is handed out to nobody.',
    run: async (world) => {
      const { actionId } = await world.propose();
      const scope = { actionIds: [actionId] };
      expectSame('LeaseNext', await world.worker.leaseNext({ scope }), undefined);
      expectSame('LeaseObservation', await world.worker.leaseObservation({ scope }), undefined);
    },
  },
  {
    id: 'lease.reap-spares-the-living',
    rule: 'ReapLeases',
    title: 'Reaping takes no lease that is still good, and ends nothing that can still be observed.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const waiting = await world.dispatched();
      await world.worker.deferObservation(waiting.held, 0, 1_000);
      const reaped = await world.actions('operator').reapLeases({
        domainId: world.domainId,
        actionIds: [action.actionId, waiting.action.actionId],
      });
      expectSame('released and ended', [reaped.released, reaped.ended], [0, 0]);
      await world.dispatch(held, gate);
    },
  },
  {
    id: 'lease.request-id-of-another-request',
    rule: 'Repeating a call',
    title: 'A request id that is used again for something else is a conflict.',
    run: async (world) => {
      const { action } = await world.gated();
      const request = {
        requestId: randomUUID(),
        scope: { actionIds: [action.actionId] },
        leaseDuration: durationFromMs(LONG_MS),
        registrationId: world.worker.registration.registrationId,
      };
      await world.worker.actions.leaseNext(request);
      const other = { ...request, leaseDuration: durationFromMs(SHORT_MS) };
      const call = () => world.worker.actions.leaseNext(other);
      await world.refusedWithoutTrace('the other request', action, call, 'REQUEST_ID_CONFLICT');
    },
  },
];

/** A delay of a millisecond is over when the store's clock says so: asks until it is, a few times at most. */
async function readyIn(
  world: ActionWorld,
  scope: NonNullable<Parameters<WorkerSession['leaseNext']>[0]>['scope'],
): Promise<Held> {
  for (let asked = 0; asked < 20; asked += 1) {
    const held = await world.worker.leaseNext({ ...(scope && { scope }), leaseMs: LONG_MS });
    if (held) return held;
  }
  throw new Unmet('a lease: is not there');
}

function leaseWhenReady(world: ActionWorld, actionId: string): Promise<Held> {
  return readyIn(world, { actionIds: [actionId] });
}

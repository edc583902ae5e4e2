import { randomUUID } from 'node:crypto';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { digest } from '../../src/cli/client/workload-session.js';
import { type Action, ActionState } from '../../src/gen/surety/action/v1/action_pb.js';
import { EXECUTION, type Leased, LONG_MS, receipt } from '../action-samples.js';
import type { ActionWorld } from '../action-world.js';
import type { Case } from '../case.js';
import { expectSame, expectThere } from '../expect.js';

interface Answer {
  readonly duplicate: boolean;
  readonly action?: Action | undefined;
}

/** A call that is made twice, exactly alike: the second answer is a duplicate and changes nothing. */
async function expectDuplicate(
  world: ActionWorld,
  what: string,
  actionId: string,
  call: () => Promise<Answer>,
): Promise<void> {
  expectSame(`${what} the first time`, (await call()).duplicate, false);
  const before = await world.look({ actionId });
  const again = await call();
  expectSame(`${what} again`, again.duplicate, true);
  if (again.action) expectSame(`${what}: the action that is answered`, again.action.actionId, actionId);
  const after = await world.look({ actionId });
  expectSame(`${what}: event_count behind the repeat`, after.eventCount, before.eventCount);
}

/** The steps of a leaseholder that have one event each, as a request that is sent exactly so twice. */
const STEPS: readonly (readonly [
  method: string,
  reach: (world: ActionWorld) => Promise<Leased>,
  call: (world: ActionWorld, named: { actionId: string; leaseToken: bigint }) => Promise<Answer>,
])[] = [
  [
    'DeferLeased',
    (world) => world.leased(),
    (world, named) => world.worker.actions.deferLeased({ ...named, delay: durationFromMs(LONG_MS) }),
  ],
  [
    'DeferObservation',
    (world) => world.dispatched(),
    (world, named) => {
      const rest = { executionDigest: EXECUTION, observationNumber: 0, delay: durationFromMs(LONG_MS) };
      return world.worker.actions.deferObservation({ ...named, ...rest });
    },
  ],
  [
    'AcceptAction',
    (world) => world.dispatched(),
    (world, named) => world.worker.actions.acceptAction({ ...named, receipt: receipt('accepted') }),
  ],
  [
    'VerifyAction',
    (world) => world.accepted(),
    (world, named) => {
      const rest = { witnessReceiptKeys: ['accepted'], receipt: receipt('checked') };
      return world.worker.actions.verifyAction({ ...named, ...rest });
    },
  ],
  [
    'CompleteAction',
    (world) => world.verified(),
    (world, named) => world.worker.actions.completeAction({ ...named, resultDigest: digest('done') }),
  ],
  [
    'FailAction',
    (world) => world.leased(),
    (world, named) => world.worker.actions.failAction({ ...named, detail: 'it broke', retryable: true }),
  ],
];

/** Repeating a call whose answer was lost. BeginDispatch, BeginObservation, ProposeAction and AddReceipt are elsewhere. */
export const REPEAT_CASES: readonly Case<ActionWorld>[] = [
  ...STEPS.map(
    ([method, reach, call]): Case<ActionWorld> => ({
      id: `repeat.${method}`,
      rule: 'Repeating a call',
      title: `${method}, repeated exactly, answers duplicate and changes nothing.`,
      run: async (world) => {
        const { action, held } = await reach(world);
        const { actionId } = action;
        const named = { actionId, leaseToken: held.lease.leaseToken };
        await expectDuplicate(world, method, actionId, () => call(world, named));
      },
    }),
  ),
  {
    id: 'repeat.after-the-lease-went',
    rule: 'Repeating a call',
    title: 'The steps of a completed action, repeated exactly, answer duplicate also after the lease went.',
    run: async (world) => {
      const { action, held } = await world.dispatched();
      const named = { actionId: action.actionId, leaseToken: held.lease.leaseToken };
      const { actions } = world.worker;
      const calls = [
        () => actions.acceptAction({ ...named, receipt: receipt('accepted') }),
        () => actions.verifyAction({ ...named, witnessReceiptKeys: ['accepted'] }),
        () => actions.completeAction({ ...named, resultDigest: digest('done') }),
      ];
      for (const call of calls) expectSame('the first time', (await call()).duplicate, false);
      for (const call of calls) {
        const again = await call();
        expectSame('again', again.duplicate, true);
        expectSame('state', again.action?.state, ActionState.COMPLETED);
      }
    },
  },
  {
    id: 'repeat.GateAction',
    rule: 'Repeating a call',
    title: 'GateAction, repeated exactly, answers the stored receipt, also behind the dispatch.',
    run: async (world) => {
      const action = await world.propose();
      const request = await world.approval(action);
      const { actionId } = action;
      await expectDuplicate(world, 'GateAction', actionId, () => world.actions('owner').gateAction(request));
      const held = await world.lease(action);
      const { receiptKey = '', approvalId = '', decisionId = '' } = request;
      await world.dispatch(held, { gateReceiptKey: receiptKey, approvalId, decisionId });
      const late = await world.actions('owner').gateAction(request);
      expectSame('duplicate behind the dispatch', late.duplicate, true);
      expectSame('evidence', late.receipt?.evidence, request.evidence);
    },
  },
  {
    id: 'repeat.RejectAction',
    rule: 'Repeating a call',
    title: 'RejectAction, repeated exactly, answers duplicate.',
    run: async (world) => {
      const action = await world.propose();
      const request = await world.rejection(action);
      const call = () => world.actions('owner').rejectAction(request);
      await expectDuplicate(world, 'RejectAction', action.actionId, call);
    },
  },
  {
    id: 'repeat.LeaseNext',
    rule: 'Repeating a call',
    title:
      'LeaseNext with the same request id answers the lease that the first call gave, also where it has ended.',
    run: async (world) => {
      const { action } = await world.gated();
      const request = {
        requestId: randomUUID(),
        scope: { actionIds: [action.actionId] },
        leaseDuration: durationFromMs(LONG_MS),
        registrationId: world.worker.registration.registrationId,
      };
      const call = () => world.worker.actions.leaseNext(request);
      await expectDuplicate(world, 'LeaseNext', action.actionId, call);
      const { lease } = await call();
      const held = { action, lease: expectThere('the lease', lease) };
      await world.worker.defer(held, LONG_MS);
      const late = await call();
      expectSame('duplicate behind its end', late.duplicate, true);
      expectSame('token', late.lease?.leaseToken, held.lease.leaseToken);
      expectSame('the lease of the action', (await world.look(action)).lease, undefined);
    },
  },
  {
    id: 'repeat.LeaseObservation',
    rule: 'Repeating a call',
    title: 'LeaseObservation with the same request id answers the lease that the first call gave.',
    run: async (world) => {
      const { action, held } = await world.dispatched();
      await world.worker.deferObservation(held, 0, 1);
      const request = () => ({
        requestId: randomUUID(),
        scope: { actionIds: [action.actionId] },
        leaseDuration: durationFromMs(LONG_MS),
        registrationId: world.worker.registration.registrationId,
      });
      // Nothing was ready yet where the delay is not over: such a request is decided anew, and so is the next one.
      let sent = request();
      let first = await world.worker.actions.leaseObservation(sent);
      for (let asked = 0; asked < 20 && !first.lease; asked += 1) {
        sent = request();
        first = await world.worker.actions.leaseObservation(sent);
      }
      const token = expectThere('the lease', first.lease).leaseToken;
      const again = await world.worker.actions.leaseObservation(sent);
      expectSame('duplicate', [first.duplicate, again.duplicate], [false, true]);
      expectSame('token', again.lease?.leaseToken, token);
    },
  },
  {
    id: 'repeat.RevokeBoundedGrant',
    rule: 'Repeating a call',
    title: 'RevokeBoundedGrant, repeated, answers duplicate; a grant that is not there is not visible.',
    run: async (world) => {
      const action = await world.propose();
      const { boundedGrantId } = await world.boundedGrant(action);
      const request = { domainId: world.domainId, boundedGrantId };
      const first = await world.actions('owner').revokeBoundedGrant(request);
      const again = await world.actions('owner').revokeBoundedGrant(request);
      expectSame('duplicate', [first.duplicate, again.duplicate], [false, true]);
      expectSame('revoke_time', again.boundedGrant?.revokeTime?.nanos, first.boundedGrant?.revokeTime?.nanos);
    },
  },
];

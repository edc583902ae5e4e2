import { randomUUID } from 'node:crypto';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import { digest } from '../../src/cli/client/workload-session.js';
import { ActionState } from '../../src/gen/surety/action/v1/action_pb.js';
import { ReceiptClass } from '../../src/gen/surety/action/v1/receipt_pb.js';
import {
  bytes,
  type DispatchRequest,
  EXECUTION,
  LONG_MS,
  PAST_SHORT_MS,
  SHORT_MS,
  TOOL,
} from '../action-samples.js';
import type { ActionWorld } from '../action-world.js';
import type { Case } from '../case.js';
import { expectRefused, expectSame, expectThat, expectThere } from '../expect.js';

/** What a caller believes that is not so. */
const WRONG_BELIEFS: readonly (readonly [field: string, over: DispatchRequest])[] = [
  ['source', { source: 'another source' }],
  ['source_ref', { sourceRef: 'another ref' }],
  ['type', { type: 'another type' }],
  ['payload', { payload: bytes(JSON.stringify({ tool_name: TOOL, text: 'another' })) }],
];

/** BeginDispatch, the contract, and that there is one dispatch ever. */
export const DISPATCH_CASES: readonly Case<ActionWorld>[] = [
  {
    id: 'dispatch.contract',
    rule: 'I5',
    title: 'The dispatch and its observe-only contract are there together, bound to the exact request.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const answer = await world.dispatch(held, gate);
      const { contract } = answer;
      const dispatched = expectThere('the action', answer.action);
      expectSame('state', dispatched.state, ActionState.DISPATCHED);
      expectSame('attempt_count', dispatched.attemptCount, 1);
      expectSame('execution_digest', dispatched.executionDigest, EXECUTION);
      expectSame(
        'kind and status',
        [contract?.kind, contract?.status],
        ['dispatch_recovery', 'observation_only'],
      );
      expectSame('external_id', contract?.externalId, Buffer.from(EXECUTION).toString('hex'));
      const times = [dispatched.dispatchTime, contract?.createTime].map(
        (time) => `${time?.seconds}.${time?.nanos}`,
      );
      expectSame('create_time of the contract', times[1], times[0]);
      const deadline = timestampMs(expectThere('the deadline', dispatched.observationDeadlineTime));
      const from = timestampMs(expectThere('the dispatch', dispatched.dispatchTime));
      expectSame('the window in ms', Math.round(deadline - from), LONG_MS);
      const contracts = (await world.receipts(action)).filter(
        ({ receiptClass }) => receiptClass === ReceiptClass.RECOVERY,
      );
      expectSame('contracts', contracts.length, 1);
      expectSame('the lease', dispatched.lease?.leaseToken, held.lease.leaseToken);
    },
  },
  ...WRONG_BELIEFS.map(
    ([field, over]): Case<ActionWorld> => ({
      id: `dispatch.expects.${field}`,
      rule: 'BeginDispatch',
      title: `A caller that believes another ${field} dispatches nothing.`,
      run: async (world) => {
        const { action, gate, held } = await world.leased();
        const call = () => world.dispatch(held, gate, over);
        await world.refusedWithoutTrace('the dispatch', action, call, 'EXPECTATION_MISMATCH');
      },
    }),
  ),
  {
    id: 'dispatch.expects.a-source-ref',
    rule: 'BeginDispatch',
    title: 'An action without a source ref is never dispatched.',
    run: async (world) => {
      const { action, gate, held } = await world.leased({ sourceRef: '' });
      const call = () => world.dispatch(held, gate);
      await world.refusedWithoutTrace('the dispatch', action, call, 'FIELD_INVALID');
    },
  },
  {
    id: 'dispatch.repeated',
    rule: 'I6, Repeating a call',
    title: 'BeginDispatch never answers success twice: its exact repeat is refused.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      await world.dispatch(held, gate);
      const call = () => world.dispatch(held, gate);
      await world.refusedWithoutTrace('the repeat', action, call, 'ACTION_STATE_CONFLICT');
    },
  },
  {
    id: 'dispatch.raced',
    rule: 'I6',
    title: 'However often the same dispatch is begun at once, it is begun once.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const tried = Array.from({ length: 8 }, () => world.dispatch(held, gate));
      const settled = await Promise.allSettled(tried);
      const done = settled.filter(({ status }) => status === 'fulfilled').length;
      expectSame('successes', done, 1);
      for (const each of settled) {
        if (each.status === 'rejected' && !(each.reason instanceof SuretyError)) throw each.reason;
      }
      expectSame('attempt_count', (await world.look(action)).attemptCount, 1);
    },
  },
  {
    id: 'dispatch.worker-vanishes',
    rule: 'I6, I7',
    title:
      'A worker that vanishes behind the dispatch leaves only observation: no LeaseNext hands the action out.',
    alone: true,
    run: async (world) => {
      const { action, gate, held } = await world.dispatched({}, SHORT_MS);
      const scope = { actionIds: [action.actionId] };
      expectSame('LeaseNext beside the lease', await world.courier.leaseNext({ scope }), undefined);
      await world.advance(PAST_SHORT_MS);
      expectSame('LeaseNext behind the lease', await world.courier.leaseNext({ scope }), undefined);
      const next = expectThere(
        'a lease to observe',
        await world.courier.leaseObservation({ scope, leaseMs: LONG_MS }),
      );
      expectSame('state', next.action.state, ActionState.DISPATCHED);
      expectSame('attempt_count', next.action.attemptCount, 1);
      const again = () => world.dispatch(next, gate, {}, world.courier);
      await world.refusedWithoutTrace('a second dispatch', action, again, 'ACTION_STATE_CONFLICT');
      const late = () => world.dispatch(held, gate);
      await world.refusedWithoutTrace(
        'the first worker',
        action,
        late,
        'LEASE_LOST',
        'ACTION_STATE_CONFLICT',
      );
    },
  },
  {
    id: 'dispatch.frozen',
    rule: 'issue: Freeze',
    title:
      'A freeze of the domain stops BeginDispatch; what is dispatched already is still observed and accepted.',
    alone: true,
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const before = await world.dispatched();
      const dispatch = () => world.dispatch(held, gate);
      await world.command({ case: 'setFreeze', value: { sink: '', frozen: true } });
      try {
        await world.refusedWithoutTrace('the dispatch', action, dispatch, 'FROZEN');
        await world.worker.beginObservation(before.held);
        await world.worker.accept(before.held, { ...ACCEPTANCE });
      } finally {
        await world.command({ case: 'setFreeze', value: { sink: '', frozen: false } });
      }
      await dispatch();
    },
  },
  {
    id: 'dispatch.effect.unknown',
    rule: 'With an effect',
    title: 'A dispatch carries no effect that is not there.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const call = () => world.dispatch(held, gate, { effectId: `absent-${randomUUID()}` });
      await world.refusedWithoutTrace('the dispatch', action, call, 'EFFECT_NOT_BINDABLE');
    },
  },
  {
    id: 'dispatch.effect.bound',
    rule: 'With an effect',
    title:
      'A dispatch carries a PREPARED effect whose request digest is the execution digest, one action’s only.',
    run: async (world) => {
      const effectId = await world.reserveEffect(EXECUTION);
      const { action, gate, held } = await world.leased();
      const executionDigest = digest('another request');
      const other = () => world.dispatch(held, gate, { effectId, executionDigest });
      await world.refusedWithoutTrace('another request', action, other, 'EFFECT_NOT_BINDABLE');
      const { action: dispatched } = await world.dispatch(held, gate, { effectId });
      expectSame('effect_id', dispatched?.effectId, effectId);
      const second = await world.leased();
      const call = () => world.dispatch(second.held, second.gate, { effectId });
      await world.refusedWithoutTrace('a second action', second.action, call, 'EFFECT_NOT_BINDABLE');
    },
  },
  {
    id: 'dispatch.registration-revoked',
    rule: 'RPCs',
    title: 'A worker whose registration is revoked while it holds a lease dispatches nothing.',
    alone: true,
    run: async (world) => {
      const { action, gate } = await world.gated();
      const held = await world.lease(action, LONG_MS, world.courier);
      const worker = world.courier;
      await world.withoutCourier(async () => {
        const call = () => world.dispatch(held, gate, {}, worker);
        await world.refusedWithoutTrace('the dispatch', action, call, 'WORKLOAD_NOT_CURRENT');
        const lease = worker.leaseNext({ scope: { actionIds: [action.actionId] } });
        await expectRefused('a lease', lease, 'WORKLOAD_NOT_CURRENT');
      });
      expectThat((await world.look(action)).state === ActionState.GATED, 'the action is still GATED');
    },
  },
];

const ACCEPTANCE = {
  receiptKey: 'accepted',
  kind: 'provider',
  status: 'accepted',
  externalId: 'message-1',
  evidence: bytes('{"seen":true}'),
};

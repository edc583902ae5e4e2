import { randomUUID } from 'node:crypto';
import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { digest } from '../../src/cli/client/workload-session.js';
import { ActionState } from '../../src/gen/surety/action/v1/action_pb.js';
import { GateFieldKind } from '../../src/gen/surety/authority/v1/records_pb.js';
import { RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { type ApprovalWish, DELIVERY, LONG_MS, PAST_SHORT_MS, receipt, SHORT_MS } from '../action-samples.js';
import type { ActionWorld } from '../action-world.js';
import type { Case } from '../case.js';
import { expectRefused, expectSame } from '../expect.js';

const hex = (text: string): string => Buffer.from(digest(text)).toString('hex');
const { thread: _, ...WITHOUT_THREAD } = DELIVERY;

/** Evidence that is signed and kept, and allows nothing. */
const BAD_EVIDENCE: readonly (readonly [id: string, what: string, wish: ApprovalWish])[] = [
  ['payload', 'bound to another payload', { members: { payload_digest: hex('another payload') } }],
  ['action-digest', 'bound to another digest of the action', { members: { action_digest: hex('another') } }],
  ['action', 'bound to another action', { members: { action_id: 'another' } }],
  ['domain', 'of another domain', { members: { domain_id: 'another.test' } }],
  ['audience', 'meant for another service', { members: { audience: 'spiffe://another.test/surety' } }],
  ['incarnation', 'of another incarnation of the store', { members: { incarnation: 999_999 } }],
  ['approval-id', 'with another approval id', { members: { approval_id: 'another' } }],
  ['decision-id', 'with another decision id', { members: { decision_id: 'another' } }],
  ['decision', 'that says rejected', { members: { decision: 'rejected' } }],
  ['authority', 'of another authority than the owner', { members: { authority: 'policy' } }],
  ['revision', 'of another revision', { members: { revision: 2 } }],
  ['decided-at-zero', 'decided at no time', { members: { decided_at: 0 } }],
  ['expires-first', 'that expires before it is decided', { members: { expires_at: 1 } }],
  ['times-as-text', 'whose times are texts', { members: { expires_at: '99999999999999999' } }],
  ['field-missing', 'with a field of its shape less', { fields: WITHOUT_THREAD }],
  ['field-more', 'with a field more', { fields: { ...DELIVERY, note: 'urgent' } }],
  ['field-empty', 'with an empty field', { fields: { ...DELIVERY, thread: '' } }],
  ['field-no-text', 'with a number for a text', { fields: { ...DELIVERY, thread: 7 } }],
  ['no-shape', 'of no shape', { fields: {} }],
  [
    'reserved-method',
    'with the binding method of bounded grants',
    { fields: { ...DELIVERY, binding_method: 'bounded_grant' } },
  ],
];

const SHAPE_ID = 'conformance.ticket';
const SHAPE_FIELDS = [
  { name: 'conformance_ticket', kind: GateFieldKind.TEXT },
  { name: 'conformance_good_until', kind: GateFieldKind.EXPIRY },
];

function putShape(world: ActionWorld, status = RecordStatus.ACTIVE): Promise<void> {
  const gateShape = { gateShapeId: SHAPE_ID, fields: SHAPE_FIELDS, status };
  return world.command({ case: 'putGateShape', value: { gateShape } });
}

function ticket(world: ActionWorld, goodForMs: number): ApprovalWish {
  return {
    fields: {
      conformance_ticket: 'ticket-7',
      conformance_good_until: Math.floor(world.now() + goodForMs) * 1000,
    },
  };
}

/** Conditions that do not hold, by what they come to. */
const CONDITIONS: readonly (readonly [id: string, what: string, expression: string])[] = [
  ['false', 'that is false', 'payload.text == "something else"'],
  ['raises', 'that raises', 'payload.nothing.at_all == 1'],
  ['no-boolean', 'that comes to something else than a boolean', 'payload.text'],
];

function putCondition(world: ActionWorld, actionType: string, expression: string): Promise<void> {
  const actionCondition = { actionType, expression, status: RecordStatus.ACTIVE };
  return world.command({ case: 'putActionCondition', value: { actionCondition } });
}

/** I4: the gate is judged again when it is used, with all that the caller and its validators say. */
export const DISPATCH_GATE_CASES: readonly Case<ActionWorld>[] = [
  ...BAD_EVIDENCE.map(
    ([id, what, wish]): Case<ActionWorld> => ({
      id: `dispatch.gate.${id}`,
      rule: 'I4, Gate validator',
      title: `A gate ${what} allows no dispatch.`,
      run: async (world) => {
        const { action, gate, held } = await world.leased({}, wish);
        await world.refusedWithoutTrace(
          'the dispatch',
          action,
          () => world.dispatch(held, gate),
          'GATE_INVALID',
          'APPROVAL_EXPIRED',
        );
      },
    }),
  ),
  {
    id: 'dispatch.gate.other-names',
    rule: 'BeginDispatch',
    title: 'A dispatch names the gate that is there: its key, its approval and its decision.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      for (const name of ['gateReceiptKey', 'approvalId', 'decisionId'] as const) {
        await world.refusedWithoutTrace(
          `with another ${name}`,
          action,
          () => world.dispatch(held, { ...gate, [name]: 'another' }),
          'GATE_INVALID',
        );
      }
    },
  },
  {
    id: 'dispatch.gate.dies-inside-the-lease',
    rule: 'I4, I11',
    title: 'An approval that ends while the lease is good allows no dispatch any more.',
    alone: true,
    run: async (world) => {
      const { action, gate, held } = await world.leased({}, { validForMs: SHORT_MS });
      await world.advance(PAST_SHORT_MS);
      const dispatch = () => world.dispatch(held, gate);
      await world.refusedWithoutTrace('the dispatch', action, dispatch, 'APPROVAL_EXPIRED');
      expectSame('attempt_count', (await world.look(action)).attemptCount, 0);
    },
  },
  {
    id: 'dispatch.gate.decided-ahead',
    rule: 'I11',
    title:
      "An approval of the future is good only when the store's clock comes near, whatever the owner's clock says.",
    alone: true,
    run: async (world) => {
      const decidedAt = Math.floor(world.now() + SHORT_MS + 30_000) * 1000;
      const { action, gate, held } = await world.leased({}, { members: { decided_at: decidedAt } });
      const dispatch = () => world.dispatch(held, gate);
      await world.refusedWithoutTrace('too early', action, dispatch, 'GATE_INVALID', 'APPROVAL_EXPIRED');
      await world.advance(PAST_SHORT_MS);
      await dispatch();
    },
  },
  {
    id: 'dispatch.shape.own',
    rule: 'Gate validator',
    title:
      "A domain's own shape is good as it says, and its expiry is enforced while the approval itself is alive.",
    alone: true,
    run: async (world) => {
      await putShape(world);
      const good = await world.leased({}, ticket(world, LONG_MS));
      const dying = await world.leased({}, ticket(world, SHORT_MS));
      await world.dispatch(good.held, good.gate);
      await world.advance(PAST_SHORT_MS);
      await world.refusedWithoutTrace(
        'the dispatch',
        dying.action,
        () => world.dispatch(dying.held, dying.gate),
        'APPROVAL_EXPIRED',
      );
    },
  },
  {
    id: 'dispatch.shape.suspended',
    rule: 'Gate validator',
    title: 'A gate of a suspended shape allows nothing meanwhile.',
    alone: true,
    run: async (world) => {
      await putShape(world);
      const { action, gate, held } = await world.leased({}, ticket(world, LONG_MS));
      const dispatch = () => world.dispatch(held, gate);
      await putShape(world, RecordStatus.SUSPENDED);
      await world.refusedWithoutTrace('the dispatch', action, dispatch, 'GATE_INVALID');
      await putShape(world);
      await dispatch();
    },
  },
  {
    id: 'dispatch.shape.overlap',
    rule: 'Gate validator',
    title: 'A shape with exactly the fields of another is refused at registration.',
    run: async (world) => {
      const fields = Object.keys(DELIVERY).map((name) => ({ name, kind: GateFieldKind.TEXT }));
      const gateShape = { gateShapeId: `overlap-${randomUUID()}`, fields, status: RecordStatus.ACTIVE };
      const call = world.command({ case: 'putGateShape', value: { gateShape } });
      await expectRefused('the shape', call, 'GATE_SHAPE_OVERLAP');
    },
  },
  ...CONDITIONS.map(
    ([id, what, expression]): Case<ActionWorld> => ({
      id: `dispatch.condition.${id}`,
      rule: 'Gate validator',
      title: `A condition of the type ${what} changes nothing and stops the dispatch.`,
      run: async (world) => {
        const type = `conformance-${randomUUID()}`;
        const { action, gate, held } = await world.leased({ type });
        const dispatch = () => world.dispatch(held, gate);
        await putCondition(world, type, expression);
        await world.refusedWithoutTrace('the dispatch', action, dispatch, 'CONDITION_DENIED');
        await putCondition(world, type, 'payload.tool_name == action.tool_name && evidence.revision == 1');
        await dispatch();
      },
    }),
  ),
  ...['payload.text.matches("^a+$")', '[1, 2].all(n, n > 0)', 'payload.', `"${'x'.repeat(2048)}" == ""`].map(
    (expression, i): Case<ActionWorld> => ({
      id: `dispatch.condition.refused-${i + 1}`,
      rule: 'Gate validator',
      title: `No condition is set with ${['matches', 'a comprehension', 'what is no CEL', 'more than 2 KiB'][i]}.`,
      run: async (world) => {
        const call = putCondition(world, `conformance-${randomUUID()}`, expression);
        await expectRefused('the condition', call, 'FIELD_INVALID');
      },
    }),
  ),
  {
    id: 'dispatch.view.current',
    rule: 'Gate validator',
    title: 'A dispatch with the judgement of a validator of the caller’s own is good over the current view.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const view = await world.worker.view(held);
      expectSame('receipts of the view', view.receipts.length, 1);
      expectSame('the view again', (await world.worker.view(held)).viewDigest, view.viewDigest);
      const authorizationExpireTime = timestampFromMs(world.now() + LONG_MS);
      await world.dispatch(held, gate, { viewDigest: view.viewDigest, authorizationExpireTime });
      expectSame('state', (await world.look(action)).state, ActionState.DISPATCHED);
    },
  },
  {
    id: 'dispatch.view.raises',
    rule: 'Gate validator',
    title:
      'A validator that raises changes nothing: a view is a read, and what it saw can still be dispatched.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const before = await world.look(action);
      await world.worker.view(held);
      const after = await world.look(action);
      expectSame('event_count', after.eventCount, before.eventCount);
      expectSame('update_time', after.updateTime?.nanos, before.updateTime?.nanos);
      await world.dispatch(held, gate);
    },
  },
  {
    id: 'dispatch.view.garbage',
    rule: 'Gate validator',
    title: 'A validator that returns garbage changes nothing and stops the dispatch.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const { viewDigest } = await world.worker.view(held);
      const authorizationExpireTime = timestampFromMs(world.now() + LONG_MS);
      const garbage = [
        [{ viewDigest: digest('garbage'), authorizationExpireTime }, 'VIEW_NOT_CURRENT'],
        [{ viewDigest: viewDigest.slice(1), authorizationExpireTime }, 'FIELD_INVALID'],
        [{ viewDigest }, 'FIELD_INVALID'],
        [{ authorizationExpireTime }, 'FIELD_INVALID'],
      ] as const;
      for (const [over, reason] of garbage) {
        await world.refusedWithoutTrace(
          'the dispatch',
          action,
          () => world.dispatch(held, gate, over),
          reason,
        );
      }
    },
  },
  {
    id: 'dispatch.view.expired',
    rule: 'Gate validator',
    title: 'A validator whose judgement is past its time changes nothing and stops the dispatch.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const { viewDigest } = await world.worker.view(held);
      const authorizationExpireTime = timestampFromMs(world.now() - 1_000);
      const dispatch = () => world.dispatch(held, gate, { viewDigest, authorizationExpireTime });
      await world.refusedWithoutTrace('the dispatch', action, dispatch, 'VIEW_NOT_CURRENT');
    },
  },
  {
    id: 'dispatch.view.changed',
    rule: 'Gate validator',
    title: 'A receipt that lands behind the validator’s back makes its judgement one of another view.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const { viewDigest } = await world.worker.view(held);
      const { actionId } = action;
      await world.actions('harness').addReceipt({ actionId, receipt: receipt('later') });
      const authorizationExpireTime = timestampFromMs(world.now() + LONG_MS);
      const dispatch = () => world.dispatch(held, gate, { viewDigest, authorizationExpireTime });
      await world.refusedWithoutTrace('the dispatch', action, dispatch, 'VIEW_NOT_CURRENT');
    },
  },
  {
    id: 'dispatch.view.other-lease',
    rule: 'Gate validator',
    title: 'Neither the lease nor the clock is in a view: the next holder sees the same one.',
    alone: true,
    run: async (world) => {
      const { action, held } = await world.leased({}, {}, SHORT_MS);
      const { viewDigest } = await world.worker.view(held);
      await world.advance(PAST_SHORT_MS);
      const next = await world.lease(action, LONG_MS, world.courier);
      expectSame('view_digest', (await world.courier.view(next)).viewDigest, viewDigest);
    },
  },
  {
    id: 'dispatch.gate.window',
    rule: 'BeginDispatch',
    title:
      'An observation window of less than a second or more than an hour, and no or more than 100 observations, are refused.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const wrong = [
        { observationWindow: durationFromMs(999) },
        { observationWindow: durationFromMs(3_600_001) },
        { maxObservations: 0 },
        { maxObservations: 101 },
        { executionDigest: new Uint8Array(31) },
      ];
      for (const over of wrong) {
        const call = () => world.dispatch(held, gate, over);
        await world.refusedWithoutTrace(`with ${Object.keys(over)[0]}`, action, call, 'FIELD_INVALID');
      }
    },
  },
];

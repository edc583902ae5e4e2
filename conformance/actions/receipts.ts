import { digest } from '../../src/cli/client/workload-session.js';
import { ActionState } from '../../src/gen/surety/action/v1/action_pb.js';
import { ReceiptClass } from '../../src/gen/surety/action/v1/receipt_pb.js';
import { bytes, type NamedCalls, receipt } from '../action-samples.js';
import type { ActionWorld } from '../action-world.js';
import type { Case } from '../case.js';
import { expectSame, expectThere } from '../expect.js';

const RESERVED_KINDS = ['gate', 'dispatch_recovery', 'dispatch_observation'];

/** The same key with something else, by the field that differs. */
const OTHER_CONTENT = [
  ['kind', { kind: 'another' }],
  ['status', { status: 'another' }],
  ['external_id', { externalId: 'another' }],
  ['evidence', { evidence: bytes('{"seen":"another"}') }],
  // The value is the same; the bytes are not.
  ['evidence-spacing', { evidence: bytes('{ "seen": "key" }') }],
] as const;

/** I2: append-only receipts in classes of their own. */
export const RECEIPT_CASES: readonly Case<ActionWorld>[] = [
  {
    id: 'receipts.same',
    rule: 'I2',
    title: 'The same receipt again is no change, and answers the first.',
    run: async (world) => {
      const { actionId } = await world.propose();
      const first = await world.actions('harness').addReceipt({ actionId, receipt: receipt('key') });
      const again = await world.actions('harness').addReceipt({ actionId, receipt: receipt('key') });
      expectSame('duplicate', [first.duplicate, again.duplicate], [false, true]);
      const [stored, answered] = [
        expectThere('receipt', first.receipt),
        expectThere('receipt', again.receipt),
      ];
      expectSame('event_number', answered.eventNumber, stored.eventNumber);
      expectSame('create_time', answered.createTime?.nanos, stored.createTime?.nanos);
      expectSame('events', (await world.events({ actionId })).length, 2);
      expectSame('evidence_digest', stored.evidenceDigest, digest(receipt('key').evidence));
      expectSame('class', stored.receiptClass, ReceiptClass.GENERAL);
    },
  },
  ...OTHER_CONTENT.map(
    ([field, over]): Case<ActionWorld> => ({
      id: `receipts.other-content.${field}`,
      rule: 'I2',
      title: `A receipt key that is used again with another ${field} is a conflict.`,
      run: async (world) => {
        const action = await world.propose();
        const { actionId } = action;
        await world.actions('harness').addReceipt({ actionId, receipt: receipt('key') });
        const other = { ...receipt('key'), ...over };
        await world.refusedWithoutTrace(
          'the other receipt',
          action,
          () => world.actions('harness').addReceipt({ actionId, receipt: other }),
          'RECEIPT_CONFLICT',
        );
      },
    }),
  ),
  {
    id: 'receipts.other-content.at-acceptance',
    rule: 'I2',
    title: 'AcceptAction and VerifyAction refuse a receipt key that stands for another receipt.',
    run: async (world) => {
      const { action, held } = await world.dispatched();
      const { actionId } = action;
      await world.actions('harness').addReceipt({ actionId, receipt: receipt('taken') });
      const other = { ...receipt('taken'), status: 'another' };
      const accept = () => world.worker.accept(held, other);
      await world.refusedWithoutTrace('the acceptance', action, accept, 'RECEIPT_CONFLICT');
      await world.worker.accept(held, receipt('accepted'));
      const verify = () => world.worker.verify(held, ['accepted'], other);
      await world.refusedWithoutTrace('the verification', action, verify, 'RECEIPT_CONFLICT');
    },
  },
  ...RESERVED_KINDS.map(
    (kind): Case<ActionWorld> => ({
      id: `receipts.reserved.${kind}`,
      rule: 'AddReceipt',
      title: `No general receipt is of the kind ${kind}, through whatever door it comes.`,
      run: async (world) => {
        const { action, held } = await world.dispatched();
        const { actionId } = action;
        const forged = receipt('forged', kind);
        const domainId = world.domainId;
        const doors: NamedCalls = [
          ['AddReceipt', () => world.actions('harness').addReceipt({ actionId, receipt: forged })],
          [
            'AddReceipt of an owner',
            () => world.actions('owner').addReceipt({ actionId, domainId, receipt: forged }),
          ],
          ['AddReceipt of a worker', () => world.worker.actions.addReceipt({ actionId, receipt: forged })],
          ['AcceptAction', () => world.worker.accept(held, forged)],
        ];
        await world.allRefused(action, doors, 'FIELD_INVALID');
        await world.worker.accept(held, receipt('accepted'));
        const verify = () => world.worker.verify(held, ['accepted'], forged);
        await world.refusedWithoutTrace('VerifyAction', action, verify, 'FIELD_INVALID');
      },
    }),
  ),
  {
    id: 'receipts.no-squatting',
    rule: 'I2',
    title:
      'General receipts with the keys of a gate, a contract and an observation stand in the way of none.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const { actionId } = action;
      // The keys that this implementation gives its own receipts, found out on another action.
      const other = await world.dispatched();
      await world.worker.beginObservation(other.held);
      const reserved = (await world.receipts(other.action)).filter(
        ({ receiptClass }) => receiptClass !== ReceiptClass.GATE,
      );
      for (const { receiptKey } of [{ receiptKey: gate.gateReceiptKey }, ...reserved]) {
        await world.actions('harness').addReceipt({ actionId, receipt: receipt(receiptKey) });
      }
      const { action: dispatched } = await world.dispatch(held, gate);
      const now = { action: expectThere('the action', dispatched), lease: held.lease };
      const { observation } = await world.worker.beginObservation(now);
      expectSame('class', observation?.receiptClass, ReceiptClass.OBSERVATION);
      expectSame('state', (await world.look(action)).state, ActionState.DISPATCHED);
    },
  },
  {
    id: 'receipts.order',
    rule: 'I2, I8',
    title: 'Receipts are listed as they were recorded, each with its event, and hold what came.',
    run: async (world) => {
      const { action } = await world.verified();
      const receipts = await world.receipts(action);
      expectSame(
        'classes',
        receipts.map(({ receiptClass }) => receiptClass),
        [ReceiptClass.GATE, ReceiptClass.RECOVERY, ReceiptClass.GENERAL],
      );
      const events = await world.events(action);
      for (const { receiptKey, receiptClass, eventNumber, evidence, evidenceDigest } of receipts) {
        const event = events.find((each) => each.eventNumber === eventNumber);
        expectSame(
          `the event of ${receiptKey}`,
          [event?.receiptKey, event?.receiptClass],
          [receiptKey, receiptClass],
        );
        expectSame(`the digest of ${receiptKey}`, evidenceDigest, digest(evidence));
      }
    },
  },
];

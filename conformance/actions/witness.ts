import { digest } from '../../src/cli/client/workload-session.js';
import { ActionState } from '../../src/gen/surety/action/v1/action_pb.js';
import { receipt } from '../action-samples.js';
import type { ActionWorld } from '../action-world.js';
import type { Case } from '../case.js';
import { expectRefused, expectSame } from '../expect.js';

/** I9: verified means witnessed. */
export const WITNESS_CASES: readonly Case<ActionWorld>[] = [
  {
    id: 'witness.good',
    rule: 'I9',
    title: 'An action is verified by its acceptance receipt and by others that came behind the dispatch.',
    run: async (world) => {
      const { action, held } = await world.accepted();
      const { actionId } = action;
      await world.actions('harness').addReceipt({ actionId, receipt: receipt('seen') });
      const verified = await world.worker.verify(held, ['accepted', 'seen'], receipt('checked'));
      expectSame('state', verified.action?.state, ActionState.VERIFIED);
      expectSame('the verification’s own receipt', verified.receipt?.receiptKey, 'checked');
    },
  },
  {
    id: 'witness.none',
    rule: 'I9',
    title: 'Nothing is verified by nothing.',
    run: async (world) => {
      const { action, held } = await world.accepted();
      const call = () => world.worker.verify(held, []);
      await world.refusedWithoutTrace('the verification', action, call, 'FIELD_INVALID', 'WITNESS_INVALID');
    },
  },
  {
    id: 'witness.missing',
    rule: 'I9',
    title: 'A receipt that is not there is no witness.',
    run: async (world) => {
      const { action, held } = await world.accepted();
      const call = () => world.worker.verify(held, ['accepted', 'absent']);
      await world.refusedWithoutTrace('the verification', action, call, 'WITNESS_INVALID');
    },
  },
  {
    id: 'witness.without-the-acceptance',
    rule: 'I9',
    title: 'Without the acceptance receipt nothing is verified, whatever else witnesses it.',
    run: async (world) => {
      const { action, held } = await world.accepted();
      const { actionId } = action;
      await world.actions('harness').addReceipt({ actionId, receipt: receipt('seen') });
      const call = () => world.worker.verify(held, ['seen']);
      await world.refusedWithoutTrace('the verification', action, call, 'WITNESS_INVALID');
    },
  },
  {
    id: 'witness.before-the-dispatch',
    rule: 'I9',
    title: 'A receipt from before the dispatch witnesses nothing.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const { actionId } = action;
      await world.actions('harness').addReceipt({ actionId, receipt: receipt('early') });
      await world.dispatch(held, gate);
      await world.worker.accept(held, receipt('accepted'));
      const call = () => world.worker.verify(held, ['accepted', 'early']);
      await world.refusedWithoutTrace('the verification', action, call, 'WITNESS_INVALID');
    },
  },
  {
    id: 'witness.acceptance-before-the-dispatch',
    rule: 'I9',
    title: 'An action that is accepted with a receipt from before the dispatch is never verified.',
    run: async (world) => {
      const { action, gate, held } = await world.leased();
      const { actionId } = action;
      await world.actions('harness').addReceipt({ actionId, receipt: receipt('early') });
      await world.dispatch(held, gate);
      // An implementation may refuse it here already, or at the verification.
      const accepted = await world.worker.accept(held, receipt('early')).then(
        () => true,
        () => false,
      );
      if (!accepted) {
        expectSame('state', (await world.look(action)).state, ActionState.DISPATCHED);
        const call = () => world.worker.accept(held, receipt('early'));
        await world.refusedWithoutTrace('the acceptance', action, call, 'WITNESS_INVALID');
        return;
      }
      await expectRefused('the verification', world.worker.verify(held, ['early']), 'WITNESS_INVALID');
    },
  },
  {
    id: 'witness.of-another-action',
    rule: 'I9',
    title: "Another action's receipt witnesses nothing.",
    run: async (world) => {
      const other = await world.accepted();
      const { actionId } = other.action;
      await world.actions('harness').addReceipt({ actionId, receipt: receipt('of the other') });
      const { action, held } = await world.accepted();
      const call = () => world.worker.verify(held, ['accepted', 'of the other']);
      await world.refusedWithoutTrace('the verification', action, call, 'WITNESS_INVALID');
    },
  },
  {
    id: 'witness.of-another-class',
    rule: 'I9, I2',
    title: 'A gate and a contract are no general receipts, and witness nothing.',
    run: async (world) => {
      const { action, held } = await world.accepted();
      const keys = (await world.receipts(action)).map(({ receiptKey }) => receiptKey);
      for (const receiptKey of keys.filter((key) => key !== 'accepted')) {
        const call = () => world.worker.verify(held, ['accepted', receiptKey]);
        await world.refusedWithoutTrace(receiptKey, action, call, 'WITNESS_INVALID');
      }
    },
  },
  {
    id: 'witness.of-itself',
    rule: 'I9',
    title: 'The verification’s own receipt does not witness itself.',
    run: async (world) => {
      const { action, held } = await world.accepted();
      const call = () => world.worker.verify(held, ['accepted', 'checked'], receipt('checked'));
      await world.refusedWithoutTrace('the verification', action, call, 'WITNESS_INVALID');
    },
  },
  {
    id: 'witness.completed',
    rule: 'I8, I9',
    title: 'Only what is verified is completed, with the digest of its result, and holds no lease then.',
    run: async (world) => {
      const { held } = await world.verified();
      const completed = await world.worker.complete(held, digest('done'));
      expectSame('state', completed.state, ActionState.COMPLETED);
      expectSame('result_digest', completed.resultDigest, digest('done'));
      expectSame('lease', completed.lease, undefined);
    },
  },
];

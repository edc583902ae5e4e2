import { randomUUID } from 'node:crypto';
import { durationFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import { digest } from '../../src/cli/client/workload-session.js';
import { type Action, ActionState, FailureReason } from '../../src/gen/surety/action/v1/action_pb.js';
import { ReceiptClass } from '../../src/gen/surety/action/v1/receipt_pb.js';
import { LONG_MS, PAST_SHORT_MS, receipt, SHORT_MS } from '../action-samples.js';
import type { ActionWorld } from '../action-world.js';
import type { Case } from '../case.js';
import { expectRefused, expectSame, expectThat, expectThere } from '../expect.js';

/** Dispatches that can be observed for a short while only. */
const SHORT_WINDOW = { observationWindow: durationFromMs(SHORT_MS) };

/** FAILED for this reason, dispatched once, without a lease, with its dead letter; and nothing can be done any more. */
async function expectAmbiguous(
  world: ActionWorld,
  { actionId }: Action,
  reason: FailureReason,
): Promise<void> {
  const action = await world.look({ actionId });
  expectSame('state', ActionState[action.state], 'FAILED');
  expectSame('failure_reason', FailureReason[action.failureReason], FailureReason[reason]);
  expectSame('attempt_count', action.attemptCount, 1);
  expectSame('lease', action.lease, undefined);
  expectThat(action.resultDigest.length === 32, 'the result that says so has a digest');
  const letter = expectThere('the dead letter', await world.deadLetter(action));
  expectSame('from_state of the dead letter', ActionState[letter.fromState], 'DISPATCHED');
  const result = JSON.parse(letter.detail) as Record<string, unknown>;
  expectSame('result and effect state', [result['result'], result['effect_state']], ['ambiguous', 'unknown']);
  const scope = { actionIds: [actionId] };
  expectSame('LeaseNext', await world.worker.leaseNext({ scope }), undefined);
  expectSame('LeaseObservation', await world.worker.leaseObservation({ scope }), undefined);
}

/** I7: doubt is settled by bounded reading only. */
export const OBSERVATION_CASES: readonly Case<ActionWorld>[] = [
  {
    id: 'observation.journalled',
    rule: 'I7',
    title: 'Each observation is journalled before it is made, numbered from 1 without a gap.',
    run: async (world) => {
      const { action, held } = await world.dispatched();
      for (const number of [1, 2]) {
        const { observation, observationNumber } = await world.worker.beginObservation(held);
        expectSame('number', observationNumber, number);
        expectSame(
          'kind and status',
          [observation?.kind, observation?.status],
          ['dispatch_observation', 'started'],
        );
        expectSame(
          'external_id',
          observation?.externalId,
          Buffer.from(held.action.executionDigest).toString('hex'),
        );
      }
      const journal = (await world.receipts(action)).filter(
        ({ receiptClass }) => receiptClass === ReceiptClass.OBSERVATION,
      );
      expectSame('observations in the journal', journal.length, 2);
      expectSame('observation_count', (await world.look(action)).observationCount, 2);
    },
  },
  {
    id: 'observation.budget',
    rule: 'I7',
    title: 'A further observation than the budget has ends the action as ambiguous, attempted once.',
    run: async (world) => {
      const { action, held } = await world.dispatched({ maxObservations: 1 });
      await world.worker.beginObservation(held);
      const { observation, action: ended } = await world.worker.beginObservation(held);
      expectSame('the receipt', observation, undefined);
      expectSame('the answer', ended?.state, ActionState.FAILED);
      await expectAmbiguous(world, action, FailureReason.OBSERVATIONS_EXHAUSTED);
    },
  },
  {
    id: 'observation.budget-at-deferral',
    rule: 'DeferObservation',
    title: 'Where no observation is left, letting the action go ends it as ambiguous.',
    run: async (world) => {
      const { action, held } = await world.dispatched({ maxObservations: 1 });
      await world.worker.beginObservation(held);
      await world.worker.deferObservation(held, 1, 1_000);
      await expectAmbiguous(world, action, FailureReason.OBSERVATIONS_EXHAUSTED);
    },
  },
  {
    id: 'observation.budget-at-the-lease',
    rule: 'I6, ReapLeases',
    title: 'A lease that ends with the budget used up ends the action as ambiguous.',
    alone: true,
    run: async (world) => {
      const { action, held } = await world.dispatched({ maxObservations: 1 }, SHORT_MS);
      await world.worker.beginObservation(held);
      await world.advance(PAST_SHORT_MS);
      await world.worker.leaseObservation({ scope: { actionIds: [action.actionId] } });
      await expectAmbiguous(world, action, FailureReason.OBSERVATIONS_EXHAUSTED);
    },
  },
  {
    id: 'observation.deadline',
    rule: 'I7, I11',
    title:
      'Behind the deadline nothing is observed any more, with a budget left: it ends as ambiguous, attempted once.',
    alone: true,
    run: async (world) => {
      const { action, held } = await world.dispatched({ ...SHORT_WINDOW, maxObservations: 100 });
      await world.worker.beginObservation(held);
      await world.advance(PAST_SHORT_MS);
      const late = world.worker.beginObservation(held).then(
        ({ observation }) => observation,
        () => undefined,
      );
      expectSame('an observation behind the deadline', await late, undefined);
      await expectAmbiguous(world, action, FailureReason.OBSERVATION_DEADLINE);
    },
  },
  {
    id: 'observation.deadline-without-a-lease',
    rule: 'ReapLeases',
    title: 'The deadline ends an action also while nobody holds it.',
    alone: true,
    run: async (world) => {
      const { action, held } = await world.dispatched(SHORT_WINDOW);
      await world.worker.deferObservation(held, 0, 1);
      await world.advance(PAST_SHORT_MS);
      await world.actions('operator').reapLeases({ domainId: world.domainId, actionIds: [action.actionId] });
      await expectAmbiguous(world, action, FailureReason.OBSERVATION_DEADLINE);
    },
  },
  {
    id: 'observation.deferral-is-cut',
    rule: 'DeferObservation',
    title: 'A delay goes to the deadline at most.',
    run: async (world) => {
      const { held } = await world.dispatched(SHORT_WINDOW);
      const deferred = await world.worker.deferObservation(held, 0, 86_400_000);
      const [next, deadline] = [deferred.nextAttemptTime, deferred.observationDeadlineTime];
      expectSame(
        'next_attempt_time',
        timestampMs(expectThere('next_attempt_time', next)),
        timestampMs(expectThere('deadline', deadline)),
      );
      expectSame('lease', deferred.lease, undefined);
    },
  },
  {
    id: 'observation.of-another-dispatch',
    rule: 'BeginObservation, DeferObservation',
    title: 'Whoever observes names the digest of the dispatch, and whoever defers the last observation too.',
    run: async (world) => {
      const { action, held } = await world.dispatched();
      const other = { ...held, action: { ...held.action, executionDigest: digest('another request') } };
      const calls = [
        ['BeginObservation', () => world.worker.beginObservation(other)],
        ['DeferObservation', () => world.worker.deferObservation(other, 0, 1_000)],
        ['DeferObservation of another attempt', () => world.worker.deferObservation(held, 1, 1_000)],
      ] as const;
      await world.allRefused(action, calls, 'EXPECTATION_MISMATCH');
    },
  },
  {
    id: 'observation.request-id',
    rule: 'Repeating a call',
    title:
      'The same request gets the same attempt and uses no further one; the id for another digest is a conflict.',
    run: async (world) => {
      const { action, held } = await world.dispatched();
      const { actionId, executionDigest } = held.action;
      const request = {
        requestId: randomUUID(),
        actionId,
        leaseToken: held.lease.leaseToken,
        executionDigest,
      };
      const first = await world.worker.actions.beginObservation(request);
      const again = await world.worker.actions.beginObservation(request);
      expectSame('duplicate', [first.duplicate, again.duplicate], [false, true]);
      expectSame('number', again.observationNumber, 1);
      expectSame('key', again.observation?.receiptKey, first.observation?.receiptKey);
      expectSame('observation_count', (await world.look(action)).observationCount, 1);
      const other = { ...request, executionDigest: digest('another request') };
      await expectRefused(
        'the same id',
        world.worker.actions.beginObservation(other),
        'REQUEST_ID_CONFLICT',
        'EXPECTATION_MISMATCH',
      );
    },
  },
  {
    id: 'observation.settles',
    rule: 'I7, I9',
    title: 'A doubt that an observation settles goes on to the end, under another worker too.',
    alone: true,
    run: async (world) => {
      const { action } = await world.dispatched({}, SHORT_MS);
      await world.advance(PAST_SHORT_MS);
      const scope = { actionIds: [action.actionId] };
      const held = expectThere(
        'the lease',
        await world.courier.leaseObservation({ scope, leaseMs: LONG_MS }),
      );
      await world.courier.beginObservation(held);
      await world.courier.accept(held, receipt('found'));
      await world.courier.verify(held, ['found']);
      const completed = await world.courier.complete(held, digest('done'));
      expectSame('state', completed.state, ActionState.COMPLETED);
      expectSame('attempt_count', completed.attemptCount, 1);
    },
  },
];

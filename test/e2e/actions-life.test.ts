import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { digest } from '../../src/cli/client/workload-session.js';
import { ActionState, FailureReason } from '../../src/gen/surety/action/v1/action_pb.js';
import { ActionService } from '../../src/gen/surety/action/v1/action_service_pb.js';
import { ActionEventKind } from '../../src/gen/surety/action/v1/event_pb.js';
import { RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { ReceiptClass } from '../../src/gen/surety/action/v1/receipt_pb.js';
import {
  ActionParties,
  DELIVERY,
  dispatchWish,
  EXECUTION,
  OWNER,
  receipt,
  WORKER,
} from '../support/action-parties.js';
import {
  ACME,
  AUDITOR,
  type E2eWorld,
  HARNESS,
  openE2eWorld,
  OPERATOR,
  refusedWith,
} from '../support/e2e-world.js';

let world: E2eWorld;
let parties: ActionParties;
beforeAll(async () => {
  world = await openE2eWorld();
  parties = await ActionParties.join(world);
}, 60_000);
afterAll(() => world.close());

const hex = (bytes: Uint8Array | undefined) => Buffer.from(bytes ?? []).toString('hex');
const reader = (spiffeId: string) => world.channel(spiffeId).service(ActionService);

describe('an action through the API (actions.md, States)', () => {
  test('is proposed, approved, dispatched once, accepted, verified and completed', async () => {
    const proposal = parties.proposal();
    const { action: proposed, duplicate } = await parties.proposer.proposeAction(proposal);
    expect(proposed).toMatchObject({
      state: ActionState.PROPOSED,
      proposerSpiffeId: HARNESS,
      attemptCount: 0,
      maxAttempts: 1,
      eventCount: 1n,
    });
    expect(hex(proposed?.payload)).toBe(hex(proposal.payload));
    expect(hex(proposed?.payloadDigest)).toBe(hex(digest(proposal.payload as Uint8Array)));
    expect(duplicate).toBe(false);
    const actionId = proposed?.actionId ?? '';

    const request = await parties.owner.approval(await parties.owner.look(actionId), { fields: DELIVERY });
    const gated = await reader(OWNER).gateAction(request);
    expect(gated.action?.state).toBe(ActionState.GATED);
    expect(gated.receipt).toMatchObject({
      receiptClass: ReceiptClass.GATE,
      kind: 'gate',
      status: 'passed',
      externalId: request.approvalId,
      signatureJws: request.signatureJws,
    });
    expect(hex(gated.receipt?.evidence)).toBe(hex(request.evidence));

    const held = await parties.worker.leaseNext({ scope: { actionIds: [actionId] } });
    expect(held?.lease).toMatchObject({ holderSpiffeId: WORKER });
    if (!held) return;
    const view = await parties.worker.view(held);
    expect(view.receipts.map(({ receiptKey }) => receiptKey)).toEqual([request.receiptKey]);
    const gate = {
      gateReceiptKey: request.receiptKey ?? '',
      approvalId: request.approvalId ?? '',
      decisionId: request.decisionId ?? '',
    };
    const { action: dispatched, contract } = await parties.worker.beginDispatch(held, {
      ...dispatchWish(gate),
      authorization: {
        viewDigest: view.viewDigest,
        authorizationExpireTime: { seconds: (view.storeTime?.seconds ?? 0n) + 60n, nanos: 0 },
      },
    });
    expect(dispatched).toMatchObject({ state: ActionState.DISPATCHED, attemptCount: 1 });
    expect(contract).toMatchObject({
      receiptClass: ReceiptClass.RECOVERY,
      status: 'observation_only',
      externalId: Buffer.from(EXECUTION).toString('hex'),
    });

    const mine = { action: dispatched as NonNullable<typeof dispatched>, lease: held.lease };
    const accepted = await parties.worker.accept(mine, receipt('accepted-1'));
    expect(accepted.action?.acceptanceReceiptKey).toBe('accepted-1');
    await reader(HARNESS).addReceipt({ actionId, receipt: receipt('seen-1', 'inbox', 'seen') });
    const verified = await parties.worker.verify(mine, ['accepted-1', 'seen-1']);
    expect(verified.action?.state).toBe(ActionState.VERIFIED);
    const completed = await parties.worker.complete(mine, digest('done'));
    expect(completed.state).toBe(ActionState.COMPLETED);
    expect(hex(completed.resultDigest)).toBe(hex(digest('done')));
    expect(completed.lease).toBeUndefined();

    const { events } = await reader(AUDITOR).listEvents({ actionId, domainId: ACME });
    expect(events.map(({ kind }) => ActionEventKind[kind])).toEqual([
      'PROPOSED',
      'GATED',
      'LEASED',
      'DISPATCHED',
      'ACCEPTED',
      'RECEIPT_ADDED',
      'VERIFIED',
      'COMPLETED',
    ]);
    const { receipts } = await reader(HARNESS).listReceipts({ actionId });
    expect(receipts.map(({ receiptKey }) => receiptKey)).toEqual([
      request.receiptKey,
      contract?.receiptKey,
      'accepted-1',
      'seen-1',
    ]);
    for (const { evidence, evidenceDigest } of receipts) {
      expect(Buffer.from(evidenceDigest)).toEqual(createHash('sha256').update(evidence).digest());
    }
  });

  test('whose answer was lost is observed, and ends as ambiguous where the budget is used', async () => {
    const { held } = await parties.dispatched();
    const first = await parties.worker.beginObservation(held);
    expect(first).toMatchObject({ observationNumber: 1, observation: { status: 'started' } });
    const second = await parties.worker.beginObservation(held);
    expect(second.observationNumber).toBe(2);
    const ended = await parties.worker.beginObservation(held);
    expect(ended.observation).toBeUndefined();
    expect(ended.action).toMatchObject({
      state: ActionState.FAILED,
      failureReason: FailureReason.OBSERVATIONS_EXHAUSTED,
      attemptCount: 1,
    });
    const { actionId } = held.action;
    const { deadLetters } = await reader(OPERATOR).listDeadLetters({
      domainId: ACME,
      failureReason: FailureReason.OBSERVATIONS_EXHAUSTED,
    });
    expect(deadLetters.map((letter) => letter.actionId)).toContain(actionId);
  });

  test('is refused by its owner', async () => {
    const { actionId } = await parties.propose();
    const request = await parties.owner.rejection(await parties.owner.look(actionId));
    const { action, receipt: decision } = await reader(OWNER).rejectAction(request);
    expect(action).toMatchObject({ state: ActionState.FAILED, failureReason: FailureReason.REJECTED });
    expect(decision).toMatchObject({ kind: 'gate', status: 'rejected' });
    expect((await reader(OWNER).rejectAction(request)).duplicate).toBe(true);
  });
});

test('a condition that does not compile is refused when it is set, by its rule', async () => {
  const put = (expression: string) =>
    world.admin.execute(ACME, {
      case: 'putActionCondition',
      value: { actionCondition: { actionType: 'other', expression, status: RecordStatus.ACTIVE } },
    });
  const { reason, violations } = await refusedWith(put('payload.to.exists(x, x == "all")'));
  expect(reason).toBe('FIELD_INVALID');
  expect(violations).toEqual([
    {
      field: 'command_jws.put_action_condition.action_condition.expression',
      description: 'must not use a comprehension (all, exists, exists_one, filter, map)',
    },
  ]);
  await put('payload.amount <= 100');
});

describe('a call whose answer was lost (actions.md, Repeating)', () => {
  test('is answered like the first, but for BeginDispatch, which is refused', async () => {
    const proposal = parties.proposal();
    const first = await parties.proposer.proposeAction(proposal);
    expect(await parties.proposer.proposeAction(proposal)).toMatchObject({
      duplicate: true,
      action: { actionId: first.action?.actionId },
    });
    const other = await refusedWith(parties.proposer.proposeAction({ ...proposal, sourceRef: 'other' }));
    expect(other).toMatchObject({
      code: 'ALREADY_EXISTS',
      reason: 'ACTION_IDEMPOTENCY_CONFLICT',
      metadata: { field: 'source_ref' },
    });

    const { gate, held } = await parties.leased();
    await parties.dispatch(held, gate);
    expect(await refusedWith(parties.dispatch(held, gate))).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'ACTION_STATE_CONFLICT',
      metadata: { state: 'DISPATCHED' },
    });
  });

  test('of a lease gives the lease that the first call gave', async () => {
    const { action } = await parties.gated();
    const request = {
      requestId: `request-of-${action.actionId}`.slice(0, 64),
      scope: { actionIds: [action.actionId] },
      leaseDuration: { seconds: 60n, nanos: 0 },
      registrationId: parties.worker.registration.registrationId,
    };
    const first = await parties.worker.actions.leaseNext(request);
    const again = await parties.worker.actions.leaseNext(request);
    expect(again).toMatchObject({ duplicate: true, lease: { leaseToken: first.lease?.leaseToken } });
    expect(
      await refusedWith(
        parties.worker.actions.leaseNext({ ...request, leaseDuration: { seconds: 61n, nanos: 0 } }),
      ),
    ).toMatchObject({ reason: 'REQUEST_ID_CONFLICT' });
  });
});

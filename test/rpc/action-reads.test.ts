import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ActionState, FailureReason } from '../../src/gen/surety/action/v1/action_pb.js';
import { ActionEventKind } from '../../src/gen/surety/action/v1/event_pb.js';
import type { WatchActionsResponse } from '../../src/gen/surety/action/v1/action_service_pb.js';
import { Refused } from '../../src/ledger/run-decision.js';
import { callerOf } from '../support/effect-world.js';
import { reasonOf } from '../support/handlers.js';
import {
  ActionServiceWorld,
  AUDITOR,
  MAILER,
  OLGA,
  OPERATOR,
  OTHER_WORKER,
  PLANNER,
  SALES,
} from './action-service-world.js';
import { type Peer, refusalOf } from './effect-service-world.js';

let service: ActionServiceWorld;
/** Proposed by the harness, of the source `support`; the mailer held it once, and the owner refused it then. */
let support: string;
/** Proposed by the other worker, of the source `sales`. */
let sales: string;
const watches: AbortController[] = [];

beforeAll(async () => {
  service = await ActionServiceWorld.open();
  const { action, gate } = await service.gated();
  support = action.actionId;
  const leaseToken = await service.lease(support);
  expect(leaseToken).toBeGreaterThan(0n);
  expect(gate.actionId).toBe(support);
  await service.call('failAction', MAILER, { actionId: support, leaseToken, detail: 'the address is gone' });
  sales = (await service.propose({ source: 'sales' }, OTHER_WORKER)).actionId;
});
afterAll(async () => {
  for (const watch of watches) watch.abort();
  await service.close();
});

const EVERYBODY: readonly (readonly [string, Peer, boolean, boolean])[] = [
  ['its proposer', PLANNER, true, false],
  ['a worker that held it', MAILER, true, false],
  ['a worker that proposed the other', OTHER_WORKER, false, true],
  ['the owner of everything', OLGA, true, true],
  ['the owner of the other source', SALES, false, true],
  ['an operator', OPERATOR, true, true],
  ['an auditor', AUDITOR, true, true],
];

describe.each(EVERYBODY)('%s', (_, peer, seesSupport, seesSales) => {
  const seen = () => [...(seesSupport ? [support] : []), ...(seesSales ? [sales] : [])];

  test('reads an action, its receipts and its events, or nothing of it', async () => {
    for (const [actionId, sees] of [
      [support, seesSupport],
      [sales, seesSales],
      ['act_absent', false],
    ] as const) {
      const expected = sees ? 'none' : 'NOT_VISIBLE';
      expect(await reasonOf(service.call('getAction', peer, { actionId }))).toBe(expected);
      expect(await reasonOf(service.call('listReceipts', peer, { actionId }))).toBe(expected);
      expect(await reasonOf(service.call('listEvents', peer, { actionId }))).toBe(expected);
    }
  });

  test('lists what it may see, and what is left of what failed', async () => {
    const { actions } = await service.call('listActions', peer, {});
    expect(actions.map(({ actionId }) => actionId)).toEqual(seen());
    for (const { payload } of actions) expect(payload).toHaveLength(0);
    const { deadLetters } = await service.call('listDeadLetters', peer, {});
    expect(deadLetters.map(({ actionId }) => actionId)).toEqual(seesSupport ? [support] : []);
  });

  test('watches the events of what it may see, in the order of the log', async () => {
    const events = await watched(peer, seesSupport ? 4 : 1);
    const expected = seesSupport ? ['PROPOSED', 'GATED', 'LEASED', 'FAILED'] : [];
    expect(
      events.filter(({ actionId }) => actionId === support).map(({ kind }) => ActionEventKind[kind]),
    ).toEqual(expected);
    const ids = new Set(events.map(({ actionId }) => actionId));
    if (!seesSales) expect(ids).not.toContain(sales);
    const positions = events.map(({ auditPosition }) => auditPosition);
    expect(positions).toEqual(positions.toSorted((a, b) => (a < b ? -1 : 1)));
  });
});

/** The events that a watch tells from the beginning, so many at least. */
async function watched(peer: Peer, count: number) {
  const controller = new AbortController();
  watches.push(controller);
  const messages: WatchActionsResponse[] = [];
  const watching = (async () => {
    for await (const message of service.watch(peer, {}, controller.signal)) messages.push(message);
  })();
  const events = () => messages.flatMap(({ event }) => (event ? [event] : []));
  for (let waited = 0; events().length < count && waited < 60_000; waited += 20) await sleep(20);
  controller.abort();
  await watching;
  expect([messages[0]?.position, messages[0]?.event]).toEqual([0n, undefined]);
  for (const { position, event } of messages) if (event) expect(event.auditPosition).toBe(position);
  return events();
}

test('a watch resumes behind a position, of one action alone where it says so', async () => {
  const { events } = await service.call('listEvents', OPERATOR, { actionId: support });
  const controller = new AbortController();
  const told: bigint[] = [];
  const request = { afterPosition: events[1]?.auditPosition ?? 0n, actionId: support };
  for await (const { event } of service.watch(OPERATOR, request, controller.signal)) {
    if (event) told.push(event.eventNumber);
    if (told.length === 2) break;
  }
  controller.abort();
  expect(told).toEqual([3n, 4n]);
  await service.call('addReceipt', PLANNER, {
    actionId: support,
    receipt: {
      receiptKey: 'late',
      kind: 'inbox',
      status: 'seen',
      evidence: Uint8Array.from(Buffer.from('{}')),
    },
  });
  const all = await service.call('listEvents', OPERATOR, { actionId: support });
  const one = service.watch(
    OPERATOR,
    { ...request, afterPosition: events[3]?.auditPosition ?? 0n },
    new AbortController().signal,
  );
  const next: bigint[] = [];
  for await (const { event } of one) {
    if (event) next.push(event.auditPosition);
    if (next.length === 1) break;
  }
  expect(next).toEqual([all.events.at(-1)?.auditPosition]);
});

test('lists are narrowed by state, source, type and reason', async () => {
  const ids = async (over: object) =>
    (await service.call('listActions', OPERATOR, over)).actions.map(({ actionId }) => actionId);
  expect(await ids({ state: ActionState.FAILED })).toEqual([support]);
  expect(await ids({ source: 'sales' })).toEqual([sales]);
  expect(await ids({ type: 'mail.reply', state: ActionState.PROPOSED })).toEqual([sales]);
  expect(await ids({ type: 'other' })).toEqual([]);
  const { deadLetters } = await service.call('listDeadLetters', OPERATOR, {
    failureReason: FailureReason.REJECTED,
  });
  expect(deadLetters).toEqual([]);
});

test('a stranger learns nothing, whatever it was admitted as', async () => {
  const nobody = callerOf('spiffe://acme.test/worker/nobody');
  for (const kind of ['worker', 'owner', 'operator', 'auditor', 'harness'] as const) {
    const reason = await reasonOf(service.call('getAction', { caller: nobody, kind }, { actionId: support }));
    expect([
      'NOT_VISIBLE',
      'CALLER_UNKNOWN',
      'OWNER_NOT_CURRENT',
      'CREDENTIAL_MISSING',
      'HARNESS_MISSING',
    ]).toContain(reason);
  }
});

describe('stored rows that contradict their digests are told, never shown', () => {
  test('a payload', async () => {
    const { actionId } = await service.propose();
    await service.tamper(`UPDATE actions SET payload = '{}' WHERE action_id = $1`, [actionId]);
    expect(await refusalOf(service.call('getAction', PLANNER, { actionId }))).toMatchObject({
      reason: 'DATA_CORRUPT',
      metadata: { record: `action/${actionId}` },
    });
    expect(await refusalOf(service.call('listActions', OPERATOR, {}))).toMatchObject({
      reason: 'DATA_CORRUPT',
    });
    // To others it looks like one that is not theirs.
    expect(await reasonOf(service.call('getAction', SALES, { actionId }))).toBe('NOT_VISIBLE');
    await service.tamper('UPDATE actions SET payload = $2 WHERE action_id = $1', [
      actionId,
      Buffer.from(JSON.stringify({ tool_name: 'mail.send', amount: 100 })),
    ]);
    expect(await reasonOf(service.call('getAction', PLANNER, { actionId }))).toBe('none');
  });

  test('a piece of evidence, an event, a snapshot', async () => {
    const { action, gate } = await service.gated();
    const { actionId } = action;
    await service.tamper(`UPDATE action_receipts SET evidence = '{}' WHERE action_id = $1`, [actionId]);
    expect(await refusalOf(service.call('listReceipts', PLANNER, { actionId }))).toMatchObject({
      reason: 'DATA_CORRUPT',
      metadata: { record: `action_receipt/${actionId}/gate/${gate.receiptKey}` },
    });
    await service.tamper('DELETE FROM action_events WHERE action_id = $1 AND event_number = 1', [actionId]);
    expect(await refusalOf(service.call('listEvents', PLANNER, { actionId }))).toMatchObject({
      reason: 'DATA_CORRUPT',
      metadata: { record: `action/${actionId}/1` },
    });
    await service.tamper(`UPDATE dead_letters SET snapshot = '{}' WHERE action_id = $1`, [support]);
    expect(await refusalOf(service.call('listDeadLetters', OPERATOR, {}))).toMatchObject({
      reason: 'DATA_CORRUPT',
      metadata: { record: `dead_letter/${support}` },
    });
  });

  test('the view of a leaseholder', async () => {
    const { action, gate } = await service.gated();
    const { actionId } = action;
    const leaseToken = await service.lease(actionId);
    const view = await service.call('getDispatchView', MAILER, { actionId, leaseToken });
    expect(view.receipts.map(({ receiptKey }) => receiptKey)).toEqual([gate.receiptKey]);
    expect(await reasonOf(service.call('getDispatchView', OTHER_WORKER, { actionId, leaseToken }))).toBe(
      'NOT_VISIBLE',
    );
    const stale = service.call('getDispatchView', MAILER, { actionId, leaseToken: leaseToken + 1n });
    expect(await refusalOf(stale)).toMatchObject({ reason: 'LEASE_LOST', metadata: { rule: 'token' } });
    await service.tamper(`UPDATE action_receipts SET evidence = '{}' WHERE action_id = $1`, [actionId]);
    const changed = service.call('getDispatchView', MAILER, { actionId, leaseToken });
    await expect(changed).rejects.toThrow(Refused);
  });

  test('an action that is gone, in a watch, when what stands before was told', async () => {
    const [first, second, gone] = [await service.propose(), await service.propose(), await service.propose()];
    const { events } = await service.call('listEvents', PLANNER, { actionId: first.actionId });
    const afterPosition = (events[0]?.auditPosition ?? 0n) - 1n;
    await service.tamper('DELETE FROM actions WHERE action_id = $1', [gone.actionId]);
    const told: (string | undefined)[] = [];
    const watching = async (): Promise<void> => {
      const { signal } = new AbortController();
      for await (const { event } of service.watch(OPERATOR, { afterPosition }, signal))
        told.push(event?.actionId);
    };
    expect(await refusalOf(watching())).toMatchObject({
      reason: 'DATA_CORRUPT',
      metadata: { record: `action/${gone.actionId}`, position: expect.stringMatching(/^\d+$/) },
    });
    expect(told).toEqual([undefined, first.actionId, second.actionId]);
  });
});

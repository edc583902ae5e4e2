import { beforeEach, describe, expect, it } from 'vitest';
import { acceptAction } from '../../../src/ledger/action/accept-action.js';
import { addReceipt } from '../../../src/ledger/action/add-receipt.js';
import { beginDispatch } from '../../../src/ledger/action/begin-dispatch.js';
import { beginObservation } from '../../../src/ledger/action/begin-observation.js';
import { completeAction } from '../../../src/ledger/action/complete-action.js';
import { deferLeased } from '../../../src/ledger/action/defer-leased.js';
import { deferObservation } from '../../../src/ledger/action/defer-observation.js';
import { failAction } from '../../../src/ledger/action/fail-action.js';
import { leaseNext } from '../../../src/ledger/action/lease-next.js';
import { leaseObservation } from '../../../src/ledger/action/lease-observation.js';
import { verifyAction } from '../../../src/ledger/action/verify-action.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { MINUTE, SECOND } from '../../../src/ledger/types.js';
import { ActionWorld, EXECUTION_DIGEST } from './action-world.js';

let world: ActionWorld;
beforeEach(() => {
  world = new ActionWorld();
});

describe('an action', () => {
  it('goes from its proposal to its end, with an event and an entry in the log for each step', () => {
    const verified = world.verified();
    const { action } = world.done(completeAction, { ...world.held(verified), resultDigest: sha256('done') });
    expect(action).toMatchObject({
      state: 'COMPLETED',
      attemptCount: 1,
      leaseToken: null,
      leaseHolder: null,
      resultDigest: sha256('done'),
      endedAt: world.now,
    });
    expect(world.events(action.actionId)).toEqual([
      'proposed',
      'gated',
      'leased',
      'dispatched',
      'accepted',
      'verified',
      'completed',
    ]);
    expect(action.eventCount).toBe(7n);
    expect(world.store.all('audit_entries')).toHaveLength(7);
    expect(world.store.all('action_events').map(({ auditSeq }) => auditSeq)).toEqual(
      world.store.all('audit_entries').map(({ seq }) => seq),
    );
    expect(world.store.all('dead_letters')).toEqual([]);
  });

  it('is observed where its outcome is in doubt, then accepted', () => {
    const action = world.dispatched();
    const executionDigest = EXECUTION_DIGEST;
    const first = world.done(beginObservation, {
      ...world.held(action),
      requestId: 'observation-request-1',
      executionDigest,
    });
    expect(first).toMatchObject({ observationNumber: 1, observation: { status: 'started' } });
    world.done(deferObservation, {
      ...world.held(first.action),
      executionDigest,
      observationNumber: 1,
      delay: MINUTE,
    });
    const later = world.lease();
    expect(world.done(leaseNext, world.lease()).leased).toBeUndefined();
    expect(world.done(leaseObservation, later).leased).toBeUndefined();
    world.advance(MINUTE);
    expect(world.done(leaseNext, world.lease()).leased).toBeUndefined();
    const again = world.done(leaseObservation, later).leased?.action;
    if (!again) throw new Error('not leased');
    const { action: accepted } = world.done(acceptAction, { ...world.held(again), receipt: world.receipt() });
    expect(accepted).toMatchObject({ state: 'ACCEPTED', attemptCount: 1, observationCount: 1 });
  });

  it('fails for ever, whatever is said of trying again', () => {
    const action = world.dispatched();
    const reply = world.done(failAction, {
      ...world.held(action),
      detail: 'the provider said no',
      resultDigest: sha256('no'),
      retryable: true,
    });
    expect(reply.action).toMatchObject({ state: 'FAILED', failureReason: 'worker', retryable: true });
    expect(reply.deadLetter).toMatchObject({
      fromState: 'DISPATCHED',
      detail: 'the provider said no',
      retryable: true,
    });
    const snapshot = JSON.parse(reply.deadLetter.snapshot.toString());
    expect(snapshot).toMatchObject({ action_id: action.actionId, state: 'DISPATCHED', attempt_count: 1 });
    expect(snapshot).not.toHaveProperty('payload');
    world.advance(MINUTE * 60n);
    expect(world.done(leaseNext, world.lease()).leased).toBeUndefined();
    expect(world.done(leaseObservation, world.lease()).leased).toBeUndefined();
    expect(world.refused(beginDispatch, world.dispatch(action))).toBe('ACTION_STATE_CONFLICT FAILED');
  });
});

describe('a call whose answer was lost', () => {
  it('is answered again, also after the lease went', () => {
    const dispatched = world.dispatched();
    const accept = { ...world.held(dispatched), receipt: world.receipt() };
    const accepted = world.done(acceptAction, accept);
    expect(accepted.duplicate).toBe(false);
    const witnessReceiptKeys = [accept.receipt.receiptKey];
    const verify = { ...world.held(accepted.action), witnessReceiptKeys, receipt: world.receipt() };
    const verified = world.done(verifyAction, verify);
    const complete = { ...world.held(verified.action), resultDigest: sha256('result') };
    world.done(completeAction, complete);
    const { head } = world.store;
    expect(world.done(acceptAction, accept)).toMatchObject({
      duplicate: true,
      receipt: { receiptKey: accept.receipt.receiptKey },
      action: { state: 'COMPLETED' },
    });
    expect(world.done(verifyAction, verify)).toMatchObject({
      duplicate: true,
      receipt: { receiptKey: verify.receipt.receiptKey },
    });
    expect(world.done(completeAction, complete).duplicate).toBe(true);
    expect(world.store.head).toBe(head);
    expect(world.refused(completeAction, { ...complete, resultDigest: sha256('another') })).toBe(
      'ACTION_STATE_CONFLICT COMPLETED',
    );
  });

  it('defers once', () => {
    const held = world.heldForDispatch();
    const defer = { ...world.held(held), delay: 5n * SECOND };
    expect(world.done(deferLeased, defer)).toMatchObject({
      duplicate: false,
      action: { leaseToken: null, nextAttemptAt: world.now + 5n * SECOND },
    });
    world.advance(5n * SECOND);
    const again = world.leased(held);
    expect(world.done(deferLeased, defer).duplicate).toBe(true);
    expect(world.action(held.actionId).leaseToken).toBe(again.leaseToken);
    expect(world.refused(deferLeased, { ...defer, delay: 6n * SECOND })).toBe('LEASE_LOST token');
  });

  it('fails once', () => {
    const held = world.heldForDispatch();
    const fail = { ...world.held(held), detail: 'no', resultDigest: null, retryable: false };
    const { deadLetter } = world.done(failAction, fail);
    expect(world.done(failAction, fail)).toMatchObject({ duplicate: true, deadLetter });
    expect(world.refused(failAction, { ...fail, detail: 'because' })).toBe('ACTION_STATE_CONFLICT FAILED');
  });

  it('records a receipt once', () => {
    const action = world.proposed();
    const add = {
      ...world.base(),
      caller: world.propose().caller,
      kind: 'harness' as const,
      actionId: action.actionId,
      receipt: world.receipt(),
    };
    const first = world.done(addReceipt, add);
    const again = world.done(addReceipt, add);
    expect(again).toMatchObject({ duplicate: true, receipt: first.receipt });
    for (const [field, over] of [
      ['kind', { kind: 'x' }],
      ['status', { status: 'x' }],
      ['external_id', { externalId: 'x' }],
      ['evidence', { evidence: Buffer.from('{}') }],
    ] as const) {
      const receipt = { ...add.receipt, ...over };
      expect(world.refused(addReceipt, { ...add, receipt })).toBe(`RECEIPT_CONFLICT ${field}`);
    }
  });

  it('dispatches never twice', () => {
    const held = world.heldForDispatch();
    const dispatch = world.dispatch(held);
    world.done(beginDispatch, dispatch);
    expect(world.refused(beginDispatch, dispatch)).toBe('ACTION_STATE_CONFLICT DISPATCHED');
  });
});

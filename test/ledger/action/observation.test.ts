import { beforeEach, describe, expect, it } from 'vitest';
import { beginDispatch } from '../../../src/ledger/action/begin-dispatch.js';
import { beginObservation } from '../../../src/ledger/action/begin-observation.js';
import { deferObservation } from '../../../src/ledger/action/defer-observation.js';
import { ENDED_PER_LEASE } from '../../../src/ledger/action/limits.js';
import { leaseObservation } from '../../../src/ledger/action/lease-observation.js';
import { reapLease } from '../../../src/ledger/action/reap-lease.js';
import type { ActionReceiptRow, ActionRow } from '../../../src/ledger/action/records.js';
import { restoreAction } from '../../../src/ledger/action/restore-action.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { MINUTE, SECOND } from '../../../src/ledger/types.js';
import { ActionWorld, EXECUTION_DIGEST } from './action-world.js';

// actions.md, I5 to I7 and Contract and journal.

let world: ActionWorld;
beforeEach(() => {
  world = new ActionWorld();
});

function observe(action: ActionRow, over: object = {}) {
  return {
    ...world.held(action),
    requestId: world.newId('observation-request'),
    executionDigest: EXECUTION_DIGEST,
    ...over,
  };
}

function defer(action: ActionRow, observationNumber: number, over: object = {}) {
  const executionDigest = EXECUTION_DIGEST;
  return { ...world.held(action), executionDigest, observationNumber, delay: SECOND, ...over };
}

/** What an action must be that ended as ambiguous. */
function expectAmbiguous(actionId: string, reason: string): void {
  const action = world.action(actionId);
  expect(action).toMatchObject({
    state: 'FAILED',
    failureReason: reason,
    attemptCount: 1,
    leaseToken: null,
    retryable: false,
  });
  const letter = world.store.get('dead_letters', actionId);
  expect(JSON.parse(letter?.detail ?? '')).toEqual({
    result: 'ambiguous',
    effect_state: 'unknown',
    execution_digest: EXECUTION_DIGEST.toString('hex'),
    attempts: 1,
    observations: action.observationCount,
    reason,
  });
  expect(action.resultDigest).toEqual(sha256(letter?.detail ?? ''));
  expect(letter).toMatchObject({ failureReason: reason, fromState: 'DISPATCHED', auditSeq: action.lastSeq });
  expect(world.events(actionId).at(-1)).toBe('failed');
}

describe('an observation', () => {
  it('is journalled before it is made, up to the budget; then the action ends as ambiguous', () => {
    let action = world.dispatched();
    for (const number of [1, 2]) {
      const reply = world.done(beginObservation, observe(action));
      expect(reply).toMatchObject({ observationNumber: number, duplicate: false });
      expect(JSON.parse(reply.observation?.evidence.toString() ?? '')).toEqual({
        version: 1,
        action_id: action.actionId,
        execution_digest: EXECUTION_DIGEST.toString('hex'),
        attempt: number,
        started_at: Number(world.now),
      });
      action = reply.action;
      world.advance(SECOND);
    }
    const last = world.done(beginObservation, observe(action));
    expect(last).toMatchObject({ observation: undefined, observationNumber: 0 });
    expectAmbiguous(action.actionId, 'observations_exhausted');
  });

  it('is refused past the deadline, and ends the action', () => {
    const held = world.leased(world.gated(), { duration: 60n * MINUTE });
    const action = world.done(beginDispatch, world.dispatch(held)).action;
    world.advance(10n * MINUTE);
    expect(world.done(beginObservation, observe(action)).observation).toBeUndefined();
    expectAmbiguous(action.actionId, 'observation_deadline');
  });

  it('is of the very dispatch', () => {
    const action = world.dispatched();
    expect(world.refused(beginObservation, observe(action, { executionDigest: sha256('x') }))).toBe(
      'EXPECTATION_MISMATCH execution_digest',
    );
  });

  it('is answered again to the same request', () => {
    const action = world.dispatched();
    const ask = observe(action);
    const first = world.done(beginObservation, ask);
    world.done(beginObservation, observe(first.action));
    const { head } = world.store;
    expect(world.done(beginObservation, ask)).toMatchObject({
      duplicate: true,
      observation: first.observation,
      observationNumber: 1,
    });
    expect(world.store.head).toBe(head);
    expect(world.refused(beginObservation, { ...ask, executionDigest: sha256('x') })).toBe(
      'REQUEST_ID_CONFLICT',
    );
  });
});

describe('a defer', () => {
  it('is cut to the deadline', () => {
    const action = world.dispatched();
    const { action: deferred } = world.done(deferObservation, defer(action, 0, { delay: 60n * MINUTE }));
    expect(deferred).toMatchObject({ leaseToken: null, nextAttemptAt: action.observationDeadline });
  });

  it('names the current observation, and the dispatch', () => {
    const action = world.dispatched();
    const observed = world.done(beginObservation, observe(action)).action;
    expect(world.refused(deferObservation, defer(observed, 0))).toBe(
      'EXPECTATION_MISMATCH observation_number',
    );
    expect(world.refused(deferObservation, defer(observed, 1, { executionDigest: sha256('x') }))).toBe(
      'EXPECTATION_MISMATCH execution_digest',
    );
  });

  it('ends the action where nothing is left', () => {
    let action = world.dispatched();
    for (const _ of [1, 2]) action = world.done(beginObservation, observe(action)).action;
    const command = defer(action, 2);
    expect(world.done(deferObservation, command).action.state).toBe('FAILED');
    expectAmbiguous(action.actionId, 'observations_exhausted');
    expect(world.done(deferObservation, command).duplicate).toBe(true);
  });
});

describe('a lease to observe', () => {
  const lease = () => world.done(leaseObservation, world.lease());

  it('takes what is DISPATCHED and lost its holder, and nothing else', () => {
    world.gated();
    const action = world.dispatched();
    expect(lease().leased).toBeUndefined();
    world.advance(MINUTE);
    expect(lease()).toMatchObject({ ended: 0, leased: { action: { actionId: action.actionId } } });
    expect(lease().leased).toBeUndefined();
  });

  it('ends on the way what cannot be observed any more, and skips it', () => {
    const late = world.dispatched({ observationWindow: 30n * SECOND });
    let used = world.dispatched();
    for (const _ of [1, 2]) used = world.done(beginObservation, observe(used)).action;
    const good = world.dispatched();
    world.advance(MINUTE);
    expect(lease()).toMatchObject({ ended: 2, leased: { action: { actionId: good.actionId } } });
    expectAmbiguous(late.actionId, 'observation_deadline');
    expectAmbiguous(used.actionId, 'observations_exhausted');
  });

  it("ends so many at most, and says so: what is behind them is the next call's", () => {
    for (let n = 0; n < 2 * ENDED_PER_LEASE + 5; n += 1)
      world.dispatched({ observationWindow: 30n * SECOND });
    const good = world.dispatched();
    world.advance(MINUTE);
    expect(lease()).toMatchObject({ ended: ENDED_PER_LEASE, leased: undefined });
    expect(lease()).toMatchObject({ ended: ENDED_PER_LEASE, leased: undefined });
    expect(lease()).toMatchObject({ ended: 5, leased: { action: { actionId: good.actionId } } });
    expect(lease()).toMatchObject({ ended: 0, leased: undefined });
  });

  it('is answered again to the same request', () => {
    world.dispatched();
    world.advance(MINUTE);
    const ask = world.lease();
    const first = world.done(leaseObservation, ask);
    expect(world.done(leaseObservation, ask)).toMatchObject({ leased: first.leased, duplicate: true });
  });
});

describe('a contract or journal that is off', () => {
  /** Changes a receipt as nobody can without the triggers off; its digest is made right again. */
  function forge(row: ActionReceiptRow, over: object, columns: Partial<ActionReceiptRow> = {}): void {
    const evidence = Buffer.from(JSON.stringify({ ...JSON.parse(row.evidence.toString()), ...over }));
    world.store.put('action_receipts', { ...row, evidence, evidenceDigest: sha256(evidence), ...columns });
  }

  function contractOf(action: ActionRow): ActionReceiptRow {
    return world.receipts(action.actionId, 'recovery')[0] as ActionReceiptRow;
  }

  it.each([
    ['version', { version: 3 }],
    ['version without its member', { version: 2 }],
    ['action', { action_id: 'act_another' }],
    ['payload', { payload_digest: sha256('x').toString('hex') }],
    ['request', { execution_digest: sha256('x').toString('hex') }],
    ['issue time', { issued_at: 1 }],
    ['deadline', { deadline: 9_000_000_000_000_000 }],
    ['budget', { budget: 100 }],
    ['budget', { budget: 0 }],
    ['extra member', { extra: 1 }],
    ['missing member', { budget: undefined }],
  ])('ends the action as ambiguous: %s', (_, over) => {
    const action = world.dispatched();
    forge(contractOf(action), over);
    expect(world.done(beginObservation, observe(action)).observation).toBeUndefined();
    expectAmbiguous(action.actionId, 'contract_invalid');
  });

  it.each([
    ['status', { status: 'anything' }],
    ['external id', { externalId: 'x' }],
    ['kind', { kind: 'x' }],
    ['creation', { createdAt: 1n }],
    ['digest', { evidenceDigest: sha256('x') }],
  ])("ends the action as ambiguous: the contract's %s", (_, columns) => {
    const action = world.dispatched();
    forge(contractOf(action), {}, columns);
    expect(world.done(deferObservation, defer(action, 0)).action.state).toBe('FAILED');
    expectAmbiguous(action.actionId, 'contract_invalid');
  });

  it.each([
    ['number', { attempt: 2 }],
    ['start', { started_at: 1 }],
    ['request', { execution_digest: 'x' }],
    ['action', { action_id: 'x' }],
    ['extra member', { extra: 1 }],
  ])('ends the action as ambiguous: the %s of an observation', (_, over) => {
    const action = world.dispatched();
    const { action: observed, observation } = world.done(beginObservation, observe(action));
    if (!observation) throw new Error('no observation');
    forge(observation, over);
    expect(world.done(beginObservation, observe(observed)).observation).toBeUndefined();
    expectAmbiguous(action.actionId, 'journal_invalid');
  });

  it('ends what is reaped, with or without a lease', () => {
    const reap = (actionId: string) => world.done(reapLease, { ...world.base(), actionId }).outcome;
    const action = world.dispatched();
    const deferred = world.done(deferObservation, defer(world.dispatched(), 0)).action;
    expect(reap(action.actionId)).toBe('nothing');
    expect(reap(deferred.actionId)).toBe('nothing');
    for (const one of [action, deferred]) forge(contractOf(one), { extra: 1 });
    expect(reap(deferred.actionId)).toBe('ended');
    expect(reap(action.actionId)).toBe('nothing');
    world.advance(MINUTE);
    expect(reap(action.actionId)).toBe('ended');
    expectAmbiguous(action.actionId, 'contract_invalid');
    const good = world.dispatched();
    world.advance(MINUTE);
    expect(reap(good.actionId)).toBe('released');
    world.advance(10n * MINUTE);
    expect(reap(good.actionId)).toBe('ended');
    expectAmbiguous(good.actionId, 'observation_deadline');
  });
});

describe('a restore', () => {
  it('ends what was GATED or DISPATCHED in the backup as ambiguous, and nothing of the present', () => {
    const actions = [world.proposed(), world.gated(), world.dispatched(), world.accepted()];
    const restored = () =>
      actions.map(({ actionId }) => world.done(restoreAction, { ...world.base(), actionId }).changed);
    expect(restored()).toEqual([false, false, false, false]);
    world.store.incarnation = 2n;
    expect(restored()).toEqual([false, true, true, false]);
    expect(actions.map(({ actionId }) => world.action(actionId).failureReason)).toEqual([
      null,
      'restored',
      'restored',
      null,
    ]);
  });
});

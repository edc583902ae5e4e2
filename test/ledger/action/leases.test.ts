import { beforeEach, describe, expect, it } from 'vitest';
import { acceptAction } from '../../../src/ledger/action/accept-action.js';
import { beginObservation } from '../../../src/ledger/action/begin-observation.js';
import type { HolderCommand, LeaseNext } from '../../../src/ledger/action/commands.js';
import { completeAction } from '../../../src/ledger/action/complete-action.js';
import { deferLeased } from '../../../src/ledger/action/defer-leased.js';
import { deferObservation } from '../../../src/ledger/action/defer-observation.js';
import { failAction } from '../../../src/ledger/action/fail-action.js';
import { leaseNext } from '../../../src/ledger/action/lease-next.js';
import { reapLease } from '../../../src/ledger/action/reap-lease.js';
import type { ActionRow } from '../../../src/ledger/action/records.js';
import { verifyAction } from '../../../src/ledger/action/verify-action.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { HOUR, MINUTE, SECOND } from '../../../src/ledger/types.js';
import { ActionWorld, callerOf, EXECUTION_DIGEST, OTHER_WORKER, WORKER } from './action-world.js';

let world: ActionWorld;
beforeEach(() => {
  world = new ActionWorld();
});

const next = (over: Partial<LeaseNext> = {}): string | undefined =>
  world.done(leaseNext, world.lease(over)).leased?.action.actionId;
const scope = (over: object) => ({
  scope: { source: null, sourcePrefix: null, types: [], actionIds: [], ...over },
});

/** What each call of a leaseholder is refused for. */
function everyCall(action: ActionRow, held: HolderCommand): string[] {
  const executionDigest = EXECUTION_DIGEST;
  const { actionId } = action;
  return [
    world.refused(deferObservation, { ...held, executionDigest, observationNumber: 0, delay: SECOND }),
    world.refused(beginObservation, { ...held, executionDigest, requestId: world.newId('request') }),
    world.refused(acceptAction, { ...held, receipt: world.receipt() }),
    world.refused(verifyAction, { ...held, witnessReceiptKeys: [actionId], receipt: null }),
    world.refused(completeAction, { ...held, resultDigest: sha256('x') }),
    world.refused(deferLeased, { ...held, delay: SECOND }),
    world.refused(failAction, { ...held, detail: 'no', resultDigest: null, retryable: false }),
  ];
}

describe('the next action', () => {
  it('is the one whose turn it is: by the next attempt, then by creation, then by id', () => {
    const first = world.gated();
    const second = world.gated();
    world.advance(SECOND);
    const third = world.gated();
    const deferred = world.leased(second);
    world.done(deferLeased, { ...world.held(deferred), delay: 10n * SECOND });
    expect([next(), next(), next()]).toEqual([first.actionId, third.actionId, undefined]);
    world.advance(10n * SECOND);
    expect(next()).toBe(second.actionId);
  });

  it('is in scope', () => {
    const inbox = world.gated({ source: 'inbox/eu', type: 'mail.send' });
    const draft = world.gated({ source: 'inbox/us', type: 'mail.draft' });
    const crm = world.gated({ source: 'crm' });
    expect(next(scope({ source: 'inbox' }))).toBeUndefined();
    expect(next(scope({ sourcePrefix: 'inbox', types: ['mail.draft'] }))).toBe(draft.actionId);
    expect(next(scope({ sourcePrefix: 'inbox' }))).toBe(inbox.actionId);
    expect(next(scope({ actionIds: [crm.actionId], source: 'inbox/eu' }))).toBeUndefined();
    expect(next(scope({ actionIds: [crm.actionId] }))).toBe(crm.actionId);
  });

  it('is in a state that was asked for, and never DISPATCHED', () => {
    const action = world.dispatched();
    world.advance(MINUTE);
    expect(next()).toBeUndefined();
    expect(world.action(action.actionId)).toMatchObject({ state: 'DISPATCHED', leaseToken: null });
    const gated = world.gated();
    expect(next({ states: ['ACCEPTED', 'VERIFIED'] })).toBeUndefined();
    expect(next({ states: ['GATED'] })).toBe(gated.actionId);
  });

  it('is handed out once, also within one batch', () => {
    const actions = [world.gated(), world.gated()].map(({ actionId }) => actionId);
    const asks = [WORKER, OTHER_WORKER, WORKER].map((caller) => world.lease({ caller }));
    const leased = world.runTogether(leaseNext, asks).map((outcome) => {
      if (!outcome.ok) throw new Error(outcome.refusal.reason);
      return outcome.reply.leased;
    });
    expect(leased.map((one) => one?.action.actionId)).toEqual([...actions, undefined]);
    const tokens = leased.flatMap((one) => one?.lease.leaseToken ?? []);
    expect((tokens[0] ?? 0n) < (tokens[1] ?? 0n)).toBe(true);
  });

  it('may be one that a command before it in the batch has approved or let go', () => {
    const held = world.heldForDispatch();
    const set = world.store.gather([
      deferLeased.reads({ ...world.held(held), delay: 1n }),
      leaseNext.reads(world.lease()),
    ]);
    expect(set.candidateKeys('unleasedActions', ['']).size).toBe(0);
    world.advance(MINUTE);
    expect(next({ caller: OTHER_WORKER })).toBe(held.actionId);
  });

  it('is answered again to the same request, also when the lease has ended', () => {
    const action = world.gated();
    const ask = world.lease();
    const first = world.done(leaseNext, ask);
    world.gated();
    expect(world.done(leaseNext, ask)).toEqual({ ...first, duplicate: true });
    world.done(deferLeased, { ...world.held(world.action(action.actionId)), delay: SECOND });
    expect(world.done(leaseNext, ask)).toMatchObject({
      duplicate: true,
      leased: { lease: first.leased?.lease, action: { leaseToken: null } },
    });
    expect(world.refused(leaseNext, { ...ask, duration: HOUR })).toBe('REQUEST_ID_CONFLICT');
    expect(world.refused(leaseNext, { ...ask, ...scope({ source: 'inbox' }) })).toBe('REQUEST_ID_CONFLICT');
    // The id is the caller's own.
    expect(world.done(leaseNext, { ...ask, caller: OTHER_WORKER }).duplicate).toBe(false);
  });

  it('is for a worker that is registered', () => {
    world.gated();
    world.seedWorker(WORKER, { role: 'effect_executor' });
    expect(world.refused(leaseNext, world.lease())).toBe('WORKLOAD_NOT_CURRENT role');
    world.seedWorker(WORKER, { revocationEpoch: 0n });
    expect(world.refused(leaseNext, world.lease())).toBe('WORKLOAD_NOT_CURRENT revocation_epoch');
    expect(world.refused(leaseNext, world.lease({ registrationId: 'reg-other' }))).toBe('NOT_VISIBLE');
    expect(world.refused(leaseNext, world.lease({ caller: callerOf('worker/nobody') }))).toBe(
      'CALLER_UNKNOWN',
    );
  });

  it('skips a row that was changed behind its back, and names it where there is nothing else', () => {
    const bad = world.gated();
    const good = world.gated();
    world.store.put('actions', { ...bad, payload: Buffer.from('{"tool_name":"mailer","to":"evil"}') });
    expect(next()).toBe(good.actionId);
    expect(world.refused(leaseNext, world.lease())).toBe(`DATA_CORRUPT action/${bad.actionId}`);
  });
});

describe('a lease (I3)', () => {
  it.each(['GATED', 'DISPATCHED', 'ACCEPTED', 'VERIFIED'] as const)(
    'that ran out moves nothing any more: %s',
    (state) => {
      const action =
        state === 'GATED'
          ? world.heldForDispatch()
          : state === 'DISPATCHED'
            ? world.dispatched()
            : state === 'ACCEPTED'
              ? world.accepted()
              : world.verified();
      const held = world.held(action);
      world.advance(MINUTE);
      expect(new Set(everyCall(action, held))).toEqual(new Set(['LEASE_LOST expired']));
      world.done(leaseNext, world.lease({ caller: OTHER_WORKER, ...scope({ source: 'nothing' }) }));
      expect(new Set(everyCall(action, held))).toEqual(new Set(['LEASE_LOST absent']));
    },
  );

  it('that somebody else has by now is lost for ever', () => {
    const action = world.heldForDispatch();
    const stale = world.held(action);
    world.advance(MINUTE);
    expect(next({ caller: OTHER_WORKER })).toBe(action.actionId);
    expect(new Set(everyCall(action, stale))).toEqual(new Set(['LEASE_LOST token']));
    const leaseToken = world.action(action.actionId).leaseToken ?? 0n;
    expect(new Set(everyCall(action, { ...stale, leaseToken }))).toEqual(new Set(['LEASE_LOST holder']));
  });

  it('tells who never held it nothing', () => {
    const action = world.heldForDispatch();
    const stranger = { ...world.held(action), caller: OTHER_WORKER };
    expect(new Set(everyCall(action, stranger))).toEqual(new Set(['NOT_VISIBLE']));
  });

  it('is for the states of each call', () => {
    const gated = world.heldForDispatch();
    expect(everyCall(gated, world.held(gated)).slice(0, 5)).toEqual(
      Array.from({ length: 5 }, () => 'ACTION_STATE_CONFLICT GATED'),
    );
    const dispatched = world.dispatched();
    expect(world.refused(deferLeased, { ...world.held(dispatched), delay: SECOND })).toBe(
      'ACTION_STATE_CONFLICT DISPATCHED',
    );
    expect(world.refused(completeAction, { ...world.held(dispatched), resultDigest: sha256('x') })).toBe(
      'ACTION_STATE_CONFLICT DISPATCHED',
    );
  });
});

describe('reaping', () => {
  const reap = (actionId: string) => world.done(reapLease, { ...world.base(), actionId }).outcome;

  it('releases what ran out, and nothing else', () => {
    const action = world.heldForDispatch();
    expect(reap(action.actionId)).toBe('nothing');
    world.advance(MINUTE);
    expect(reap(action.actionId)).toBe('released');
    expect(reap(action.actionId)).toBe('nothing');
    expect(reap('act_absent')).toBe('nothing');
    expect(world.events(action.actionId).at(-1)).toBe('reaped');
  });

  it('is done by who comes for the next one: twenty at most', () => {
    const held = Array.from({ length: 25 }, () => world.heldForDispatch());
    world.advance(MINUTE);
    next(scope({ source: 'nothing' }));
    const left = () => held.filter(({ actionId }) => world.action(actionId).leaseToken !== null).length;
    expect(left()).toBe(5);
    next(scope({ source: 'nothing' }));
    expect(left()).toBe(0);
  });

  it('leaves a row that was changed behind its back to who names it', () => {
    const bad = world.heldForDispatch();
    const good = world.heldForDispatch();
    world.store.put('actions', { ...bad, sourceRef: 'another' });
    world.advance(MINUTE);
    expect(next()).toBe(good.actionId);
    expect(world.refused(reapLease, { ...world.base(), actionId: bad.actionId })).toBe(
      `DATA_CORRUPT action/${bad.actionId}`,
    );
  });

  it('is open to operators of the domain', () => {
    const action = world.heldForDispatch();
    world.advance(MINUTE);
    const operator = callerOf('operator/root');
    const command = { ...world.base(), actionId: action.actionId, operator };
    expect(world.refused(reapLease, command)).toBe('NOT_VISIBLE');
    world.store.put('operators', {
      spiffeId: operator.spiffeId,
      signingKeyJwk: null,
      signingKeyThumbprint: null,
      roles: ['AUDITOR'],
      scopeDomainId: null,
      status: 'active',
      revision: 1n,
    });
    expect(world.refused(reapLease, command)).toBe('NOT_VISIBLE');
    const row = world.store.get('operators', operator.spiffeId);
    if (row) world.store.put('operators', { ...row, roles: ['ADMIN'] });
    expect(world.done(reapLease, command).outcome).toBe('released');
  });
});

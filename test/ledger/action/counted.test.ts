import { describe, expect, it } from 'vitest';
import { beginDispatch } from '../../../src/ledger/action/begin-dispatch.js';
import { completeAction } from '../../../src/ledger/action/complete-action.js';
import { leaseNext } from '../../../src/ledger/action/lease-next.js';
import { proposeAction } from '../../../src/ledger/action/propose-action.js';
import { callerActor, harnessActor } from '../../../src/ledger/admission/admit-call.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { ActionWorld, WORKER } from './action-world.js';

// authority.md, Admission, for governed actions: what begins something is an ordinary call of its caller, what settles is
// counted and never refused.

const PROPOSER = harnessActor('planner');
const WORKING = callerActor(WORKER.spiffeId);

function limit({ store }: ActionWorld, actorRequestsPerMinute: number): void {
  store.domain = { ...store.domain, limits: { ...store.domain.limits, actorRequestsPerMinute } };
}

describe('the calls of governed actions', () => {
  it('are counted once each, for whoever made them', () => {
    const world = new ActionWorld();
    const verified = world.verified();
    world.done(completeAction, { ...world.held(verified), resultDigest: sha256('done') });
    expect(world.store.get('actor_counters', PROPOSER)).toMatchObject({ calls: 1, safetyCalls: 0 });
    // The dispatch; then lease, acceptance, verification, completion.
    expect(world.store.get('actor_counters', WORKING)).toMatchObject({ calls: 1, safetyCalls: 4 });
    expect(world.store.head.counters).toMatchObject({ calls: 3, safetyCalls: 4 });
  });

  it('cost nothing where nothing was done', () => {
    const world = new ActionWorld();
    const proposal = world.propose();
    world.done(proposeAction, proposal);
    const { counters } = world.store.head;
    expect(world.done(proposeAction, { ...proposal, ...world.base() }).duplicate).toBe(true);
    expect(world.refused(proposeAction, { ...proposal, ...world.base(), source: 'other' })).toContain(
      'ACTION_IDEMPOTENCY_CONFLICT',
    );
    expect(world.done(leaseNext, world.lease()).leased).toBeUndefined();
    expect(world.store.head.counters).toEqual(counters);
  });

  it('are refused at nine tenths of the quota, with nothing written', () => {
    const world = new ActionWorld();
    limit(world, 10);
    for (let i = 0; i < 9; i += 1) world.proposed();
    const before = world.store.all('actor_counters');
    expect(world.refused(proposeAction, world.propose())).toContain('QUOTA_EXHAUSTED');
    expect(world.store.all('actions')).toHaveLength(9);
    expect(world.store.all('actor_counters')).toEqual(before);
  });

  it('are never refused where they settle what was dispatched', () => {
    const world = new ActionWorld();
    const verified = world.verified();
    const held = world.heldForDispatch();
    limit(world, 10);
    const used = world.store.get('actor_counters', WORKING);
    if (used) world.store.put('actor_counters', { ...used, calls: 9 });
    expect(world.refused(beginDispatch, world.dispatch(held))).toContain('QUOTA_EXHAUSTED');
    expect(world.action(held.actionId)).toMatchObject({ state: 'GATED', attemptCount: 0 });
    const ended = world.done(completeAction, { ...world.held(verified), resultDigest: sha256('done') });
    expect(ended.action.state).toBe('COMPLETED');
  });
});

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RestoredAction, restoreActions } from '../../src/lane/restore-actions.js';
import { Sweeps } from '../../src/lane/sweeps.js';
import { acceptAction } from '../../src/ledger/action/accept-action.js';
import { beginDispatch } from '../../src/ledger/action/begin-dispatch.js';
import { beginObservation } from '../../src/ledger/action/begin-observation.js';
import { completeAction } from '../../src/ledger/action/complete-action.js';
import { gateAction } from '../../src/ledger/action/gate-action.js';
import { leaseNext } from '../../src/ledger/action/lease-next.js';
import { proposeAction } from '../../src/ledger/action/propose-action.js';
import type { ActionRow } from '../../src/ledger/action/records.js';
import { verifyAction } from '../../src/ledger/action/verify-action.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { HOUR, MINUTE } from '../../src/ledger/types.js';
import { done, reserveCall, seedWorkers, startCall, submit, type Workers } from '../fault/effect-life.js';
import { ActionWorld, EXECUTION_DIGEST, OTHER_WORKER, WORKER } from '../ledger/action/action-world.js';
import { seedActions } from '../support/action-rows.js';
import {
  DOMAIN,
  type EffectWorld,
  freshId,
  nowMicros,
  openWorld,
  type Replica,
} from '../support/effect-world.js';
import { LaneActions } from '../support/lane-actions.js';

// actions.md on the lanes of a real store.

let world: EffectWorld;
let replica: Replica;
let other: Replica;
let actions: LaneActions;
let workers: Workers & { grantId: string };

beforeAll(async () => {
  world = await openWorld();
  replica = world.replica();
  other = world.replica();
  workers = await seedWorkers(world);
  actions = await LaneActions.open(world, replica);
});
afterAll(() => world.close());

async function gated(over: object = {}): Promise<ActionRow> {
  const built = actions.memory;
  const { action } = await actions.done(proposeAction, built.propose(over));
  return (await actions.done(gateAction, built.gate(action))).action;
}

async function held(over: object = {}): Promise<ActionRow> {
  const action = await gated(over);
  const scope = { source: null, sourcePrefix: null, types: [], actionIds: [action.actionId] };
  const { leased } = await actions.done(leaseNext, actions.memory.lease({ scope }));
  if (!leased) throw new Error('nothing was ready');
  return leased.action;
}

describe('an action', () => {
  test('goes from its proposal to its end', async () => {
    const built = actions.memory;
    const { action } = await actions.done(beginDispatch, built.dispatch(await held()));
    const observed = await actions.done(beginObservation, {
      ...built.held(action),
      requestId: freshId('observation'),
      executionDigest: EXECUTION_DIGEST,
    });
    const receipt = built.receipt();
    const accepted = await actions.done(acceptAction, { ...built.held(observed.action), receipt });
    const verified = await actions.done(verifyAction, {
      ...built.held(accepted.action),
      witnessReceiptKeys: [receipt.receiptKey],
      receipt: built.receipt(),
    });
    const command = { ...built.held(verified.action), resultDigest: sha256('done') };
    await actions.done(completeAction, command);
    expect(await actions.done(completeAction, command)).toMatchObject({
      duplicate: true,
      action: { state: 'COMPLETED', observationCount: 1, attemptCount: 1, receiptCount: 2, eventCount: 8n },
    });
  });

  test('carries an effect that is reserved for this very request, and only once', async () => {
    const requestDigest = EXECUTION_DIGEST;
    const reserve = () => reserveCall(replica, workers.grantId, { requestDigest, effectKey: freshId('key') });
    const effect = await done(submit(replica, await reserve()));
    const { effectId } = effect;
    const action = await held();
    const dispatch = (over: object) => actions.memory.dispatch(action, over);
    expect(await actions.refused(beginDispatch, dispatch({ effectId: 'absent' }))).toBe(
      'EFFECT_NOT_BINDABLE missing',
    );
    const executionDigest = sha256('another request');
    expect(await actions.refused(beginDispatch, dispatch({ effectId, executionDigest }))).toBe(
      'EFFECT_NOT_BINDABLE request_digest',
    );
    const started = await done(submit(replica, await reserve()));
    await done(submit(replica, startCall(workers.executor, started)));
    expect(await actions.refused(beginDispatch, dispatch({ effectId: started.effectId }))).toBe(
      'EFFECT_NOT_BINDABLE state',
    );
    await world.admin.query("UPDATE sinks SET frozen = true, freeze_reason = 'x' WHERE sink = $1", [
      effect.sink,
    ]);
    expect(await actions.refused(beginDispatch, dispatch({ effectId }))).toBe('FROZEN sink');
    await world.admin.query('UPDATE sinks SET frozen = false, freeze_reason = NULL');
    const { action: dispatched, contract } = await actions.done(beginDispatch, dispatch({ effectId }));
    expect(dispatched.effectId).toBe(effectId);
    expect(JSON.parse(contract.evidence.toString())).toMatchObject({ version: 2, effect_id: effectId });
    const observed = await actions.done(beginObservation, {
      ...actions.memory.held(dispatched),
      requestId: freshId('observation'),
      executionDigest: EXECUTION_DIGEST,
    });
    expect(observed.observationNumber).toBe(1);
    const second = actions.memory.dispatch(await held(), { effectId });
    expect(await actions.refused(beginDispatch, second)).toBe('EFFECT_NOT_BINDABLE bound');
  });
});

test('two replicas and many workers: each action is leased once, and dispatched once', async () => {
  const source = 'crowd';
  const crowd = await Promise.all(Array.from({ length: 60 }, () => gated({ source })));
  const scope = { source, sourcePrefix: null, types: [], actionIds: [] };
  const dispatched: string[] = [];
  const work = async (on: Replica, caller: typeof WORKER): Promise<void> => {
    for (;;) {
      const { leased } = await actions.done(leaseNext, actions.memory.lease({ caller, scope }), on);
      if (!leased) return;
      await actions.done(beginDispatch, actions.memory.dispatch(leased.action, { caller }), on);
      dispatched.push(leased.action.actionId);
    }
  };
  const crews = Array.from({ length: 16 }, () => [work(replica, WORKER), work(other, OTHER_WORKER)]).flat();
  await Promise.all(crews);
  expect(dispatched.sort()).toEqual(crowd.map(({ actionId }) => actionId).sort());
});

test('the sweeps end what time ends, and take back what ran out', async () => {
  const past = new ActionWorld();
  past.store.now = nowMicros() - 2n * HOUR;
  past.seedWorkers();
  // Ids, positions and fences of their own beside those of the other tests.
  past.store.head = { ...past.store.head, seq: -1_000n, fenceCounter: 1_000_000n };
  for (let i = 0; i < 5000; i += 1) past.newId('skipped');
  const proposal = past.proposed({ proposalTtl: MINUTE });
  const lease = past.heldForDispatch();
  const dispatch = past.dispatched();
  await seedActions(world, past, ['actions', 'action_receipts', 'action_events', 'action_leases']);
  const sweeps = new Sweeps({
    commands: replica.lanes,
    reader: replica.reader,
    newId: freshId,
    housekeeping: {},
    onError: (error) => expect.fail(String(error)),
  });
  const round = await sweeps.sweepOnce();
  expect(round.changed).toBeGreaterThanOrEqual(3);
  const set = await replica.reader.gather(DOMAIN, {
    actions: [proposal.actionId, lease.actionId, dispatch.actionId],
  });
  expect(set?.get('actions', proposal.actionId)).toMatchObject({ failureReason: 'proposal_expired' });
  expect(set?.get('actions', lease.actionId)).toMatchObject({ state: 'GATED', leaseToken: null });
  expect(set?.get('actions', dispatch.actionId)).toMatchObject({ failureReason: 'observation_deadline' });
  expect((await sweeps.sweepOnce()).changed).toBe(0);
});

test('a restore ends what may have been dispatched since the backup, and nothing of the present', async () => {
  const approved = await gated();
  const { action: dispatched } = await actions.done(beginDispatch, actions.memory.dispatch(await held()));
  const { action: proposed } = await actions.done(proposeAction, actions.memory.propose());
  const restore = async (dryRun: boolean) => {
    const parts = { commands: replica.lanes, reader: replica.reader, newId: freshId, incarnation: 2n };
    const found = new Map<string, RestoredAction['outcome']>();
    for await (const { actionId, outcome } of restoreActions(parts, DOMAIN, dryRun))
      found.set(actionId, outcome);
    return [approved, dispatched, proposed].map(({ actionId }) => found.get(actionId));
  };
  await world.admin.query('UPDATE service_state SET incarnation = 2');
  expect(await restore(true)).toEqual(['left', 'left', undefined]);
  expect(await restore(false)).toEqual(['ended', 'ended', undefined]);
  expect(await restore(false)).toEqual([undefined, undefined, undefined]);
  const set = await replica.reader.gather(DOMAIN, { actions: [approved.actionId, dispatched.actionId] });
  for (const { actionId } of [approved, dispatched]) {
    expect(set?.get('actions', actionId)).toMatchObject({ state: 'FAILED', failureReason: 'restored' });
  }
  await actions.done(gateAction, actions.memory.gate(proposed));
  expect(await restore(false)).toEqual([undefined, undefined, undefined]);
});

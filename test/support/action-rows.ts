import { beginDispatch } from '../../src/ledger/action/begin-dispatch.js';
import { beginObservation } from '../../src/ledger/action/begin-observation.js';
import { completeAction } from '../../src/ledger/action/complete-action.js';
import { deferLeased } from '../../src/ledger/action/defer-leased.js';
import { failAction } from '../../src/ledger/action/fail-action.js';
import { gateAction } from '../../src/ledger/action/gate-action.js';
import { sha256 } from '../../src/ledger/encoding.js';
import type { TableName } from '../../src/ledger/tables.js';
import { HOUR, MINUTE } from '../../src/ledger/types.js';
import { ActionWorld, EXECUTION_DIGEST } from '../ledger/action/action-world.js';
import type { EffectWorld } from './effect-world.js';

/** The tables of governed actions, parents first. */
const TABLES: readonly TableName[] = [
  'owners',
  'tools',
  'bounded_grants',
  'bounded_grant_uses',
  'actions',
  'action_receipts',
  'action_events',
  'action_leases',
  'dead_letters',
];

/**
 * Actions in every state, of several sources and types, with leases that run and leases that ran out two hours ago.
 *
 * @param now the store's clock
 */
export function manyActions(now: bigint): ActionWorld {
  const world = new ActionWorld();
  world.store.now = now - 3n * HOUR;
  world.seedWorkers();
  for (const source of ['inbox', 'inbox/eu', 'inbo', 'crm']) {
    for (const type of ['mail.send', 'mail.draft']) {
      world.gated({ source, type });
      world.proposed({ source, type });
      world.heldForDispatch({ source, type });
    }
  }
  settled(world);
  const grantId = world.added();
  for (let i = 0; i < 2; i += 1) {
    const proposed = world.proposed();
    const gate = world.gate(proposed, { signature: null }, world.underGrant(grantId));
    world.done(gateAction, gate);
    if (i === 0) world.done(beginDispatch, world.dispatch(world.leased(proposed)));
  }
  const twice = world.gated();
  world.done(gateAction, world.gate(twice));
  // What runs now: its leases were given out a moment ago.
  world.store.now = now;
  const late = world.leased(world.gated());
  world.done(deferLeased, { ...world.held(late), delay: 20n * HOUR });
  world.leased(world.gated({ source: 'crm' }), { duration: HOUR });
  const dispatched = world.done(beginDispatch, {
    ...world.dispatch(world.leased(world.gated(), { duration: HOUR })),
    observationWindow: HOUR,
  }).action;
  observed(world, dispatched);
  return world;
}

function settled(world: ActionWorld): void {
  for (let i = 0; i < 2; i += 1) {
    observed(world, world.dispatched());
    world.accepted();
    const verified = world.verified();
    world.done(completeAction, { ...world.held(verified), resultDigest: sha256('done') });
    const held = world.heldForDispatch();
    world.done(failAction, { ...world.held(held), detail: 'no', resultDigest: null, retryable: false });
    world.advance(MINUTE);
  }
}

function observed(world: ActionWorld, action: ReturnType<ActionWorld['dispatched']>): void {
  world.done(beginObservation, {
    ...world.held(action),
    requestId: world.newId('observation-request'),
    executionDigest: EXECUTION_DIGEST,
  });
}

/** Puts the rows of a world in memory into the database, as they are: with the triggers off. */
export async function seedActions(
  database: EffectWorld,
  world: ActionWorld,
  tables: readonly TableName[] = TABLES,
): Promise<void> {
  await database.admin.query("SET session_replication_role = 'replica'");
  for (const table of tables) {
    const rows = world.store.all(table);
    if (rows.length > 0) await database.seed(table, rows);
  }
  await database.admin.query("SET session_replication_role = 'origin'");
}

import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { joinedStatement } from '../../src/store/gather-planner.js';
import { ActionWorld } from '../ledger/action/action-world.js';
import { seedActions } from '../support/action-rows.js';
import { DOMAIN, type EffectWorld, nowMicros, openWorld } from '../support/effect-world.js';

// actions.md, LeaseNext: what a worker takes next is found in an index, on a store that is new and on one that is full, whatever
// there is that is not ready. Plans are made once, on the empty table, as a connection makes them.

/** Actions that are stored and not ready (SURETY_STORED_ACTIONS, in a run of its own: a million). */
const STORED = Number(process.env['SURETY_STORED_ACTIONS'] ?? 100_000);

let world: EffectWorld;
let client: pg.Client;

const READY = { source: '', exact: false, types: '{}', ids: '{}', states: '{GATED,ACCEPTED,VERIFIED}' };
type Scope = typeof READY;

beforeAll(async () => {
  world = await openWorld();
  client = new pg.Client({ connectionString: world.database.serviceUrl });
  await client.connect();
  await client.query('SET plan_cache_mode = force_generic_plan');
  const types = {
    ready_actions: 'text, text[], boolean[], text[], text[], text[], integer',
    recovery_of_ready_actions: 'text, text[], boolean[], text[], text[], text[], integer',
    expired_leases: 'text, integer',
    recovery_of_expired_leases: 'text, integer',
  };
  for (const [name, parameters] of Object.entries(types)) {
    await client.query(`PREPARE ${name} (${parameters}) AS ${joinedStatement(name).text}`);
  }
});
afterAll(async () => {
  await client.end();
  await world.close();
});

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly PlanNode[];
}

/** What a prepared statement does: how it reads the tables of actions, and how many blocks it takes. */
async function run(call: string): Promise<{ scans: string[]; blocks: number; rows: number }> {
  const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE ${call}`);
  const { Plan: plan } = rows[0]['QUERY PLAN'][0] as { Plan: PlanNode & { 'Actual Rows': number } };
  const scans = new Set<string>();
  const walk = (node: PlanNode): void => {
    const relation = node['Relation Name'] ?? '';
    const index = node['Index Name'];
    if (index?.startsWith('action') === true) scans.add(index);
    if (relation.startsWith('action') && index === undefined) scans.add(`${node['Node Type']} ${relation}`);
    node.Plans?.forEach(walk);
  };
  walk(plan);
  return {
    scans: [...scans].sort(),
    blocks: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
    rows: plan['Actual Rows'],
  };
}

const ready = (over: Partial<Scope> = {}, name = 'ready_actions') => {
  const { source, exact, types, ids, states } = { ...READY, ...over };
  const lists = [types, ids, states].map((list) => `ARRAY['${list}']`).join(', ');
  return run(`${name} ('${DOMAIN}', ARRAY['${source}'], ARRAY[${exact}], ${lists}, 21)`);
};

const SCOPES: readonly (readonly [string, Partial<Scope>])[] = [
  ['any', {}],
  ['one source', { source: 'inbox', exact: true }],
  ['one source and type', { source: 'inbox', exact: true, types: '{mail.send}' }],
  ['a prefix', { source: 'in' }],
  ['a prefix without anything', { source: 'x' }],
  ['some actions', { ids: '{act_000001,act_000002}' }],
  ['DISPATCHED ones', { states: '{DISPATCHED}' }],
];

describe.each(['on a store that is new', `with ${STORED} actions that are not ready`])('%s', (name) => {
  beforeAll(async () => {
    if (name !== 'on a store that is new') await fill();
  }, 600_000);

  test.each(SCOPES)('the next one in a scope is found by its index: %s', async (_, scope) => {
    const { scans, blocks } = await ready(scope);
    expect(scans).toEqual(['actions_pkey', 'actions_turn', 'actions_unleased']);
    // A few levels of the index for each state and pair, and the rows that are answered.
    expect(blocks).toBeLessThan(500);
  });

  test('so are contracts, and leases that ran out', async () => {
    const recovery = await ready({ states: '{DISPATCHED}' }, 'recovery_of_ready_actions');
    expect(recovery.scans).toEqual([
      'action_receipts_pkey',
      'actions_pkey',
      'actions_turn',
      'actions_unleased',
    ]);
    const expired = await run(`expired_leases ('${DOMAIN}', 20)`);
    expect(expired.scans).toEqual(['actions_leased', 'actions_pkey']);
    const contracts = await run(`recovery_of_expired_leases ('${DOMAIN}', 20)`);
    expect(contracts.scans).toEqual(['action_receipts_pkey', 'actions_leased', 'actions_pkey']);
    for (const { blocks } of [recovery, expired, contracts]) expect(blocks).toBeLessThan(500);
  });
});

test('and what is ready is found among all of them', async () => {
  expect((await ready()).rows).toBe(3);
  expect((await ready({ source: 'inbox', exact: true })).rows).toBe(2);
  expect((await ready({ source: 'crm', exact: true })).rows).toBe(1);
});

test('whoever takes any action reads no more of it where each has a source of its own', async () => {
  // Where an action comes from never changes; here it does behind the back of the guards.
  await world.admin.query("SET session_replication_role = 'replica'");
  await world.admin.query(
    "UPDATE actions SET source = 'own-' || action_id WHERE action_id IN (SELECT action_id FROM actions WHERE state = 'GATED' LIMIT 20000)",
  );
  expect(await ready()).toMatchObject({ rows: 3 });
  expect((await ready()).blocks).toBeLessThan(500);
});

/** Many that are deferred or only proposed, and three that are ready, of which one is the latest of all. */
async function fill(): Promise<void> {
  const memory = new ActionWorld();
  memory.store.now = nowMicros();
  const model = memory.gated();
  memory.gated();
  await seedActions(world, memory);
  const { admin } = world;
  await admin.query("SET session_replication_role = 'replica'");
  await admin.query(
    `INSERT INTO actions SELECT r.* FROM actions AS a, generate_series(1, ${STORED}) AS n,
      LATERAL jsonb_populate_record(a, jsonb_build_object(
        'action_id', 'act_' || n, 'idempotency_key', 'key_' || n, 'proposed_seq', 1000 + n,
        'source', CASE n % 4 WHEN 0 THEN 'inbox' WHEN 1 THEN 'crm' WHEN 2 THEN 'inbound' ELSE 'feed-' || n % 20 END,
        'type', CASE n % 3 WHEN 0 THEN 'mail.send' ELSE 'mail.draft' END,
        'state', CASE n % 10 WHEN 0 THEN 'PROPOSED' ELSE 'GATED' END,
        'next_attempt_at', surety_now() + 36000000000 + n)) AS r
      WHERE a.action_id = $1`,
    [model.actionId],
  );
  await admin.query(
    `INSERT INTO actions SELECT r.* FROM actions AS a, LATERAL jsonb_populate_record(a,
        '{"action_id": "act_last", "idempotency_key": "key_last", "proposed_seq": 99999999, "source": "crm"}') AS r
      WHERE a.action_id = $1`,
    [model.actionId],
  );
  await admin.query("SET session_replication_role = 'origin'");
}

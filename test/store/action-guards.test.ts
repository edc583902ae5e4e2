import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ActionWorld } from '../ledger/action/action-world.js';
import { seedActions } from '../support/action-rows.js';
import { nowMicros } from '../support/effect-world.js';
import { attempt, CHECK, GUARD, UNIQUE } from './guard-attempts.js';
import { type GuardWorld, openGuardWorld } from './guard-world.js';

// actions.md, Invariants: the database refuses by itself, also from buggy code of ours or from psql.

const STATES = ['PROPOSED', 'GATED', 'DISPATCHED', 'ACCEPTED', 'VERIFIED', 'COMPLETED', 'FAILED'] as const;
type State = (typeof STATES)[number];
const ids = {} as Record<State, string>;
let guarded: GuardWorld;
let admin: pg.Client;
let grantId: string;

beforeAll(async () => {
  guarded = await openGuardWorld();
  ({ admin } = guarded.world);
  const world = new ActionWorld();
  world.store.now = nowMicros();
  ids.PROPOSED = world.proposed().actionId;
  ids.GATED = world.heldForDispatch().actionId;
  ids.DISPATCHED = world.dispatched().actionId;
  ids.ACCEPTED = world.accepted().actionId;
  ids.VERIFIED = world.verified().actionId;
  grantId = world.added();
  await seedActions(guarded.world, world);
  for (const [state, from] of [
    ['COMPLETED', 'VERIFIED'],
    ['FAILED', 'DISPATCHED'],
  ] as const) {
    ids[state] = await copyAs(state, ids[from]);
  }
});
afterAll(() => guarded.close());

/** A copy of an action in an end state, with the triggers off. */
async function copyAs(state: State, actionId: string): Promise<string> {
  const id = `act_${state.toLowerCase()}`;
  await admin.query("SET session_replication_role = 'replica'");
  await admin.query(
    `INSERT INTO actions SELECT (json_populate_record(a, json_build_object('action_id', $2::text, 'idempotency_key', $2::text,
      'state', $3::text, 'proposed_seq', 1000000 + length($3), 'lease_token', NULL, 'lease_holder', NULL,
      'lease_registration_id', NULL, 'lease_keys', '{}'::text[], 'leased_at', NULL, 'lease_expires_at', NULL,
      'result_digest', '\\x' || repeat('00', 32), 'failure_reason', CASE WHEN $3 = 'FAILED' THEN 'worker' END,
      'ended_at', 1))).* FROM actions AS a WHERE action_id = $1`,
    [actionId, id, state],
  );
  await admin.query("SET session_replication_role = 'origin'");
  return id;
}

/** What an update of an action comes to, right in all else: it is one event further. */
function update(state: State, set: string, values: unknown[] = []): Promise<number | string> {
  const sql = `UPDATE actions SET event_count = event_count + 1, last_seq = last_seq + 1, ${set} WHERE action_id = $1`;
  return attempt(admin, sql, [ids[state], ...values]);
}

const NO_LEASE = `lease_token = NULL, lease_holder = NULL, lease_registration_id = NULL, lease_keys = '{}',
  leased_at = NULL, lease_expires_at = NULL`;
const DISPATCH = `attempt_count = 1, dispatched_at = 1, dispatch_event = 3, execution_digest = payload_digest,
  observation_deadline = 2, max_observations = 1`;
const ENDS: Readonly<Record<string, string>> = {
  COMPLETED: `${NO_LEASE}, result_digest = payload_digest, ended_at = 1`,
  FAILED: `${NO_LEASE}, failure_reason = 'worker', ended_at = 1`,
};

describe('an action', () => {
  const EDGES = new Set([
    'PROPOSED GATED',
    'GATED DISPATCHED',
    'DISPATCHED ACCEPTED',
    'ACCEPTED VERIFIED',
    'VERIFIED COMPLETED',
    ...STATES.slice(0, 5).map((state) => `${state} FAILED`),
  ]);

  test.each(
    STATES.flatMap((from) => STATES.map((to) => [from, to] as const).filter(([, to]) => to !== from)),
  )('I8: %s to %s', async (from, to) => {
    const parts = [
      `state = '${to}'`,
      ENDS[to],
      to === 'DISPATCHED' && from === 'GATED' ? DISPATCH : undefined,
    ];
    const set = parts.filter((part) => part !== undefined).join(', ');
    expect(await update(from, set)).toBe(EDGES.has(`${from} ${to}`) ? 1 : GUARD);
  });

  test.each([
    "idempotency_key = 'x'",
    "source = 'x'",
    "source_ref = 'x'",
    "type = 'x'",
    "tool_name = 'x'",
    "payload = 'x'",
    'payload_digest = action_digest',
    'action_digest = payload_digest',
    'max_attempts = 2',
    'created_at = 1',
    'proposed_seq = 77',
    "proposer_spiffe_id = 'x'",
    "proposer_keys = '{x}'",
    'proposal_ttl = 1',
    'proposal_expires_at = 1',
    "action_id = 'x'",
    "domain_id = 'x'",
  ])('I1: is what was proposed for ever: %s', async (set) => {
    for (const state of STATES) expect(await update(state, set), state).toBe(GUARD);
  });

  test.each([
    ['attempt_count = 0', GUARD],
    ['attempt_count = 2', CHECK],
    ['dispatched_at = 1', GUARD],
    ['execution_digest = payload_digest', GUARD],
    ['observation_deadline = observation_deadline + 1', GUARD],
    ['max_observations = 100', GUARD],
    ["effect_id = 'x'", GUARD],
    ['observation_count = -1', GUARD],
    ['observation_count = 3', CHECK],
  ])('I6: a dispatch never changes, and there is one: %s', async (set, state) => {
    expect(await update('DISPATCHED', set)).toBe(state);
  });

  test('I6: there is one attempt, by a CHECK', async () => {
    expect(await update('GATED', `state = 'DISPATCHED', ${DISPATCH.replace('= 1,', '= 2,')}`)).toBe(CHECK);
    await admin.query("SET session_replication_role = 'replica'");
    expect(await update('GATED', 'max_attempts = 2')).toBe(CHECK);
    await admin.query("SET session_replication_role = 'origin'");
  });

  test.each([
    ['event_count = event_count', GUARD],
    ['last_seq = last_seq', GUARD],
    ['updated_at = 1', GUARD],
    ['lease_token = lease_token - 1', GUARD],
    ['lease_token = NULL', CHECK],
    ['lease_holder = NULL', CHECK],
    ["failure_reason = 'worker'", CHECK],
    ['ended_at = 1', CHECK],
  ])('goes on event by event, whole: %s', async (set, state) => {
    const base = set.startsWith('event_count') || set.startsWith('last_seq');
    const sql = `UPDATE actions SET ${base ? '' : 'event_count = event_count + 1, last_seq = last_seq + 1, '}${set}`;
    expect(await attempt(admin, `${sql} WHERE action_id = $1`, [ids.ACCEPTED])).toBe(state);
  });

  test.each(['COMPLETED', 'FAILED'] as const)('I10: an end is final: %s', async (state) => {
    expect(await update(state, 'result_digest = payload_digest')).toBe(GUARD);
    expect(await update(state, 'retryable = true')).toBe(GUARD);
    expect(await update(state, 'ended_at = 2')).toBe(GUARD);
    expect(await update(state, 'receipt_count = receipt_count + 1')).toBe(1);
  });

  test('I5 and I10: a dispatch without its contract, a failure without its dead letter, at COMMIT', async () => {
    const commit = async (state: State, set: string): Promise<string> => {
      await admin.query('BEGIN');
      const sql = `UPDATE actions SET event_count = event_count + 1, last_seq = last_seq + 1, ${set} WHERE action_id = $1`;
      await admin.query(sql, [ids[state]]);
      return admin.query('COMMIT').then(
        () => 'committed',
        (error: { code: string }) => error.code,
      );
    };
    expect(await commit('GATED', `state = 'DISPATCHED', ${DISPATCH}`)).toBe(GUARD);
    expect(await commit('ACCEPTED', `state = 'FAILED', ${ENDS['FAILED']}`)).toBe(GUARD);
  });

  test('begins as PROPOSED, with its own payload', async () => {
    const copy = (over: string) =>
      attempt(
        admin,
        `INSERT INTO actions SELECT (json_populate_record(a, ('{"action_id": "x", "idempotency_key": "x", "proposed_seq": 77, '
          || $2 || '}')::json)).* FROM actions AS a WHERE action_id = $1`,
        [ids.PROPOSED, over],
      );
    expect(await copy('"source": "x"')).toBe(1);
    expect(await copy('"idempotency_key": "x"')).toBe(1);
    expect(await copy('"state": "GATED"')).toBe(GUARD);
    expect(await copy('"event_count": 2')).toBe(GUARD);
    expect(await copy('"payload": "\\\\x7b7d"')).toBe(GUARD);
    expect(await copy('"max_attempts": 2')).toBe(CHECK);
    const taken = `"idempotency_key": "${(await keyOf(ids.GATED)) as string}"`;
    expect(await copy(taken)).toBe(UNIQUE);
  });

  async function keyOf(actionId: string): Promise<unknown> {
    const { rows } = await admin.query('SELECT idempotency_key FROM actions WHERE action_id = $1', [
      actionId,
    ]);
    return rows[0].idempotency_key;
  }
});

describe('receipts', () => {
  /** A copy of the receipts of a class, with other values. */
  const copy = (receiptClass: string, over: object) =>
    attempt(
      admin,
      `INSERT INTO action_receipts SELECT (json_populate_record(r, $2::json)).* FROM action_receipts AS r
        WHERE receipt_class = $1 ORDER BY action_id LIMIT 1`,
      [receiptClass, JSON.stringify(over)],
    );
  const event = { event_number: 77 };

  test('I5: an action has one contract', async () => {
    expect(await copy('recovery', { ...event, receipt_key: 'another' })).toBe(UNIQUE);
  });

  test('an approval and a decision are one gate', async () => {
    expect(await copy('gate', { ...event, receipt_key: 'another', decision_id: 'another' })).toBe(UNIQUE);
    expect(await copy('gate', { ...event, receipt_key: 'another', external_id: 'another' })).toBe(UNIQUE);
    expect(
      await copy('gate', { ...event, receipt_key: 'x', external_id: 'another', decision_id: 'another' }),
    ).toBe(1);
  });

  test('a reserved kind stands in its own class only', async () => {
    for (const kind of ['gate', 'dispatch_recovery', 'dispatch_observation']) {
      expect(await copy('general', { ...event, receipt_key: 'x', kind })).toBe(CHECK);
    }
    expect(await copy('gate', { ...event, receipt_key: 'x', receipt_class: 'general' })).toBe(CHECK);
    expect(await copy('general', { ...event, receipt_key: 'x', request_id: 'x' })).toBe(CHECK);
    expect(await copy('gate', { ...event, receipt_key: 'x', decision_id: 'x', signature: null })).toBe(CHECK);
  });
});

describe('a bounded grant', () => {
  test.each([
    ['uses = uses - 1', GUARD],
    ['uses = 77', CHECK],
    ['uses = uses + 1', 1],
    ['max_uses = 77', GUARD],
    ['expires_at = NULL', GUARD],
    ["tools = '{x}'", GUARD],
    ['incarnation = incarnation + 1', GUARD],
    ["owner_spiffe_id = 'x'", GUARD],
    ['revoked_at = 1', 1],
  ])('only shrinks: %s', async (set, outcome) => {
    const sql = `UPDATE bounded_grants SET ${set} WHERE bounded_grant_id = $1`;
    expect(await attempt(admin, sql, [grantId])).toBe(outcome);
  });

  test('stays revoked', async () => {
    await admin.query('UPDATE bounded_grants SET revoked_at = 1 WHERE bounded_grant_id = $1', [grantId]);
    for (const set of ['revoked_at = NULL', 'revoked_at = 2', 'uses = uses + 1']) {
      const sql = `UPDATE bounded_grants SET ${set} WHERE bounded_grant_id = $1`;
      expect(await attempt(admin, sql, [grantId])).toBe(GUARD);
    }
  });
});

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { columnName, keyColumns, TABLES } from '../../src/store/tables.js';
import { acknowledgeCall, done, reserved, started, submit, unknownCall } from '../fault/effect-life.js';
import { DOMAIN } from '../support/effect-world.js';
import { attempt, CHECK, columnsOf, GUARD, NO_PRIVILEGE, seedRow, UNIQUE } from './guard-attempts.js';
import { type GuardWorld, openGuardWorld } from './guard-world.js';

// effects.md, States: the database refuses by itself, also from buggy code of ours or from psql.

let guarded: GuardWorld;
let world: GuardWorld['world'];
let replica: GuardWorld['replica'];
let workers: GuardWorld['workers'];
let service: GuardWorld['service'];

beforeAll(async () => {
  guarded = await openGuardWorld();
  ({ world, replica, workers, service } = guarded);
  // Receipts and nonces.
  await started(replica, workers);
});
afterAll(() => guarded.close());

describe('an effect', () => {
  const STATES = ['PREPARED', 'EXECUTING', 'SUCCEEDED', 'FAILED', 'CANCELLED', 'UNKNOWN'] as const;
  type State = (typeof STATES)[number];
  const EDGES: ReadonlySet<string> = new Set([
    'PREPARED EXECUTING',
    'PREPARED CANCELLED',
    'EXECUTING SUCCEEDED',
    'EXECUTING FAILED',
    'EXECUTING CANCELLED',
    'EXECUTING UNKNOWN',
    'UNKNOWN SUCCEEDED',
    'UNKNOWN FAILED',
    'UNKNOWN CANCELLED',
  ]);
  const effects = new Map<State, string>();

  beforeAll(async () => {
    const inState: Record<State, () => Promise<{ effectId: string }>> = {
      PREPARED: () => reserved(replica, workers),
      EXECUTING: () => started(replica, workers),
      UNKNOWN: async () =>
        done(submit(replica, unknownCall(workers.executor, await started(replica, workers)))),
      SUCCEEDED: () => acknowledged('SUCCEEDED'),
      FAILED: () => acknowledged('FAILED'),
      CANCELLED: () => acknowledged('CANCELLED'),
    };
    for (const state of STATES) effects.set(state, (await inState[state]()).effectId);
  });

  async function acknowledged(state: 'SUCCEEDED' | 'FAILED' | 'CANCELLED') {
    return done(submit(replica, acknowledgeCall(workers.executor, await started(replica, workers), state)));
  }

  /** One step to a state, right in all else: what is refused is refused for the edge. */
  function step(from: State, to: State, rest = ''): [string, unknown[]] {
    return [
      `UPDATE effects SET state = $2, step = step + 1, holds_key = $2 NOT IN ('FAILED', 'CANCELLED'),
        attempt_id = coalesce(attempt_id, 'attempt'), started_at = coalesce(started_at, 1), send_window = coalesce(send_window, 1)
        ${rest} WHERE effect_id = $1`,
      [effects.get(from), to],
    ];
  }

  test.each(STATES.flatMap((from) => STATES.map((to) => [from, to] as const)))(
    '%s to %s',
    async (from, to) => {
      const legal = EDGES.has(`${from} ${to}`);
      for (const client of [service, world.admin])
        expect(await attempt(client, ...step(from, to))).toBe(legal ? 1 : GUARD);
    },
  );

  test.each(['step = step', 'step = step + 2', 'step = step - 1'])(
    'takes one step at a time: not %s',
    async (set) => {
      const sql = step('PREPARED', 'EXECUTING')[0].replace('step = step + 1', set);
      expect(await attempt(service, sql, step('PREPARED', 'EXECUTING')[1])).toBe(GUARD);
    },
  );

  test.each([
    "attempt_id = 'another'",
    "executor_registration_id = 'another'",
    'started_at = started_at + 1',
  ])('keeps its attempt: not %s', async (set) => {
    const sql = `UPDATE effects SET state = 'UNKNOWN', step = step + 1, ${set} WHERE effect_id = $1`;
    expect(await attempt(service, sql, [effects.get('EXECUTING')])).toBe(GUARD);
    expect(await attempt(service, sql.replace(`, ${set}`, ''), [effects.get('EXECUTING')])).toBe(1);
  });

  const NEVER = columnsOf('effects').filter(
    (column) => !(TABLES.effects.mutable as readonly string[]).map(columnName).includes(column),
  );

  test.each(NEVER)('what it was reserved as never changes: %s', async (column) => {
    expect(await attempt(service, `UPDATE effects SET ${column} = ${column}`)).toBe(NO_PRIVILEGE);
    const { rows } = await world.admin.query(
      'SELECT format_type(atttypid, NULL) AS type FROM pg_attribute WHERE attrelid = $1::regclass AND attname = $2',
      ['effects', column],
    );
    const other: Record<string, string> = {
      text: `${column} || 'x'`,
      bigint: `coalesce(${column}, 0) - 1`,
      integer: `${column} + 1`,
      boolean: `NOT ${column}`,
      bytea: `sha256(${column})`,
    };
    const [sql, values] = step('PREPARED', 'EXECUTING', `, ${column} = ${other[rows[0].type as string]}`);
    expect(await attempt(world.admin, sql, values)).toBe(GUARD);
  });

  test('begins as PREPARED, at its first step', async () => {
    const columns = columnsOf('effects');
    const values = (changes: Record<string, string>): string =>
      columns
        .map(
          (column) =>
            changes[column] ??
            {
              effect_id: "'new'",
              identity_digest: 'sha256(identity_digest)',
              key_digest: 'sha256(key_digest)',
              fence: '4000000000000000000',
            }[column] ??
            column,
        )
        .join(', ');
    const insert = (changes: Record<string, string>): Promise<number | string> =>
      attempt(
        service,
        `INSERT INTO effects (${columns.join(', ')}) SELECT ${values(changes)} FROM effects WHERE effect_id = $1`,
        [effects.get('PREPARED')],
      );
    expect(await insert({})).toBe(1);
    expect(
      await insert({ state: "'EXECUTING'", attempt_id: "'attempt'", started_at: '1', send_window: '1' }),
    ).toBe(GUARD);
    expect(await insert({ step: '2' })).toBe(GUARD);
    expect(await insert({ disputed: 'true' })).toBe(GUARD);
    expect(await insert({ late_evidence_count: '1' })).toBe(GUARD);
    // One identity, one holder of a key, one fence.
    expect(await insert({ identity_digest: 'identity_digest' })).toBe(UNIQUE);
    expect(await insert({ key_digest: 'key_digest' })).toBe(UNIQUE);
    expect(await insert({ fence: 'fence' })).toBe(UNIQUE);
    expect(await insert({ fence: '0' })).toBe(CHECK);
    expect(await insert({ holds_key: 'false' })).toBe(CHECK);
  });

  test('keeps its state when late evidence comes, and counts to eight', async () => {
    const late = (set: string): Promise<number | string> =>
      attempt(
        service,
        `UPDATE effects SET step = step + 1, late_evidence_count = late_evidence_count + 1 ${set} WHERE effect_id = $1`,
        [effects.get('UNKNOWN')],
      );
    expect(await late('')).toBe(1);
    expect(await late(', disputed = true')).toBe(1);
    expect(await late(", state_source = 'reconciler'")).toBe(GUARD);
    expect(await late(', evidence_digest = sha256(evidence_digest)')).toBe(GUARD);
    expect(await late(', settled_at = 1')).toBe(GUARD);
    const plain = 'UPDATE effects SET step = step + 1 WHERE effect_id = $1';
    expect(await attempt(service, plain, [effects.get('UNKNOWN')])).toBe(GUARD);
    expect(await attempt(service, plain, [effects.get('SUCCEEDED')])).toBe(GUARD);
  });
});

describe('a head', () => {
  test.each([
    'seq = seq - 1',
    'fence_counter = fence_counter - 1',
    'incarnation = incarnation - 1',
    'last_time = last_time - 1',
  ])('never goes back: %s', async (set) => {
    const sql = `UPDATE domain_heads SET ${set} WHERE domain_id = $1`;
    expect(await attempt(service, sql, [DOMAIN])).toBe(GUARD);
    expect(await attempt(service, sql.replace(' - 1', ' + 1'), [DOMAIN])).toBe(1);
  });

  test('counts no more fences than fit', async () => {
    const sql = 'UPDATE domain_heads SET fence_counter = 1099511627776 WHERE domain_id = $1';
    expect(await attempt(service, sql, [DOMAIN])).toBe(CHECK);
  });
});

describe('a grant', () => {
  const one = 'WHERE grant_id = $1';

  test('gives no use back, and none beyond what it has', async () => {
    const { grantId } = workers;
    expect(await attempt(service, `UPDATE grants SET uses = uses + 1 ${one}`, [grantId])).toBe(1);
    expect(await attempt(service, `UPDATE grants SET uses = uses - 1 ${one}`, [grantId])).toBe(GUARD);
    expect(await attempt(service, `UPDATE grants SET uses = max_uses + 1 ${one}`, [grantId])).toBe(CHECK);
  });

  test('that is revoked stays revoked', async () => {
    await service.query('BEGIN');
    await service.query(`UPDATE grants SET revoked_at = 5 ${one}`, [workers.grantId]);
    for (const set of ['revoked_at = NULL', 'revoked_at = 6']) {
      await service.query('SAVEPOINT before');
      const refused = service.query(`UPDATE grants SET ${set} ${one}`, [workers.grantId]);
      await expect(refused).rejects.toMatchObject({ code: GUARD });
      await service.query('ROLLBACK TO before');
    }
    await service.query('ROLLBACK');
  });

  const WIDER: Record<string, string> = {
    max_uses: 'max_uses + 1',
    expires_at: 'expires_at + 1',
    actions: "actions || 'another'::text",
    resources: "resources || 'another'::text",
    input_sources: "input_sources || 'another'::text",
    output_sinks: "output_sinks || 'another'::text",
    data_classes: 'data_classes || 4',
    repeatable: 'NOT repeatable',
    actor_id: "'another'",
    harness_id: "'another'",
    policy_revision: 'policy_revision + 1',
    credential_epoch: 'credential_epoch + 1',
  };

  test.each(Object.entries(WIDER))('is never widened: %s', async (column, wider) => {
    const sql = `UPDATE grants SET ${column} = ${wider} ${one}`;
    expect(await attempt(service, sql, [workers.grantId])).toBe(NO_PRIVILEGE);
    expect(await attempt(world.admin, sql, [workers.grantId])).toBe(GUARD);
  });

  test.each(['actions', 'resources', 'input_sources', 'output_sinks'])(
    'has no wildcard in %s and is not empty',
    async (column) => {
      const columns = columnsOf('grants');
      const insert = (value: string): Promise<number | string> =>
        attempt(
          service,
          `INSERT INTO grants (${columns.join(', ')}) SELECT ${columns
            .map((name) => (name === 'grant_id' ? "'new'" : name === column ? value : name))
            .join(', ')} FROM grants ${one}`,
          [workers.grantId],
        );
      expect(await insert("ARRAY['one']")).toBe(1);
      expect(await insert("ARRAY['one', '*']")).toBe(CHECK);
      expect(await insert("'{}'")).toBe(CHECK);
    },
  );
});

describe.each(['transition_nonces', 'replay_nonces'] as const)('a nonce of %s', (name) => {
  beforeEach(async () => {
    await seedRow(world.admin, name, DOMAIN);
  });

  test('is spent once', async () => {
    const columns = columnsOf(name).join(', ');
    const sql = `INSERT INTO ${name} (${columns}) SELECT ${columns} FROM (SELECT * FROM ${name} LIMIT 1) AS t`;
    expect(await attempt(service, sql)).toBe(UNIQUE);
  });

  test('is not changed', async () => {
    for (const column of columnsOf(name)) {
      expect(await attempt(service, `UPDATE ${name} SET ${column} = ${column}`), column).toBe(NO_PRIVILEGE);
      expect(await attempt(world.admin, `UPDATE ${name} SET ${column} = ${column}`), column).toBe(GUARD);
    }
  });

  test('stays until its carrier can verify no more, by the clock of the store', async () => {
    const key = `${keyColumns(name).at(-1)} = decode('${'ab'.repeat(32)}', 'hex')`;
    const columns = columnsOf(name);
    const plant = (expiresAt: string): string =>
      `INSERT INTO ${name} (${columns.join(', ')}) SELECT ${columns
        .map((column) =>
          column === 'expires_at'
            ? expiresAt
            : column === keyColumns(name).at(-1)
              ? `decode('${'ab'.repeat(32)}', 'hex')`
              : column,
        )
        .join(', ')} FROM ${name} LIMIT 1`;
    for (const [expiresAt, expected] of [
      ['surety_now() + 5000000', GUARD],
      ['surety_now() - 1', 1],
    ] as const) {
      await service.query('BEGIN');
      await service.query(plant(expiresAt));
      const removed = await service.query(`DELETE FROM ${name} WHERE ${key}`).then(
        ({ rowCount }) => rowCount,
        (error: { code: string }) => error.code,
      );
      await service.query('ROLLBACK');
      expect(removed).toBe(expected);
    }
  });
});

describe('the clock of the store', () => {
  afterEach(() => world.admin.query('UPDATE service_state SET clock_offset = 0, test_database = true'));

  test('is moved on a test database and on no other', async () => {
    const sql = 'UPDATE service_state SET clock_offset = 1';
    expect(await attempt(service, sql)).toBe(1);
    await world.admin.query('UPDATE service_state SET test_database = false');
    expect(await attempt(service, sql)).toBe(CHECK);
    expect(await attempt(world.admin, sql)).toBe(CHECK);
  });

  test('does not stay moved where the mark is taken away', async () => {
    await service.query('UPDATE service_state SET clock_offset = 1');
    expect(await attempt(world.admin, 'UPDATE service_state SET test_database = false')).toBe(CHECK);
  });
});

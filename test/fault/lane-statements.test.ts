import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { StoreError } from '../../src/store/store-error.js';
import { type EffectWorld, freshId, openWorld, publish, type Replica } from '../support/effect-world.js';
import { patientUrl } from '../support/postgres.js';
import {
  acknowledgeCall,
  type Call,
  type EffectOutcome,
  reserveCall,
  reserved,
  seedWorkers,
  startCall,
  started,
  submit,
  type Workers,
} from './effect-life.js';
import { Hold, type LaneReplica, laneReplica } from './lane-replica.js';
import { expectSound, fingerprint } from './store-invariants.js';

// architecture.md, "pg in pipeline mode": a statement that fails inside a flight never becomes a success.

let world: EffectWorld;
let healthy: Replica;
let replica: LaneReplica;
let workers: Workers & { grantId: string };

beforeAll(async () => {
  world = await openWorld();
  healthy = world.replica();
  replica = laneReplica(world.database.serviceUrl);
  workers = await seedWorkers(world);
});
afterAll(async () => {
  await replica.close();
  await world.close();
});
afterEach(async () => {
  await world.admin.query('DROP FUNCTION IF EXISTS sabotage() CASCADE');
});

/** Makes a table refuse, or swallow, what the condition describes. */
async function sabotage(
  table: string,
  how: {
    event?: 'INSERT' | 'UPDATE' | 'DELETE';
    when?: string;
    body: string;
    deferred?: boolean;
  },
): Promise<void> {
  const { event = 'INSERT', when = 'true', body, deferred = false } = how;
  await world.admin.query(`
    CREATE FUNCTION sabotage() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body}; RETURN NEW; END $$;
    CREATE ${deferred ? 'CONSTRAINT' : ''} TRIGGER sabotage ${deferred ? 'AFTER' : 'BEFORE'} ${event} ON ${table}
      ${deferred ? 'DEFERRABLE INITIALLY DEFERRED' : ''} FOR EACH ROW WHEN (${when}) EXECUTE FUNCTION sabotage()`);
}

const raise = (state: string): string => `RAISE EXCEPTION 'sabotage' USING ERRCODE = '${state}'`;
/** No conflict that may pass, and one that may. */
const STATES = ['XX001', '40001'] as const;

/** Calls, with every table that they write and the event there. */
const WRITES: readonly { kind: string; table: string; event: 'INSERT' | 'UPDATE' | 'DELETE' }[] = [
  ...['effects', 'pending_work', 'decisions', 'audit_entries', 'lanes'].map((table) => ({
    kind: 'reserve',
    table,
    event: 'INSERT' as const,
  })),
  { kind: 'reserve', table: 'grants', event: 'UPDATE' },
  { kind: 'reserve', table: 'domain_heads', event: 'UPDATE' },
  { kind: 'start', table: 'effects', event: 'UPDATE' },
  { kind: 'start', table: 'transitions', event: 'INSERT' },
  { kind: 'start', table: 'transition_nonces', event: 'INSERT' },
  { kind: 'acknowledge', table: 'pending_work', event: 'DELETE' },
  { kind: 'acknowledge', table: 'provenance_records', event: 'INSERT' },
  { kind: 'acknowledge', table: 'provenance_parents', event: 'INSERT' },
  { kind: 'acknowledge', table: 'provenance_steps', event: 'INSERT' },
];

const CALLS: Readonly<Record<string, () => Promise<Call>>> = {
  reserve: () => reserveCall(healthy, workers.grantId),
  start: async () => startCall(workers.executor, await reserved(healthy, workers)),
  acknowledge: async () => acknowledgeCall(workers.executor, await started(healthy, workers)),
};

function make(kind: string): Promise<Call> {
  return (CALLS[kind] as () => Promise<Call>)();
}

/** An answer that says that it was certainly not done: a refusal to come back with, or a failure that is no answer. */
async function expectNotDone(outcome: Promise<EffectOutcome>, state: string): Promise<void> {
  const settled = await outcome.catch((error: unknown) => error);
  if (state === '40001')
    expect(settled).toMatchObject({ ok: false, refusal: { reason: 'STORE_UNAVAILABLE' } });
  else expect(settled).toMatchObject({ failure: 'not_done', detail: state });
}

describe('a statement that the server refuses within a flight', () => {
  test.each(WRITES.flatMap((write) => STATES.map((state) => ({ ...write, state }))))(
    '$kind, $event of $table, SQLSTATE $state: not done, nothing written, and afterwards done',
    async ({ kind, table, event, state }) => {
      // What may pass is tried again and again, so one of them is enough; what may not is three in one batch.
      const calls = await Promise.all(Array.from({ length: state === '40001' ? 1 : 3 }, () => make(kind)));
      await sabotage(table, { event, body: raise(state) });
      const before = await fingerprint(world.admin);
      await Promise.all(calls.map((call) => expectNotDone(submit(replica, call), state)));
      expect(await fingerprint(world.admin)).toEqual(before);
      await world.admin.query('DROP FUNCTION sabotage() CASCADE');
      for (const call of calls) {
        expect(await submit(replica, call)).toMatchObject({ ok: true, reply: { duplicate: false } });
      }
      await expectSound(world.admin);
    },
  );

  test('a constraint that speaks at COMMIT: not done, and known not to be', async () => {
    const call = await make('reserve');
    await sabotage('effects', { body: raise('XX001'), deferred: true });
    const before = await fingerprint(world.admin);
    const { unknownCommits } = replica.tally;
    await expect(submit(replica, call)).resolves.toMatchObject({
      ok: false,
      refusal: { reason: 'STORE_UNAVAILABLE' },
    });
    expect(replica.tally.unknownCommits).toBe(unknownCommits);
    expect(await fingerprint(world.admin)).toEqual(before);
  });

  test('a WARNING at COMMIT, as of a wait for a standby that was cancelled, counts as unknown and is looked into', async () => {
    const call = await make('reserve');
    await sabotage('effects', { body: "RAISE WARNING 'sabotage'", deferred: true });
    const { unknownCommits } = replica.tally;
    expect(await submit(replica, call)).toMatchObject({ ok: true, reply: { duplicate: false } });
    expect(replica.tally.unknownCommits).toBe(unknownCommits + 1);
    await expectSound(world.admin);
  });
});

describe('a statement that touches other rows than it should', () => {
  test.each([
    { kind: 'reserve', table: 'grants', event: 'UPDATE' as const },
    { kind: 'reserve', table: 'domain_heads', event: 'UPDATE' as const },
    { kind: 'start', table: 'effects', event: 'UPDATE' as const },
    { kind: 'acknowledge', table: 'pending_work', event: 'DELETE' as const },
  ])(
    '$kind, $event of $table that hits no row: not done, nothing written',
    async ({ kind, table, event }) => {
      const call = await make(kind);
      await sabotage(table, { event, body: 'RETURN NULL' });
      const before = await fingerprint(world.admin);
      expect(await submit(replica, call)).toMatchObject({
        ok: false,
        refusal: { reason: 'STORE_UNAVAILABLE' },
      });
      expect(await fingerprint(world.admin)).toEqual(before);
    },
  );

  test('a row that changed behind the batch: decided anew, on what is there', async () => {
    const call = await make('reserve');
    const hold = new Hold('after-decide');
    const held = laneReplica(patientUrl(world.database.serviceUrl), { faults: hold });
    const outcome = submit(held, call);
    await hold.held;
    await world.admin.query('UPDATE grants SET uses = max_uses WHERE grant_id = $1', [workers.grantId]);
    hold.letGo();
    expect(await outcome).toMatchObject({
      ok: false,
      recorded: true,
      refusal: { reason: 'GRANT_EXHAUSTED' },
    });
    expect(held.tally.retries).toBe(1);
    await held.close();
    await world.admin.query('ALTER TABLE grants DISABLE TRIGGER grants_guard');
    await world.admin.query(
      'UPDATE grants SET uses = (SELECT count(*) FROM effects e WHERE e.grant_id = grants.grant_id)',
    );
    await world.admin.query('ALTER TABLE grants ENABLE TRIGGER grants_guard');
    await expectSound(world.admin);
  });
});

describe('a poisoned command', () => {
  /** A burst of reservations in one batch, the fourth of which the database refuses. */
  async function burst(
    poison: string,
  ): Promise<{ outcomes: PromiseSettledResult<EffectOutcome>[]; batches: () => number[] }> {
    const calls = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        reserveCall(healthy, workers.grantId, { effectKey: i === 3 ? poison : freshId('key') }),
      ),
    );
    const seenBefore = replica.tally.batches.length;
    const outcomes = await Promise.allSettled(calls.map((call) => submit(replica, call)));
    return { outcomes, batches: () => replica.tally.batches.slice(seenBefore) };
  }

  test.each(STATES)('fails alone, with SQLSTATE %s, and its batch mates succeed', async (state) => {
    const poison = freshId('poison');
    await sabotage('effects', { when: `NEW.effect_key = '${poison}'`, body: raise(state) });
    const { outcomes, batches } = await burst(poison);
    // They were taken together, and then one by one.
    await expect.poll(batches).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 8]);
    for (const [i, outcome] of outcomes.entries()) {
      if (i !== 3) expect(outcome).toMatchObject({ status: 'fulfilled', value: { ok: true } });
      else if (state === '40001') {
        expect(outcome).toMatchObject({ value: { ok: false, refusal: { reason: 'STORE_UNAVAILABLE' } } });
      } else expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(StoreError) });
    }
    await expectSound(world.admin);
  });

  test('holds nobody up beyond its deadline: what was not begun by then is not', async () => {
    const poison = freshId('poison');
    await sabotage('effects', { when: `NEW.effect_key = '${poison}'`, body: raise('40001') });
    const calls = [
      await reserveCall(healthy, workers.grantId, { effectKey: poison }),
      await make('reserve'),
      await make('reserve'),
    ] as const;
    // They are retried together for some 300 ms, then the poisoned one alone for as long.
    const [bad, hasty, patient] = await Promise.all([
      submit(replica, calls[0]),
      submit(replica, calls[1], performance.now() + 150),
      submit(replica, calls[2], performance.now() + 60_000),
    ]);
    expect(bad).toMatchObject({ ok: false, refusal: { reason: 'STORE_UNAVAILABLE' } });
    expect(hasty).toMatchObject({ ok: false, refusal: { reason: 'DEADLINE_PASSED' } });
    expect(patient).toMatchObject({ ok: true, reply: { duplicate: false } });
    expect(await submit(healthy, calls[1])).toMatchObject({ ok: true, reply: { duplicate: false } });
  });

  test('whose text Postgres cannot hold fails alone', async () => {
    const { outcomes } = await burst('a key with a \0');
    expect(outcomes.map(({ status }) => status)).toEqual(
      Array.from({ length: 8 }, (_, i) => (i === 3 ? 'rejected' : 'fulfilled')),
    );
    expect(outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value.ok)).toHaveLength(7);
    await expectSound(world.admin);
  });

  test('whose row our own encoder cannot take fails alone', async () => {
    const { outcomes } = await burst(Symbol('a bug of ours') as never);
    expect(outcomes.map(({ status }) => status)).toEqual(
      Array.from({ length: 8 }, (_, i) => (i === 3 ? 'rejected' : 'fulfilled')),
    );
    await expectSound(world.admin);
  });

  test('whose decision is wrong fails alone', async () => {
    const wrong: Call = {
      decision: {
        kind: 'test.wrong',
        reads: () => ({}),
        decide: () => {
          throw new TypeError('a bug of ours');
        },
      },
      command: { domainId: 'acme.test', commandId: freshId('cmd') },
    };
    const good = [await make('reserve'), await make('reserve')] as const;
    const outcomes = await Promise.allSettled([good[0], wrong, good[1]].map((call) => submit(replica, call)));
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    await expectSound(world.admin);
  });
});

describe('a store that is away', () => {
  test('is said to be so at once, not command by command', async () => {
    const eventIds = await Promise.all(Array.from({ length: 40 }, () => publish(healthy)));
    expect(eventIds).toHaveLength(40);
    const calls = await Promise.all(Array.from({ length: 40 }, () => make('reserve')));
    const { name } = world.database;
    await world.admin.query(`ALTER DATABASE ${name} CONNECTION LIMIT 0`);
    await world.admin.query(
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename <> current_user',
    );
    replica.tally.batches.length = 0;
    const outcomes = await Promise.all(calls.map((call) => submit(replica, call)));
    expect(replica.tally.batches).toEqual([40]);
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ ok: false, refusal: { reason: 'STORE_UNAVAILABLE' } });
    }
    await world.admin.query(`ALTER DATABASE ${name} CONNECTION LIMIT -1`);
    for (const call of calls) expect(await submit(replica, call)).toMatchObject({ ok: true });
    await expectSound(world.admin);
  });
});

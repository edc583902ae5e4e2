import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sha256 } from '../../src/ledger/encoding.js';
import { consumeNonce } from '../../src/ledger/replay/consume-nonce.js';
import { ConnectionPool } from '../../src/store/connection-pool.js';
import { BATCHES_PER_SWEEP, NoncePlaces, sweepNonces } from '../../src/store/sweep-nonces.js';
import { PgTestClock } from '../../src/store/test-clock.js';
import {
  DOMAIN,
  type EffectWorld,
  freshId,
  HARNESS,
  nowMicros,
  openWorld,
  type Replica,
} from '../support/effect-world.js';

const SECOND = 1_000_000n;

let world: EffectWorld;
let pool: ConnectionPool;

beforeAll(async () => {
  world = await openWorld();
  // The service's role: it may remove a nonce that is over, and never change one.
  pool = new ConnectionPool({ url: world.database.serviceUrl, applicationName: 'surety-test' }, 4);
});

afterAll(async () => {
  await pool.close();
  await world.close();
});

beforeEach(async () => {
  for (const table of ['replay_nonces', 'transition_nonces']) {
    await world.admin.query(
      `ALTER TABLE ${table} DISABLE TRIGGER USER; DELETE FROM ${table}; ALTER TABLE ${table} ENABLE TRIGGER USER`,
    );
  }
});

const seedReplay = (name: string, expiresAt: bigint) =>
  world.seed('replay_nonces', [
    { nonceKey: sha256(name), consumptionId: 'verification-0001', consumedAt: 0n, expiresAt },
  ]);
const seedTransition = (name: string, expiresAt: bigint) =>
  world.seed('transition_nonces', [
    { registrationId: 'reg-1', nonceDigest: sha256(name), statementDigest: sha256('x'), expiresAt },
  ]);

const left = async (table: string) =>
  Number((await world.admin.query(`SELECT count(*) AS n FROM ${table}`)).rows[0].n);

describe('the sweep of spent nonces', () => {
  test('removes replay nonces a minute after their carrier, transition nonces at their time, and no others', async () => {
    const now = nowMicros();
    await seedReplay('gone', now - 61n * SECOND);
    await seedReplay('in its grace', now - 50n * SECOND);
    await seedReplay('live', now + SECOND);
    await seedTransition('gone', now - SECOND);
    await seedTransition('live', now + 30n * SECOND);
    expect(await sweepNonces(pool)).toEqual({ replay: 1, transition: 1 });
    expect([await left('replay_nonces'), await left('transition_nonces')]).toEqual([2, 1]);
    expect(await sweepNonces(pool)).toEqual({ replay: 0, transition: 0 });
  });

  test('goes on in batches until nothing is left', async () => {
    for (let i = 0; i < 25; i += 1) await seedReplay(`gone-${i}`, 1n);
    expect(await sweepNonces(pool, { batch: 10 })).toEqual({ replay: 25, transition: 0 });
    expect(await left('replay_nonces')).toBe(0);
  });

  test('ends after its share of batches, and the next one goes on', async () => {
    await world.seed(
      'replay_nonces',
      Array.from({ length: BATCHES_PER_SWEEP + 3 }, (_, i) => ({
        ...{ nonceKey: sha256(`gone-${i}`), consumptionId: 'verification-0001' },
        ...{ consumedAt: 0n, expiresAt: BigInt(i) },
      })),
    );
    const options = { batch: 1, places: new NoncePlaces() };
    expect(await sweepNonces(pool, options)).toEqual({ replay: BATCHES_PER_SWEEP, transition: 0 });
    expect(await sweepNonces(pool, options)).toEqual({ replay: 3, transition: 0 });
  });

  test('goes on from where the sweep before it came to, in each table and domain', async () => {
    const places = new NoncePlaces();
    const sweep = () => sweepNonces(pool, { places });
    await seedReplay('first', 2_000n);
    await seedTransition('first', 3_000n);
    expect(await sweep()).toEqual({ replay: 1, transition: 1 });
    expect([...places.replay, ...places.transition]).toEqual([
      [DOMAIN, 2_000n],
      [DOMAIN, 3_000n],
    ]);
    // Behind such a place nothing is put in; were it, the walk would pass it, until it begins anew.
    await seedReplay('behind', 1_999n);
    await seedReplay('at it', 2_000n);
    await seedTransition('ahead', 3_001n);
    expect(await sweep()).toEqual({ replay: 1, transition: 1 });
    expect(await sweepNonces(pool)).toEqual({ replay: 1, transition: 0 });
  });

  test('ends between two batches when it is told to', async () => {
    for (let i = 0; i < 3; i += 1) await seedReplay(`gone-${i}`, 1n);
    expect(await sweepNonces(pool, { signal: AbortSignal.abort() })).toEqual({ replay: 0, transition: 0 });
    expect(await left('replay_nonces')).toBe(3);
  });

  test('two at once remove each row once, and neither fails', async () => {
    for (let i = 0; i < 60; i += 1) await seedReplay(`gone-${i}`, 1n);
    const swept = await Promise.all([sweepNonces(pool, { batch: 7 }), sweepNonces(pool, { batch: 7 })]);
    await sweepNonces(pool);
    expect(swept[0].replay + swept[1].replay).toBeLessThanOrEqual(60);
    expect(await left('replay_nonces')).toBe(0);
  });

  test('leaves what another transaction holds for later, and does not wait for its end', async () => {
    await seedReplay('held', 1n);
    await world.admin.query('BEGIN');
    await world.admin.query('SELECT 1 FROM replay_nonces FOR UPDATE');
    expect(await sweepNonces(pool)).toEqual({ replay: 0, transition: 0 });
    await world.admin.query('COMMIT');
    expect((await sweepNonces(pool)).replay).toBe(1);
  });

  describe('beside callers', () => {
    let replica: Replica;
    beforeAll(() => {
      replica = world.replica();
    });

    const consume = (name: string) =>
      replica.lanes.submit(consumeNonce, {
        domainId: DOMAIN,
        commandId: freshId('cmd'),
        caller: HARNESS,
        kind: 'harness',
        nonceKey: sha256(name),
        consumptionId: freshId('consumption'),
        expiresAt: nowMicros() + 100n * SECOND,
      });

    test('takes no lock that a caller waits for, and waits for none of theirs', async () => {
      await seedReplay('gone', 1n);
      await world.admin.query('BEGIN');
      await world.admin.query('SELECT FROM domain_heads FOR UPDATE');
      expect((await sweepNonces(pool)).replay).toBe(1);
      await world.admin.query('COMMIT');
      // A sweep that hangs in the middle of a batch.
      await seedReplay('gone too', 1n);
      await world.admin.query('BEGIN');
      await world.admin.query('DELETE FROM replay_nonces WHERE expires_at = 1');
      expect(await consume('meanwhile')).toMatchObject({ ok: true });
      await world.admin.query('ROLLBACK');
      expect((await sweepNonces(pool)).replay).toBe(1);
    });

    test('leaves what is live and nothing else, however much came and went', async () => {
      for (let round = 0; round < 3; round += 1) {
        await world.admin.query(
          `INSERT INTO replay_nonces SELECT $1, sha256(format('%s/%s', $2::int, i)::bytea), 'verification-0001', 0, i
            FROM generate_series(1, 2000) AS i`,
          [DOMAIN, round],
        );
        const [swept, ...consumed] = await Promise.all([
          sweepNonces(pool, { batch: 100 }),
          ...Array.from({ length: 20 }, (_, i) => consume(`live ${round} ${i}`)),
        ]);
        expect(swept.replay).toBe(2000);
        expect(consumed.every(({ ok }) => ok)).toBe(true);
      }
      expect(await left('replay_nonces')).toBe(60);
    });
  });

  test("goes by the store's clock with the offset of a test database", async () => {
    const clock = new PgTestClock(pool);
    await seedReplay('soon', nowMicros() + 100n * SECOND);
    const before = (await clock.now()) as bigint;
    expect((await sweepNonces(pool)).replay).toBe(0);
    const after = (await clock.advance(161n * SECOND)) as bigint;
    expect(after - before).toBeGreaterThanOrEqual(161n * SECOND);
    expect((await sweepNonces(pool)).replay).toBe(1);
  });

  test('the clock of a database that is none for tests does not move', async () => {
    await world.admin.query('UPDATE service_state SET clock_offset = 0, test_database = false');
    const clock = new PgTestClock(pool);
    expect(await clock.now()).toBeUndefined();
    expect(await clock.advance(SECOND)).toBeUndefined();
    await world.admin.query('UPDATE service_state SET test_database = true');
  });
});

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { verifiedEffect } from '../../src/ledger/effect/verified-effect.js';
import { done, reserveCall, seedWorkers, startCall, submit, type Workers } from '../fault/effect-life.js';
import { DOMAIN, type EffectWorld, openWorld, type Replica } from '../support/effect-world.js';

// effects.md, States: the database refuses by itself, also from buggy code of ours or from psql.

let world: EffectWorld;
let replica: Replica;
let workers: Workers & { grantId: string };

beforeAll(async () => {
  world = await openWorld();
  replica = world.replica();
  workers = await seedWorkers(world);
});
afterAll(async () => {
  await world.close();
});

describe('an effect that somebody changed with the triggers off', () => {
  /** Changes it as a superuser can. */
  async function forge(effectId: string, set: string): Promise<void> {
    await world.admin.query('BEGIN');
    await world.admin.query("SET LOCAL session_replication_role = 'replica'");
    await world.admin.query(`UPDATE effects SET ${set} WHERE effect_id = $1`, [effectId]);
    await world.admin.query('COMMIT');
  }

  const CORRUPT = (effectId: string) => ({
    ok: false,
    recorded: false,
    refusal: { reason: 'DATA_CORRUPT', metadata: { record: `effect/${effectId}` } },
  });

  test.each([
    "state = 'EXECUTING', attempt_id = 'a', started_at = 1, send_window = 1",
    "state = 'SUCCEEDED'",
    "state = 'CANCELLED', holds_key = false",
    'fence = fence + 4000000000000000000',
    'step = step + 1',
    'last_seq = last_seq - 1',
  ])('is refused on read and by every command: %s', async (set) => {
    const reservation = await reserveCall(replica, workers.grantId);
    const effect = await done(submit(replica, reservation));
    const start = startCall(workers.executor, effect);
    await forge(effect.effectId, set);
    expect(await submit(replica, reservation)).toMatchObject(CORRUPT(effect.effectId));
    const outcome = await submit(replica, start);
    expect(outcome).toMatchObject(CORRUPT(effect.effectId));
    const read = await replica.reader.gather(DOMAIN, { effects: [effect.effectId] });
    const row = read?.get('effects', effect.effectId);
    expect(() => read && row && verifiedEffect(read, row)).toThrow(
      expect.objectContaining({ refusal: expect.objectContaining({ reason: 'DATA_CORRUPT' }) }),
    );
  });

  test('or whose entry of the log was changed, is refused too', async () => {
    const reservation = await reserveCall(replica, workers.grantId);
    const effect = await done(submit(replica, reservation));
    await world.admin.query('BEGIN');
    await world.admin.query("SET LOCAL session_replication_role = 'replica'");
    await world.admin.query(
      'UPDATE audit_entries SET entry = set_byte(entry, 10, get_byte(entry, 10) # 1) WHERE domain_id = $1 AND seq = $2',
      [DOMAIN, effect.lastSeq.toString()],
    );
    await world.admin.query('COMMIT');
    expect(await submit(replica, reservation)).toMatchObject(CORRUPT(effect.effectId));
  });
});

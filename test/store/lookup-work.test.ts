import { afterAll, beforeAll, expect, test } from 'vitest';
import { sha256 } from '../../src/ledger/encoding.js';
import {
  type EffectWorld,
  freshId,
  openWorld,
  publish,
  reservation,
  reserve,
  seedGrant,
} from '../support/effect-world.js';

// architecture.md, Gather: what a batch looks up does not grow with the domain, also on a connection that made its plans
// while the domain was young. lookup-plans.test.ts looks at the plans of empty tables; here are those that a lane really has.

const CALLERS = 64;
const ROUNDS = 16;
/** The first batches are planned for what they find, and may walk a table of a few hundred rows. */
const MOST_PER_RESERVATION = 150;

let world: EffectWorld;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

test('a reservation reads a handful of effects, however many the domain has', async () => {
  const replica = world.replica();
  const { grantId } = await seedGrant(world);
  const eventId = await publish(replica);
  for (let round = 0; round < ROUNDS; round += 1) {
    const outcomes = await Promise.all(
      Array.from({ length: CALLERS }, () => {
        const effectKey = freshId('change');
        return reserve(
          replica,
          reservation(eventId, grantId, { effectKey, requestDigest: sha256(effectKey) }),
        );
      }),
    );
    expect(outcomes.filter(({ ok }) => !ok)).toEqual([]);
  }
  // A backend tells what it did when it ends.
  await replica.close();
  const read = async (): Promise<Record<string, string>> => {
    const { rows } = await world.admin.query(
      `SELECT sum(idx_scan)::int AS scans, sum(idx_tup_read)::int AS entries FROM pg_stat_user_indexes WHERE relname = 'effects'`,
    );
    return rows[0];
  };
  await expect.poll(async () => Number((await read())['scans'])).toBeGreaterThan(CALLERS * ROUNDS);
  expect(Number((await read())['entries']) / (CALLERS * ROUNDS)).toBeLessThan(MOST_PER_RESERVATION);
});

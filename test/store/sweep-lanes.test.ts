import { afterAll, beforeAll, expect, test } from 'vitest';
import { ConnectionPool } from '../../src/store/connection-pool.js';
import { sweepLanes } from '../../src/store/sweep-lanes.js';
import { DOMAIN, type EffectWorld, nowMicros, openWorld } from '../support/effect-world.js';

let world: EffectWorld;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

test('rows of lanes that are long gone are removed, those of living ones stay', async () => {
  const week = 7n * 86_400_000_000n;
  for (const [lane, age] of [
    ['gone', week + 60_000_000n],
    ['quiet', week - 60_000_000n],
  ] as const) {
    await world.admin.query('INSERT INTO lanes VALUES ($1, $2, 7, $3)', [
      DOMAIN,
      lane,
      String(nowMicros() - age),
    ]);
  }
  const pool = new ConnectionPool({ url: world.database.serviceUrl, applicationName: 'surety-test' }, 1);
  expect(await sweepLanes(pool)).toBe(1);
  expect(await sweepLanes(pool)).toBe(0);
  await pool.close();
  const { rows } = await world.admin.query("SELECT lane_id FROM lanes WHERE lane_id IN ('gone', 'quiet')");
  expect(rows).toEqual([{ lane_id: 'quiet' }]);
});

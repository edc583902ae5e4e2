import pino from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readConfiguration } from '../../src/config/configuration.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { StoreClock } from '../../src/rpc/store-clock.js';
import { type Core, composeCore } from '../../src/server/core.js';
import { Metrics } from '../../src/server/metrics.js';
import { DOMAIN, type EffectWorld, nowMicros, openWorld } from '../support/effect-world.js';

let world: EffectWorld;
let core: Core;
const lines: Record<string, unknown>[] = [];

beforeAll(async () => {
  world = await openWorld();
  core = composeCore(
    readConfiguration({}, 'migrate'),
    { url: world.database.serviceUrl, applicationName: 'surety-test' },
    new StoreClock(nowMicros()),
    new Metrics(),
    pino({ level: 'warn' }, { write: (line: string) => void lines.push(JSON.parse(line)) }),
  );
});
afterAll(async () => {
  await core.lanes.drain();
  await core.close();
  await world.close();
});

test('a look at admission that fails keeps neither nonces nor rows of lanes, and the log says which sweep it was', async () => {
  const long = nowMicros() - 30n * 86_400_000_000n;
  await world.seed('replay_nonces', [
    { nonceKey: sha256('gone'), consumptionId: 'verification-0001', consumedAt: 0n, expiresAt: long },
  ]);
  await world.admin.query('INSERT INTO lanes VALUES ($1, $2, 7, $3)', [DOMAIN, 'gone', String(long)]);
  await world.admin.query('REVOKE SELECT ON sink_counters FROM surety_service');
  await expect(core.sweeps.sweepOnce()).rejects.toThrow();
  const { rows } = await world.admin.query(
    "SELECT (SELECT count(*)::int FROM replay_nonces) AS nonces, (SELECT count(*)::int FROM lanes WHERE lane_id = 'gone') AS lanes",
  );
  expect(rows).toEqual([{ nonces: 0, lanes: 0 }]);
  expect(lines).toMatchObject([{ sweep: 'admission', msg: 'a sweep failed; the next round tries again' }]);
});

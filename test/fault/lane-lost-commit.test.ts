import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type EffectWorld, openWorld, type Replica } from '../support/effect-world.js';
import { urlFor } from '../support/postgres.js';
import { isLaneCommit } from '../support/postgres-messages.js';
import { type CutAt, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.js';
import {
  acknowledgeCall,
  type Call,
  done,
  reserveCall,
  reserved,
  seedWorkers,
  startCall,
  started,
  submit,
  type Workers,
} from './effect-life.js';
import { type LaneReplica, laneReplica } from './lane-replica.js';
import { expectSound } from './store-invariants.js';

// architecture.md, "The lane": a COMMIT whose answer is lost is unknown, never failed.

let world: EffectWorld;
let healthy: Replica;
let workers: Workers & { grantId: string };

beforeAll(async () => {
  world = await openWorld();
  healthy = world.replica();
  workers = await seedWorkers(world);
});
afterAll(() => world.close());

function openProxy(of = world): Promise<TcpProxy> {
  return startTcpProxy({ targetPort: Number(new URL(of.database.url).port) });
}

function through(proxy: TcpProxy, options: Parameters<typeof laneReplica>[1] = {}, of = world): LaneReplica {
  return laneReplica(urlFor(of.database.serviceUrl, { port: proxy.port }), options);
}

const CALLS: Readonly<Record<string, () => Promise<Call>>> = {
  reserve: () => reserveCall(healthy, workers.grantId),
  start: async () => startCall(workers.executor, await reserved(healthy, workers)),
  acknowledge: async () => acknowledgeCall(workers.executor, await started(healthy, workers)),
};
const CUTS: readonly CutAt[] = ['before', 'forwarded', 'answered'];
const CASES = Object.keys(CALLS).flatMap((kind) => CUTS.map((at) => ({ kind, at })));

describe('a connection that is cut at COMMIT', () => {
  // One connection is enough: who asks what became of a COMMIT does not wait for the lost one.
  test.each(CASES)('$at, $kind: the lane learns what became of it and answers once', async ({ kind, at }) => {
    const proxy = await openProxy();
    const replica = through(proxy, { poolSize: 1 });
    const command = await (CALLS[kind] as () => Promise<Call>)();
    const cut = proxy.cutAfter(isLaneCommit, at);
    const outcome = await submit(replica, command);
    await cut;
    expect(outcome).toMatchObject({ ok: true, reply: { duplicate: false } });
    expect(replica.tally).toMatchObject({ unknownCommits: 1, ...(at === 'answered' ? { retries: 0 } : {}) });
    if (at === 'before') expect(replica.tally.retries).toBe(1);
    const repeated = await submit(healthy, command);
    expect(repeated).toMatchObject({ ok: true, reply: { duplicate: true } });
    expect(await done(repeated)).toEqual(await done(outcome));
    await expectSound(world.admin);
    await replica.close();
    await proxy.close();
  });

  test.each(CUTS)('%s: all replies of a batch are released, each to its caller', async (at) => {
    const proxy = await openProxy();
    const replica = through(proxy);
    const calls = await Promise.all(Array.from({ length: 20 }, () => CALLS['reserve']?.() as Promise<Call>));
    const cut = proxy.cutAfter(isLaneCommit, at);
    const outcomes = await Promise.all(calls.map((call) => submit(replica, call)));
    await cut;
    expect(replica.tally.unknownCommits).toBe(1);
    for (const [i, outcome] of outcomes.entries()) {
      const command = calls[i]?.command as { effectId?: string };
      expect(outcome).toMatchObject({
        ok: true,
        reply: { duplicate: false, effect: { effectId: command.effectId } },
      });
    }
    await expectSound(world.admin);
    await replica.close();
    await proxy.close();
  });

  test('a refusal that is recorded is not told before its record is durable, and then once', async () => {
    const proxy = await openProxy();
    const replica = through(proxy);
    const denied = await reserveCall(healthy, workers.grantId, { action: 'refund', resource: 'order-2' });
    await world.admin.query('UPDATE entitlements SET revoked_at = 1');
    const cut = proxy.cutAfter(isLaneCommit, 'answered');
    const outcome = await submit(replica, denied);
    await cut;
    await world.admin.query('UPDATE entitlements SET revoked_at = NULL');
    expect(outcome).toMatchObject({ ok: false, recorded: true, refusal: { reason: 'ENTITLEMENT_STALE' } });
    const { decision_id: decisionId } = (outcome as { refusal: { metadata: Record<string, string> } }).refusal
      .metadata;
    const { rows } = await world.admin.query('SELECT allowed FROM decisions WHERE decision_id = $1', [
      decisionId,
    ]);
    expect(rows).toEqual([{ allowed: false }]);
    await expectSound(world.admin);
    await replica.close();
    await proxy.close();
  });
});

describe.concurrent('a store that stays away after COMMIT was sent', () => {
  test('the callers are told that it is not known, and a repeat gets the stored answer', async ({
    expect,
  }) => {
    const own = await openWorld();
    const { grantId } = await seedWorkers(own);
    const ownHealthy = own.replica();
    const proxy = await openProxy(own);
    const replica = through(proxy, { batchLimit: 1 }, own);
    const [lost, behind] = [await reserveCall(ownHealthy, grantId), await reserveCall(ownHealthy, grantId)];
    // Opens the connection that COMMIT is lost on; from then on nobody gets a new one, however soon the lane asks.
    await submit(replica, await reserveCall(ownHealthy, grantId));
    await own.admin.query(`ALTER DATABASE ${own.database.name} CONNECTION LIMIT 0`);
    const cut = proxy.cutAfter(isLaneCommit, 'answered').then(() => keepAway(own, true));
    const outcome = submit(replica, lost);
    const queued = submit(replica, behind);
    await cut;
    // Never a false failure: it was committed.
    expect(await outcome).toMatchObject({
      ok: false,
      recorded: false,
      refusal: { reason: 'OUTCOME_UNKNOWN', retryAfter: expect.any(BigInt) },
    });
    // Never begun: certainly not done.
    expect(await queued).toMatchObject({
      ok: false,
      recorded: false,
      refusal: { reason: 'STORE_UNAVAILABLE', retryAfter: expect.any(BigInt) },
    });
    await keepAway(own, false);
    const [lostId, behindId] = [effectIdOf(lost), effectIdOf(behind)];
    const { rows } = await own.admin.query('SELECT effect_id FROM effects WHERE effect_id IN ($1, $2)', [
      lostId,
      behindId,
    ]);
    expect(rows).toEqual([{ effect_id: lostId }]);
    expect(await submit(replica, lost)).toMatchObject({ ok: true, reply: { duplicate: true } });
    expect(await submit(replica, behind)).toMatchObject({ ok: true, reply: { duplicate: false } });
    await expectSound(own.admin);
    await replica.close();
    await proxy.close();
    await own.close();
  });

  test('a network that swallows COMMIT and all that follows: decided anew when it is back', async ({
    expect,
  }) => {
    const own = await openWorld();
    const { grantId } = await seedWorkers(own);
    const proxy = await openProxy(own);
    const replica = through(proxy, {}, own);
    const call = await reserveCall(own.replica(), grantId);
    const swallowed = new Promise<void>((resolve) => {
      void proxy.cutAfter((message) => {
        if (!isLaneCommit(message) || replica.tally.unknownCommits > 0) return false;
        proxy.blackhole(true);
        resolve();
        return false;
      });
    });
    const outcome = submit(replica, call);
    await swallowed;
    // The server ends the idle transaction, the driver gives up waiting, and new connections get nowhere either.
    await expect.poll(() => replica.tally.unknownCommits, { timeout: 20_000, interval: 200 }).toBe(1);
    proxy.blackhole(false);
    expect(await outcome).toMatchObject({ ok: true, reply: { duplicate: false } });
    expect(replica.tally.retries).toBe(1);
    await expectSound(own.admin);
    await replica.close();
    await proxy.close();
    await own.close();
  });
});

/** Lets nobody in any more, and ends who is in: as a failover that takes long. */
async function keepAway({ admin, database }: EffectWorld, away: boolean): Promise<void> {
  await admin.query(`ALTER DATABASE ${database.name} CONNECTION LIMIT ${away ? 0 : -1}`);
  if (!away) return;
  await admin.query(
    'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename <> current_user',
  );
}

function effectIdOf({ command }: Call): string {
  return (command as unknown as { effectId: string }).effectId;
}

import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { DOMAIN, type EffectWorld, openWorld, type Replica } from '../support/effect-world.js';
import { done, reserveCall, reserved, seedWorkers, submit, type Workers } from './effect-life.js';
import { type LaneReplica, laneReplica } from './lane-replica.js';
import { expectSound } from './store-invariants.js';

// architecture.md, "The lane": a head that does not extend what the process has seen stops the domain.

let world: EffectWorld;
let replica: LaneReplica;
let healthy: Replica;
let workers: Workers & { grantId: string };

beforeEach(async () => {
  world = await openWorld();
  healthy = world.replica();
  replica = laneReplica(world.database.serviceUrl);
  workers = await seedWorkers(world);
});
afterEach(async () => {
  await replica.close();
  await world.close();
});

/** What a failover that lost commits, or a silent restore, leaves: all that came after the position is gone. */
async function rewindTo(seq: string, head: Record<string, unknown>): Promise<void> {
  const { admin } = world;
  await admin.query('BEGIN');
  await admin.query("SET LOCAL session_replication_role = 'replica'");
  await admin.query(
    'DELETE FROM pending_work p USING effects e WHERE e.effect_id = p.effect_id AND e.reserve_seq > $1',
    [seq],
  );
  await admin.query('DELETE FROM effects WHERE reserve_seq > $1', [seq]);
  await admin.query('DELETE FROM decisions WHERE audit_seq > $1', [seq]);
  await admin.query('DELETE FROM audit_entries WHERE domain_id = $1 AND seq > $2', [DOMAIN, seq]);
  await admin.query(
    'UPDATE grants SET uses = (SELECT count(*) FROM effects e WHERE e.grant_id = grants.grant_id)',
  );
  await admin.query(
    'UPDATE domain_heads SET seq = $2, chain_hash = $3, incarnation = $4, fence_counter = $5, last_time = $6, pending = $7 WHERE domain_id = $1',
    [
      ...[
        DOMAIN,
        head['seq'],
        head['chain_hash'],
        head['incarnation'],
        head['fence_counter'],
        head['last_time'],
      ],
      head['pending'],
    ],
  );
  await admin.query('COMMIT');
}

async function headNow(): Promise<Record<string, unknown>> {
  const { rows } = await world.admin.query('SELECT * FROM domain_heads WHERE domain_id = $1', [DOMAIN]);
  return rows[0];
}

const REGRESSED = { ok: false, recorded: false, refusal: { reason: 'STORE_REGRESSED' } };

describe('a store that lost what this process has seen', () => {
  test('stops the domain, for as long as the incarnation is not raised, and goes on then', async () => {
    const calls = await Promise.all(Array.from({ length: 8 }, () => reserveCall(healthy, workers.grantId)));
    // Its event belongs to what is kept.
    const doomed = await reserveCall(healthy, workers.grantId);
    const before = await headNow();
    const lost = await done(submit(replica, doomed));
    await rewindTo(before['seq'] as string, before);

    // All that is queued, and what comes after it.
    for (const outcome of await Promise.all(calls.slice(0, 4).map((call) => submit(replica, call)))) {
      expect(outcome).toMatchObject(REGRESSED);
    }
    expect(replica.tally.regressions).toBe(1);

    // Another process, which has seen nothing, writes on: longer than what was lost, but other entries.
    const other = laneReplica(world.database.serviceUrl);
    for (const call of calls.slice(0, 4)) {
      expect(await submit(other, call)).toMatchObject({ ok: true, reply: { duplicate: false } });
    }
    expect(BigInt((await headNow())['seq'] as string)).toBeGreaterThan(lost.lastSeq);
    expect(await submit(replica, calls[4] as never)).toMatchObject(REGRESSED);
    expect(replica.tally.regressions).toBe(1);
    const { rows } = await world.admin.query('SELECT count(*)::int AS count FROM effects');
    expect(rows).toEqual([{ count: 4 }]);

    // What `surety restore` ends with.
    await world.admin.query('UPDATE service_state SET incarnation = incarnation + 1');
    const effect = await done(submit(replica, calls[4] as never));
    expect(effect.fence >> 40n).toBe(2n);
    for (const call of calls.slice(5)) expect(await submit(replica, call)).toMatchObject({ ok: true });
    expect(await submit(replica, calls[0] as never)).toMatchObject({ ok: true, reply: { duplicate: true } });
    await expectSound(world.admin);
    await other.close();
  });

  test('is noticed by position alone, and by the hash at the position', async () => {
    await reserved(replica, workers);
    const { admin } = world;
    const head = await headNow();
    const call = await reserveCall(healthy, workers.grantId);
    const published = await headNow();

    const rewrite = async (sql: string, values: unknown[]): Promise<void> => {
      await admin.query('BEGIN');
      await admin.query("SET LOCAL session_replication_role = 'replica'");
      await admin.query(sql, values);
      await admin.query('COMMIT');
    };
    const setSeq = 'UPDATE domain_heads SET seq = $2 WHERE domain_id = $1';
    await rewrite(setSeq, [DOMAIN, String(BigInt(head['seq'] as string) - 1n)]);
    expect(await submit(replica, call)).toMatchObject(REGRESSED);
    await rewrite(setSeq, [DOMAIN, published['seq']]);

    const setHash = 'UPDATE audit_entries SET chain_hash = $3 WHERE domain_id = $1 AND seq = $2';
    await rewrite(setHash, [DOMAIN, head['seq'], Buffer.alloc(32)]);
    expect(await submit(replica, call)).toMatchObject(REGRESSED);
    await rewrite(setHash, [DOMAIN, head['seq'], head['chain_hash']]);

    expect(await submit(replica, call)).toMatchObject({ ok: true });
    await expectSound(admin);
  });

  test('and whose clock stands behind what was seen is served by its own time, once the incarnation is raised', async () => {
    const call = await reserveCall(healthy, workers.grantId);
    const before = await headNow();
    await world.admin.query('UPDATE service_state SET clock_offset = 3600000000');
    const ahead = await reserved(replica, workers);
    await rewindTo(before['seq'] as string, before);
    await world.admin.query('UPDATE service_state SET clock_offset = 0');
    expect(await submit(replica, call)).toMatchObject(REGRESSED);
    await world.admin.query('UPDATE service_state SET incarnation = incarnation + 1');
    const effect = await done(submit(replica, call));
    expect(effect.reservedAt).toBeLessThan(ahead.reservedAt - 3_000_000_000n);
  });

  test('with a lower incarnation than was seen is refused too', async () => {
    await world.admin.query('UPDATE service_state SET incarnation = 3');
    await reserved(replica, workers);
    await world.admin.query('UPDATE service_state SET incarnation = 2');
    const call = await reserveCall(replica, workers.grantId).catch((error: Error) => error);
    expect(call).toMatchObject({ message: 'publish: STORE_REGRESSED' });
  });
});

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Faults, parseFault } from '../../src/lane/faults.js';
import type { Seam } from '../../src/store/batch-transaction.js';
import { type EffectWorld, openWorld, type Replica } from '../support/effect-world.js';
import { patientUrl, urlFor } from '../support/postgres.js';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.js';
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
import { Death, Hold, laneReplica } from './lane-replica.js';
import { expectSound, fingerprint } from './store-invariants.js';

// architecture.md, "The lane": whatever happens at whatever moment of a batch, all of it is there or none.

let world: EffectWorld;
let replica: Replica;
let workers: Workers & { grantId: string };
let proxy: TcpProxy;

beforeAll(async () => {
  world = await openWorld();
  replica = world.replica();
  workers = await seedWorkers(world);
  proxy = await startTcpProxy({ targetPort: Number(new URL(world.database.url).port) });
});
afterAll(async () => {
  await proxy.close();
  await world.close();
});

/** How each kind of command comes to be, and how many statements its commit flight has. */
const CALLS: Readonly<Record<string, { statements: number; make: () => Promise<Call> }>> = {
  'effect.reserve': { statements: 8, make: () => reserveCall(replica, workers.grantId) },
  'effect.start': {
    statements: 7,
    make: async () => startCall(workers.executor, await reserved(replica, workers)),
  },
  'effect.acknowledge': {
    statements: 11,
    make: async () => acknowledgeCall(workers.executor, await started(replica, workers)),
  },
};

function seamsOf(statements: number): Seam[] {
  const within = Array.from({ length: statements - 1 }, (_, i): Seam => `in-commit-${i + 1}`);
  return ['after-gather', 'after-decide', ...within, 'before-commit', 'after-commit'];
}

const CASES = Object.entries(CALLS).flatMap(([kind, { statements }]) =>
  seamsOf(statements).map((seam) => ({ kind, seam })),
);

function call(kind: string): Promise<Call> {
  return (CALLS[kind] as (typeof CALLS)[string]).make();
}

describe('a process that dies in a batch', () => {
  test.each(CASES)('at $seam of $kind', async ({ kind, seam }) => {
    const command = await call(kind);
    const before = await fingerprint(world.admin);
    const death = new Death(seam, kind, proxy);
    const dying = laneReplica(urlFor(world.database.serviceUrl, { port: proxy.port }), { faults: death });
    let answered = false;
    void submit(dying, command).finally(() => (answered = true));
    await death.died;
    await expect.poll(() => idleInTransaction()).toBe(0);

    const committed = seam === 'after-commit';
    const after = await fingerprint(world.admin);
    if (committed) expect(after).not.toEqual(before);
    else expect(after).toEqual(before);
    await expectSound(world.admin);

    const repeated = await submit(replica, command);
    expect(repeated).toMatchObject({ ok: true, reply: { duplicate: committed } });
    expect(answered).toBe(false);
    await expectSound(world.admin);
    await dying.pool.close();
  });
});

describe('a batch that fails', () => {
  test.each(CASES)('at $seam of $kind is decided anew, once', async ({ kind, seam }) => {
    const command = await call(kind);
    const faults = new Faults(parseFault(`${seam}:error@${kind}`));
    const failing = laneReplica(world.database.serviceUrl, { faults });
    const outcome = await submit(failing, command);
    expect(outcome).toMatchObject({ ok: true, reply: { duplicate: false } });
    const lost = seam === 'after-commit';
    expect(failing.tally).toMatchObject({ retries: lost ? 0 : 1, unknownCommits: lost ? 1 : 0 });
    const repeated = await submit(replica, command);
    expect(repeated).toMatchObject({ ok: true, reply: { duplicate: true } });
    expect(await done(repeated)).toEqual(await done(outcome));
    await expectSound(world.admin);
    await failing.close();
  });

  test('a seam that lies behind the last statement is never met: the lists above are whole', async () => {
    for (const [kind, { statements, make }] of Object.entries(CALLS)) {
      const faults = new Faults(parseFault(`in-commit-${statements}:error@${kind}`));
      const failing = laneReplica(world.database.serviceUrl, { faults });
      await done(submit(failing, await make()));
      expect(failing.tally.retries, kind).toBe(0);
      await failing.close();
    }
  });
});

describe('a batch that is held up', () => {
  test.each(['after-gather', 'before-commit', 'after-commit'] as const)(
    'at %s shows nothing to others before it is whole, and they wait for it',
    async (seam) => {
      const [slow, other] = [await call('effect.reserve'), await call('effect.reserve')];
      const before = await fingerprint(world.admin);
      const hold = new Hold(seam);
      const url = patientUrl(world.database.serviceUrl);
      const [held, free] = [laneReplica(url, { faults: hold }), laneReplica(url)];
      const settled: string[] = [];
      const first = done(submit(held, slow)).finally(() => settled.push('first'));
      await hold.held;
      const seen = await fingerprint(world.admin);
      if (seam === 'after-commit') expect(seen).not.toEqual(before);
      else expect(seen).toEqual(before);
      const second = done(submit(free, other)).finally(() => settled.push('second'));
      // What is durable holds nobody up, even while its caller waits.
      if (seam === 'after-commit') await second;
      else await expect.poll(() => waitingForDomain()).toBe(1);
      expect(settled).toEqual(seam === 'after-commit' ? ['second'] : []);
      hold.letGo();
      expect((await second).fence).toBe((await first).fence + 1n);
      await expectSound(world.admin);
      await Promise.all([held.close(), free.close()]);
    },
  );
});

async function idleInTransaction(): Promise<number> {
  const { rows } = await world.admin.query(
    `SELECT count(*)::int AS count FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL`,
  );
  return rows[0].count as number;
}

/** How many batches wait for the lock of a domain. */
async function waitingForDomain(): Promise<number> {
  const { rows } = await world.admin.query(
    `SELECT count(*)::int AS count FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%domain_heads%'`,
  );
  return rows[0].count as number;
}

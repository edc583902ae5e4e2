import { fromBinary } from '@bufbuild/protobuf';
import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type AuditEntry, AuditEntrySchema, AuditKind } from '../../src/gen/surety/audit/v1/entry_pb.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { restoreEffects } from '../../src/lane/restore-effects.js';
import { firstDomain } from '../../src/ledger/authority/bootstrap-domain.js';
import { insertDomain, insertHead } from '../../src/store/domain-statements.js';
import { beginIncarnation, RestoreRefused, readRestoreState } from '../../src/store/restore.js';
import {
  DOMAIN,
  type EffectWorld,
  freshId,
  nowMicros,
  openWorld,
  type Replica,
  SERVICE_DOMAIN,
} from '../support/effect-world.js';
import {
  acknowledgeCall,
  done,
  reserveCall,
  seedWorkers,
  startCall,
  submit,
  type Workers,
} from './effect-life.js';
import { expectSound } from './store-invariants.js';

// effects.md, Restore, though nobody stopped the services: what they do comes wholly before it, or is refused.

let world: EffectWorld;
let replicas: Replica[];
let workers: Workers & { grantId: string };

beforeEach(async () => {
  world = await openWorld();
  replicas = [world.replica(), world.replica()];
  workers = await seedWorkers(world);
});
afterEach(() => world.close());

/** Reserves, starts and settles effects until one of the calls is refused; answers with what. */
async function untilRefused(replica: Replica): Promise<string> {
  try {
    for (;;) {
      const reserved = await done(submit(replica, await reserveCall(replica, workers.grantId)));
      const started = await done(submit(replica, startCall(workers.executor, reserved)));
      await done(submit(replica, acknowledgeCall(workers.executor, started)));
    }
  } catch (error) {
    return (error as Error).message;
  }
}

async function entries(of: (incarnation: bigint) => boolean): Promise<AuditEntry[]> {
  const { rows } = await world.admin.query(
    'SELECT entry FROM audit_entries WHERE domain_id = $1 ORDER BY seq',
    [DOMAIN],
  );
  return rows
    .map(({ entry }) => fromBinary(AuditEntrySchema, entry))
    .filter(({ incarnation }) => of(incarnation));
}

/** The one that a restore would begin now. */
async function chosen(): Promise<bigint> {
  return (await readRestoreState(world.database.url)).nextIncarnation as bigint;
}

async function begin(incarnation: bigint): Promise<void> {
  const commandId = freshId('restore');
  await beginIncarnation({ url: world.database.url, codec: auditCodec, commandId, incarnation });
}

/** @returns the effects that it has moved */
async function move(incarnation: bigint): Promise<string[]> {
  const replica = world.replica();
  const moved: string[] = [];
  const parts = { commands: replica.lanes, reader: replica.reader, newId: freshId, incarnation, pageSize: 2 };
  for await (const { effectId, outcome } of restoreEffects(parts, DOMAIN)) {
    if (outcome === 'moved') moved.push(effectId);
  }
  return moved;
}

test('two replicas at work, and restores at once: each incarnation begins once, and nothing of old goes on', async () => {
  const loops = replicas.flatMap((replica) => Array.from({ length: 6 }, () => untilRefused(replica)));
  while ((await entries(() => true)).length < 200) await new Promise((resolve) => setTimeout(resolve, 10));
  const choice = await chosen();
  const [one, other] = (await Promise.allSettled([begin(choice), begin(choice)])).sort((a) =>
    a.status === 'fulfilled' ? -1 : 1,
  );
  expect(one).toMatchObject({ status: 'fulfilled' });
  expect(other).toMatchObject({ status: 'rejected', reason: expect.any(RestoreRefused) });
  // A further one begins while the first still moves what it has found.
  const again = begin(choice + 1n).then(() => move(choice + 1n));
  const moved = (await Promise.all([move(choice), again])).flat();
  const refusals = await Promise.all(loops);
  // Each loop ended by a rule that the restore brought about, none by a store that went back.
  const expected = ['POLICY_REVISION_STALE', 'ENTITLEMENT_STALE', 'WORKLOAD_NOT_CURRENT'];
  for (const refusal of refusals) expect(expected).toContain(JSON.parse(refusal).reason);

  const after = await entries((incarnation) => incarnation > 1n);
  expect(after[0]).toMatchObject({ kind: AuditKind.RESTORE });
  expect(after[0]?.previousHead).toHaveLength(32);
  expect(new Set(after.map(({ incarnation }) => incarnation))).toEqual(new Set([choice, choice + 1n]));
  expect(after.filter(({ kind }) => kind === AuditKind.RESTORE)).toHaveLength(2);
  // Of the effects nothing but the restore's own steps.
  const steps = after.filter(({ effect }) => effect !== undefined);
  for (const { effect, actorSpiffeId } of steps) {
    expect(actorSpiffeId).toBe('');
    expect([EffectState.EXECUTING, EffectState.UNKNOWN]).toContain(effect?.toState);
  }
  expect(steps).toHaveLength(2 * new Set(moved).size);
  const prepared = await world.admin.query(
    "SELECT count(*)::int AS count FROM effects WHERE state = 'PREPARED'",
  );
  expect(prepared.rows).toEqual([{ count: 0 }]);
  await expectSound(world.admin);
});

test('a domain that is made meanwhile is frozen with the others, or made in the new incarnation', async () => {
  const [holder, maker] = await Promise.all([connect(), connect()]);
  await holder.query('BEGIN');
  await holder.query('SELECT FROM domain_heads WHERE domain_id = $1 FOR NO KEY UPDATE', [DOMAIN]);
  const restoring = begin(await chosen());
  // It has looked for the domains that there are, and waits for this one.
  await untilWaits("application_name = 'surety-restore'");
  const making = makeDomain(maker, 'late.test');
  const made = await Promise.race([
    making,
    untilWaits("query LIKE '%FOR NO KEY UPDATE%' AND application_name = 'maker'"),
  ]);
  expect(made).toBe('waits');
  await holder.query('ROLLBACK');
  await Promise.all([restoring, making]);
  const { rows } = await world.admin.query(
    `SELECT domain_id, frozen FROM domains WHERE NOT frozen
      AND created_at < (SELECT last_time FROM domain_heads WHERE domain_id = $1)`,
    [SERVICE_DOMAIN],
  );
  expect(rows).toEqual([]);
  await Promise.all([holder.end(), maker.end()]);
});

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: world.database.url, application_name: 'maker' });
  await client.connect();
  return client;
}

/** Makes a domain as the lane of the service's own domain does: under the lock of that one. */
async function makeDomain(client: pg.Client, domainId: string): Promise<'made'> {
  await client.query('BEGIN');
  await client.query('SELECT FROM domain_heads WHERE domain_id = $1 FOR NO KEY UPDATE', [SERVICE_DOMAIN]);
  const row = { ...firstDomain(nowMicros()), allowStanding: true };
  for (const { text, values } of [insertDomain(domainId, row), insertHead(domainId, row.createdAt)]) {
    await client.query(text, [...(values ?? [])]);
  }
  await client.query('COMMIT');
  return 'made';
}

async function untilWaits(which: string): Promise<'waits'> {
  for (;;) {
    const { rowCount } = await world.admin.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND ${which}`,
    );
    if (rowCount !== 0) return 'waits';
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

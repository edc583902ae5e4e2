import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { expectSound, fingerprint } from '../fault/store-invariants.js';
import { ACME, AUDITOR, type E2eWorld, openE2eWorld, refusedWith } from '../support/e2e-world.js';
import { patientUrl } from '../support/postgres.js';
import type { ServiceProcess } from '../support/service-process.js';
import { type CallKind, ExactCalls } from './exact-calls.js';

// architecture.md, "gather, decide, commit": a process that dies leaves all of a batch or none of it, and the exact
// repeat of a call is answered as the first one was, or done now. Here with real processes that SIGKILL themselves.

let world: E2eWorld;
let executor: WorkloadSession;
let calls: ExactCalls;

beforeAll(async () => {
  world = await openE2eWorld();
  executor = await world.executor();
  calls = new ExactCalls(world, executor);
});
afterAll(() => world.close());

/** How many statements the commit flight of each kind has; between any two of them is a seam. */
const STATEMENTS: Readonly<Record<CallKind, number>> = {
  'effect.reserve': 8,
  'effect.start': 7,
  'effect.acknowledge': 11,
  execute_command: 5,
};

/** The first, the middle and the last of those between two statements: `test/fault/lane-seams.test.ts` has them all. */
function seamsOf(statements: number): string[] {
  const within = [1, Math.floor(statements / 2), statements - 1].map((i) => `in-commit-${i}`);
  return ['after-gather', 'after-decide', ...within, 'before-commit', 'after-commit'];
}

const CASES = (Object.entries(STATEMENTS) as [CallKind, number][]).flatMap(([kind, statements]) =>
  seamsOf(statements).map((seam) => ({ kind, seam })),
);

/** A replica per case, started while the case before it runs. */
const starting = new Map<number, Promise<ServiceProcess>>();
function victimOf(index: number): Promise<ServiceProcess> {
  for (const i of [index, index + 1]) {
    const next = CASES[i];
    if (!next || starting.has(i)) continue;
    const started = world.startReplica({ SURETY_FAULT: `${next.seam}:crash@${next.kind}` });
    started.catch(() => undefined);
    starting.set(i, started);
  }
  return starting.get(index) as Promise<ServiceProcess>;
}

describe('a service that is killed in a batch', () => {
  test.each(CASES.map((one, index) => ({ ...one, index })))(
    'at $seam of $kind: all or nothing, and the exact repeat is answered',
    async ({ kind, seam, index }) => {
      const victim = await victimOf(index);
      const call = await calls.make(kind);
      const before = await fingerprint(world.sql);
      const lost = await refusedWith(call.send(victim));
      expect(lost).toMatchObject({ code: 'UNAVAILABLE', reason: '' });
      expect(await victim.ended).toBe('SIGKILL');
      await expect.poll(openTransactions).toBe(0);

      // Nothing reaches COMMIT before the last seam, and the last one is behind it.
      const committed = seam === 'after-commit';
      const after = await fingerprint(world.sql);
      if (committed) expect(after).not.toEqual(before);
      else expect(after).toEqual(before);
      await expectSound(world.sql, ACME);

      const repeated = await call.send(world.service);
      expect(repeated.duplicate).toBe(committed);
      expect(await call.send(world.service)).toEqual({ ...repeated, duplicate: true });
      await expectSound(world.sql, ACME);
    },
  );

  test('behind the last statement there is no seam: the lists above are whole', async () => {
    for (const [kind, statements] of Object.entries(STATEMENTS) as [CallKind, number][]) {
      const fault = `in-commit-${statements}:crash@${kind}`;
      const replica = await world.startReplica({ SURETY_FAULT: fault });
      const call = await calls.make(kind);
      expect(await call.send(replica), kind).toMatchObject({ duplicate: false });
      await replica.stop();
    }
  });
});

describe('a batch that fails within the service', () => {
  test.each([
    { kind: 'effect.reserve', seam: 'after-gather' },
    { kind: 'effect.start', seam: 'in-commit-3' },
    { kind: 'effect.acknowledge', seam: 'before-commit' },
    { kind: 'execute_command', seam: 'after-commit' },
  ] as const)('at $seam of $kind: its caller sees a success, and only one', async ({ kind, seam }) => {
    const replica = await world.startReplica({ SURETY_FAULT: `${seam}:error@${kind}` });
    const call = await calls.make(kind);
    const first = await call.send(replica);
    expect(first.duplicate).toBe(false);
    // It was met: the lane tried again, or asked what became of its COMMIT.
    const metrics = await (await fetch(`${replica.admin}/metrics`)).text();
    const met = seam === 'after-commit' ? 'commit_unknown' : 'retries';
    expect(metrics.split('\n')).toContain(`surety_lane_${met}_total 1`);
    expect(await call.send(world.service)).toEqual({ ...first, duplicate: true });
    await expectSound(world.sql, ACME);
    await replica.stop();
  });
});

/** The longest that the service lets a call take. */
const PATIENCE_MS = 60_000;

describe('a batch that is held up', () => {
  test('before COMMIT: who gave up waiting did not fail, and who waits behind it is served', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'surety-held-'));
    const heldWhile = path.join(folder, 'held');
    writeFileSync(heldWhile, '');
    const replica = await world.startReplica({
      SURETY_DATABASE_URL: patientUrl(world.database.url),
      SURETY_FAULT: `before-commit:hold@effect.reserve=${heldWhile}`,
    });
    const [slow, behind] = [await calls.make('effect.reserve'), await calls.make('effect.reserve')];
    const patience = new AbortController();
    const given = refusedWith(slow.send(replica, PATIENCE_MS, patience.signal));
    await expect.poll(heldBatches).toBe(1);
    const next = behind.send(world.service, PATIENCE_MS);
    await expect.poll(waitingForLock).toBeGreaterThan(0);
    patience.abort();
    expect(await given).toMatchObject({ code: 'CANCELLED' });
    rmSync(folder, { recursive: true });
    expect(await next).toMatchObject({ duplicate: false });
    expect(await slow.send(world.service)).toMatchObject({ duplicate: true });
    await expectSound(world.sql, ACME);
    await replica.stop();
  });

  test('behind COMMIT, and killed: it holds nobody up, and its answer is there', async () => {
    const replica = await world.startReplica({ SURETY_FAULT: 'after-commit:hold@effect.reserve' });
    const [slow, behind] = [await calls.make('effect.reserve'), await calls.make('effect.reserve')];
    const before = await world.sql.query('SELECT count(*) FROM effects');
    const lost = refusedWith(slow.send(replica, PATIENCE_MS));
    const count = async (): Promise<unknown> => (await world.sql.query('SELECT count(*) FROM effects')).rows;
    await expect.poll(count).not.toEqual(before.rows);
    expect(await behind.send(world.service)).toMatchObject({ duplicate: false });
    await replica.kill();
    expect(await lost).toMatchObject({ code: 'UNAVAILABLE', reason: '' });
    expect(await slow.send(world.service)).toMatchObject({ duplicate: true });
    await expectSound(world.sql, ACME);
  });
});

test('VerifyChain finds the log whole after all this', async () => {
  const reply = await world.channel(AUDITOR).service(AuditService).verifyChain({ domainId: ACME });
  expect(reply).toMatchObject({ verified: true, complete: true, findings: [] });
  expect(reply.entries).toBeGreaterThan(BigInt(CASES.length));
});

function openTransactions(): Promise<number> {
  return othersThat('xact_start IS NOT NULL');
}

function heldBatches(): Promise<number> {
  return othersThat("state = 'idle in transaction' AND query LIKE 'INSERT%'");
}

function waitingForLock(): Promise<number> {
  return othersThat("wait_event_type = 'Lock'");
}

async function othersThat(condition: string): Promise<number> {
  const { rows } = await world.sql.query(
    `SELECT count(*)::int AS count FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND ${condition}`,
  );
  return rows[0].count as number;
}

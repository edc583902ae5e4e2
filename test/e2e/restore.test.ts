import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exportLog } from '../../src/cli/audit-export.js';
import { verifyExport } from '../../src/cli/audit-verify.js';
import { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_PRINCIPAL } from '../../src/cli/demo/set-up-domain.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { ReplayService } from '../../src/gen/surety/replay/v1/replay_service_pb.js';
import { expectSound } from '../fault/store-invariants.js';
import { type CommandEnd, runCommand } from '../support/command-process.js';
import { entitle, findingsOfLog, reconcileAs, WHOLE_LOG } from '../support/e2e-parties.js';
import {
  ACME,
  AUDITOR,
  type E2eWorld,
  EXECUTOR_A,
  EXECUTOR_B,
  HARNESS,
  OPERATOR,
  openE2eWorld,
  refusedWith,
  SERVICE_DOMAIN,
} from '../support/e2e-world.js';
import { type Answered, type Ending, PayingAgent, Provider } from '../support/paying-agents.js';
import { type RecoverablePostgres, startRecoverablePostgres } from '../support/recoverable-postgres.js';
import type { ServiceProcess } from '../support/service-process.js';

// effects.md, Restore; architecture.md, a store that went back. A real backup, taken under load, is rolled forward to a
// moment that lies before the end: what was done after it is forgotten by the store, and by nobody else.

let postgres: RecoverablePostgres;
let world: E2eWorld;
/** Lives through it all; it has seen what the store forgets. */
let survivor: ServiceProcess;
/** Started after the restore. */
let fresh: ServiceProcess;
const provider = new Provider();
let agents: PayingAgent[];
let highestFence = 0n;
let thaw: string;
const nonces = { before: randomUUID(), after: randomUUID() };
/** What was in flight at the moment, as the store says after it went back: state by effect id. */
let inFlight: Map<string, string>;

const ENDINGS: readonly Ending[] = ['acknowledged', 'reserved', 'unknown', 'started', 'sent', 'acknowledged'];
const MINUTE_MS = 60_000;
const PACE_MS = 100;

beforeAll(async () => {
  postgres = await startRecoverablePostgres();
  world = await openE2eWorld({ database: await postgres.createTestDatabase() });
  survivor = world.service;
  const victim = await world.startReplica();
  const grantId = await world.grant({ maxUses: 100_000n });
  const agentOn = async (service: ServiceProcess, spiffeId: string): Promise<PayingAgent> =>
    new PayingAgent(world, service, await world.executor(spiffeId, {}, service), provider, grantId);
  agents = await Promise.all([
    agentOn(survivor, EXECUTOR_A),
    agentOn(survivor, EXECUTOR_A),
    agentOn(victim, EXECUTOR_B),
    agentOn(victim, EXECUTOR_B),
  ]);
  await underLoad(async () => {
    await more(3);
    await postgres.takeBackup();
    await consume(nonces.before);
    await more(4);
  });
  await postgres.markMoment('the moment');

  // What the store is going to forget: new effects, and the ends of those that it will remember as begun.
  await consume(nonces.after);
  thaw = await world.admin.sign(ACME, { case: 'setFreeze', value: { frozen: false } }, 'from before');
  await underLoad(async () => {
    for (const agent of agents) {
      for (const work of agent.works.filter(({ ending }) => ending === 'reserved')) {
        await agent.finish(work, 'acknowledged');
      }
    }
    await more(ENDINGS.length);
    const { rows } = await world.sql.query('SELECT max(fence) AS fence FROM effects');
    highestFence = BigInt(rows[0].fence);
    await victim.kill();
  });
  await postgres.bringBackTo('the moment');
  await world.reconnect();
  inFlight = await nonTerminal();
}, 240_000);
afterAll(async () => {
  await world?.close();
  await postgres?.stop();
});

/** All agents begin effects, one after the other, until the work is done; whoever has no service any more stops. */
async function underLoad(work: () => Promise<void>): Promise<void> {
  const end = new AbortController();
  const loops = agents.map(async (agent, index) => {
    for (let i = index; !end.signal.aborted; i += 1) {
      try {
        await agent.begin(ENDINGS[i % ENDINGS.length] as Ending);
      } catch {
        return;
      }
      // Somebody thinks between two effects: what is begun is sent again as a whole later.
      await pause(PACE_MS);
    }
  });
  await work();
  end.abort();
  await Promise.all(loops);
}

/** Waits until each agent has begun so many effects more. */
async function more(count: number): Promise<void> {
  const until = agents.map((agent) => agent.works.length + count);
  while (agents.some((agent, i) => agent.works.length < (until[i] as number))) await pause(10);
}

/** Consumes a nonce whose carrier is good for ten minutes. */
function consume(nonce: string, service = survivor) {
  return world
    .channel(HARNESS, service)
    .service(ReplayService)
    .consumeNonce({
      scope: 'webhook',
      nonce,
      consumptionId: `verification-${randomUUID()}`,
      expireTime: timestampFromMs(Date.now() + 10 * MINUTE_MS),
    });
}

async function nonTerminal(): Promise<Map<string, string>> {
  const { rows } = await world.sql.query(
    "SELECT effect_id, state FROM effects WHERE state IN ('PREPARED', 'EXECUTING', 'UNKNOWN') ORDER BY effect_id",
  );
  return new Map(rows.map(({ effect_id, state }) => [effect_id, state]));
}

async function incarnation(): Promise<bigint> {
  const { rows } = await world.sql.query('SELECT incarnation FROM service_state');
  return BigInt(rows[0].incarnation);
}

function restore(...args: readonly string[]): Promise<CommandEnd> {
  return runCommand(['restore', ...args], { SURETY_MIGRATION_URL: world.database.url });
}

async function repeatEverything(): Promise<Answered[]> {
  const replicas = [survivor, fresh];
  const answers = await Promise.all(agents.map((agent, i) => agent.repeatAll(replicas[i % 2])));
  return answers.flat();
}

function reasonsOf(answers: readonly Answered[], rpc: string): string[] {
  return [...new Set(answers.filter((one) => one.rpc === rpc).map(({ answer }) => answer))].sort();
}

describe('a database that was brought back to a moment before the end', () => {
  test('has forgotten what was done since, and remembers as begun what was finished', async () => {
    const works = agents.flatMap((agent) => agent.works);
    const known = works.flatMap(({ effect }) => (effect ? [effect.effectId] : []));
    const { rows } = await world.sql.query('SELECT count(*)::int AS count FROM effects');
    expect(rows[0].count).toBeGreaterThan(0);
    expect(rows[0].count).toBeLessThan(known.length);
    const finished = works.filter(
      ({ effect, acknowledged }) => acknowledged && inFlight.get(effect?.effectId ?? '') === 'PREPARED',
    );
    expect(finished.length).toBeGreaterThan(0);
    expect(new Set(inFlight.values())).toEqual(new Set(['PREPARED', 'EXECUTING', 'UNKNOWN']));
  });

  test('is served by no process that has seen more, until surety restore has run', async () => {
    expect(await refusedWith(world.publish())).toMatchObject({
      code: 'UNAVAILABLE',
      reason: 'STORE_REGRESSED',
    });
    const [agent] = agents as [PayingAgent];
    expect(new Set((await agent.repeatAll()).map(({ answer }) => answer))).toEqual(
      new Set(['STORE_REGRESSED']),
    );
    expect(await nonTerminal()).toEqual(inFlight);
  });

  test('lists everything in flight, raises the incarnation and moves what is PREPARED to UNKNOWN', async () => {
    const refused = await restore();
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('stop them first') });
    const { code, out, err } = await restore('--json', '--while-serving');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const lines = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const listed = lines.filter(({ type }) => type === 'effect');
    expect(listed.map(({ effectId, state }) => [effectId, state])).toEqual([...inFlight]);
    for (const { state, outcome } of listed) expect(outcome).toBe(state === 'PREPARED' ? 'moved' : 'left');
    expect(lines.at(-1)).toMatchObject({ type: 'done', domains: 2, refused: 0 });
    expect([...(await nonTerminal()).values()]).not.toContain('PREPARED');
    await expectSound(world.sql);
  });
});

describe('after surety restore', () => {
  test('old proofs, nonces and commands are refused, by the process that lived through it and by a new one', async () => {
    fresh = await world.startReplica();
    const answers = await repeatEverything();
    for (const rpc of ['start', 'markUnknown', 'acknowledge']) {
      expect(reasonsOf(answers, rpc)).toEqual(['NOT_VISIBLE', 'WORKLOAD_NOT_CURRENT']);
    }
    expect(reasonsOf(answers, 'reserve')).not.toContain('STORE_REGRESSED');
    for (const service of [survivor, fresh]) {
      expect(await refusedWith(consume(nonces.before, service))).toMatchObject({ reason: 'NONCE_REPLAYED' });
      expect(await refusedWith(consume(nonces.after, service))).toMatchObject({ reason: 'FROZEN' });
    }
    const admin = world.channel(OPERATOR).service(AdminService);
    expect(await refusedWith(admin.executeCommand({ commandJws: thaw }))).toMatchObject({
      reason: 'COMMAND_SIGNATURE_INVALID',
      metadata: { rule: 'incarnation' },
    });
    expect(provider.most).toBe(1);
  });

  test('an executor of the new incarnation starts nothing of old, by whatever fence', async () => {
    const [one, other] = await Promise.all([
      world.executor(EXECUTOR_A, {}, survivor),
      world.executor(EXECUTOR_B, {}, fresh),
    ]);
    const sessions = [one, other] as [WorkloadSession, WorkloadSession];
    const answers = await Promise.all(
      agents.map((agent, i) => agent.startAllAnew(sessions[i % 2] as WorkloadSession)),
    );
    expect(reasonsOf(answers.flat(), 'start')).toEqual(['EFFECT_STATE_CONFLICT', 'NOT_VISIBLE']);
    const stale = new WorkloadSession(one.channel, one.registration, one.key, {
      ...one.service,
      incarnation: 1n,
    });
    const [effectId] = inFlight.keys();
    const effect = await stale.look(effectId ?? '');
    const send = (session: WorkloadSession, fence: bigint) =>
      session
        .start({ ...effect, fence }, 'attempt-of-old-times')
        .then((request) => session.channel.service(EffectService).startExecution(request));
    const mismatch = (field: string) => ({ reason: 'PROOF_BINDING_MISMATCH', metadata: { field } });
    expect(await refusedWith(send(stale, effect.fence))).toMatchObject(mismatch('incarnation'));
    expect(await refusedWith(send(one, effect.fence + 1n))).toMatchObject(mismatch('fence'));
    expect(provider.most).toBe(1);
  });

  test('everything in flight is settled by evidence, while the domain is frozen', async () => {
    // Executors are lost, and no send can come any more.
    await world.advance(20 * MINUTE_MS);
    expect(new Set((await nonTerminal()).values())).toEqual(new Set(['UNKNOWN']));
    const reconciler = await world.reconciler({}, fresh);
    for (const effectId of inFlight.keys()) {
      const effect = await reconciler.look(effectId);
      const state = provider.sent(effect.requestDigest) > 0 ? EffectState.SUCCEEDED : EffectState.FAILED;
      await reconcileAs(world, reconciler, { effect, attemptId: effect.attemptId }, state);
      expect((await reconciler.look(effectId)).state).toBe(state);
    }
    expect(await nonTerminal()).toEqual(new Map());
    const { rows } = await world.sql.query('SELECT request_digest, state FROM effects');
    for (const { request_digest, state } of rows) {
      expect([provider.sent(request_digest), state]).toEqual(
        state === 'SUCCEEDED' ? [1, state] : [0, expect.stringMatching(/FAILED|CANCELLED/)],
      );
    }
    await expectSound(world.sql);
  });

  test('an operator ends the freeze; old grants stay stale, and new work goes, under higher fences', async () => {
    for (const domainId of [ACME, SERVICE_DOMAIN]) {
      await world.admin.execute(domainId, { case: 'setFreeze', value: { frozen: false } }, 'reconciled');
    }
    await entitle(world, DEMO_PRINCIPAL);
    const answers = await repeatEverything();
    expect(reasonsOf(answers, 'start')).toEqual(['NOT_VISIBLE', 'WORKLOAD_NOT_CURRENT']);
    // What the store remembers is answered, with a state that is settled; what it forgot is not reserved again.
    expect(reasonsOf(answers, 'reserve')).not.toContain('FROZEN');
    expect(provider.most).toBe(1);
    const { rows } = await world.sql.query('SELECT count(*)::int AS count FROM effects WHERE fence >= $1', [
      ((await incarnation()) << 40n).toString(),
    ]);
    expect(rows).toEqual([{ count: 0 }]);

    // The carrier of the nonce that was forgotten has expired by now.
    expect(await refusedWith(consume(nonces.after))).toMatchObject({ reason: 'FIELD_INVALID' });
    const executor = await world.executor(EXECUTOR_A, {}, fresh);
    const agent = new PayingAgent(world, fresh, executor, provider, await world.grant());
    const { effect, requestDigest } = await agent.begin('acknowledged');
    expect(effect?.fence).toBeGreaterThan(highestFence);
    expect((await executor.look(effect?.effectId ?? '')).state).toBe(EffectState.SUCCEEDED);
    expect(provider.sent(requestDigest)).toBe(1);
  });

  test('the log spans it: an export verifies offline, and the service says so too', async () => {
    for (const domainId of [ACME, SERVICE_DOMAIN]) {
      const lines: string[] = [];
      const audit = world.channel(AUDITOR).service(AuditService);
      await exportLog({ audit, domainId, write: async (line) => void lines.push(line) });
      const each = async function* () {
        yield* lines;
      };
      const report = await verifyExport(each(), domainId);
      expect(report.findings).toEqual([]);
      expect(report.entries).toBe(BigInt(lines.length - 2));
    }
    expect(await findingsOfLog(world)).toEqual(WHOLE_LOG);
  });
});

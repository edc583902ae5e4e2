import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FakeProvider, type ProviderConduct } from '../../src/cli/demo/fake-provider.js';
import { DrainFailed, type Worker } from '../../src/cli/worker/worker.js';
import { ActionParties } from '../support/action-parties.js';
import { ACME, type E2eWorld, openE2eWorld } from '../support/e2e-world.js';
import type { ServiceProcess } from '../support/service-process.js';
import { eachOf, Killed, lossy, makeWorker, registerWorkers, seededRandom } from '../support/worker-fleet.js';

// Issue "Governed actions end to end": many workers, and workers that die, through the real API on two replicas.

/** How many actions the dying workers are given; ten thousand by hand. */
const ACTIONS = Number(process.env['SURETY_WORKER_ACTIONS'] ?? 80);
const SEED = Number(process.env['SURETY_WORKER_SEED'] ?? 1);
/** Two for each of the thirty-two workers. */
const FLEET_ACTIONS = 64;
const TIMEOUT_MS = 60_000 + ACTIONS * 400;

let world: E2eWorld;
let parties: ActionParties;
let services: readonly ServiceProcess[];
beforeAll(async () => {
  world = await openE2eWorld();
  services = [world.service, await world.startReplica()];
  parties = await ActionParties.join(world);
  // One owner and one worker make all calls: what is tried here is not admission.
  await world.admin.execute(ACME, { case: 'setShare', value: { requestsPerMinute: 1_000_000 } });
  const limits = { actorRequestsPerMinute: 1_000_000, fairnessBurst: 1_000_000 };
  await world.admin.execute(ACME, { case: 'setLimits', value: limits });
}, 60_000);
afterAll(() => world.close());

interface StoredAction {
  readonly action_id: string;
  readonly state: string;
  readonly failure_reason: string | null;
  readonly attempt_count: number;
  readonly execution_digest: Buffer | null;
}

async function storedActions(prefix: string): Promise<StoredAction[]> {
  const { rows } = await world.sql.query(
    `SELECT action_id, state, failure_reason, attempt_count, execution_digest FROM actions
      WHERE source LIKE $1 || '%' ORDER BY action_id`,
    [prefix],
  );
  return rows as StoredAction[];
}

/** Proposed and approved, under eight sources below the prefix. */
async function gate(prefix: string, count: number): Promise<void> {
  const names = Array.from({ length: count }, (_, n) => n);
  await eachOf(names, 16, (n) => parties.gated({ source: `${prefix}${n % 8}` }));
}

const scopeOf = (prefix: string) => ({ sourceScope: { case: 'sourcePrefix' as const, value: prefix } });

describe('thirty-two workers on one scope, on two replicas', () => {
  test('lease each action once and dispatch it once', async () => {
    const prefix = 'fleet-';
    const provider = await FakeProvider.start();
    try {
      await gate(prefix, FLEET_ACTIONS);
      const sessions = await registerWorkers(world, 32, services);
      const scope = scopeOf(prefix);
      const parts = { providerUrl: provider.url, scope };
      await Promise.all(sessions.map((session) => makeWorker({ session, ...parts }).drain()));

      const actions = await storedActions(prefix);
      expect(actions.filter(({ state }) => state !== 'COMPLETED')).toEqual([]);
      expect(actions).toHaveLength(FLEET_ACTIONS);
      expect([provider.records.size, provider.mostRequests, provider.mismatches]).toEqual([
        FLEET_ACTIONS,
        1,
        0,
      ]);
      const { rows } = await world.sql.query(
        `SELECT e.kind, count(*)::int AS events, count(DISTINCT e.action_id)::int AS actions
           FROM action_events e JOIN actions a USING (domain_id, action_id)
          WHERE a.source LIKE 'fleet-%' AND e.kind IN ('leased', 'dispatched', 'observation_leased')
          GROUP BY e.kind ORDER BY e.kind`,
      );
      expect(rows).toEqual([
        { kind: 'dispatched', events: FLEET_ACTIONS, actions: FLEET_ACTIONS },
        { kind: 'leased', events: FLEET_ACTIONS, actions: FLEET_ACTIONS },
      ]);
    } finally {
      await provider.close();
    }
  }, 60_000);
});

/** Of ten requests, what the provider makes of them. */
const CONDUCTS: readonly ProviderConduct[] = [
  ...(['honest', 'honest', 'honest', 'loses_answer', 'late', 'wrong_digest'] as const),
  ...(['false_done', 'refuses', 'retryable', 'loses_request'] as const),
];
/** More where there are more actions: a batch takes in whoever waits. */
const WORKERS = ACTIONS > 1_000 ? 64 : 8;
/** Each step kills so often before and so often after it. */
const DEATH = 0.03;
const LOSS = 0.06;
/** All rounds together stay within the hour of registrations and approvals. */
const LEASE_MS = 30_000;
/** More rounds than any action has states, observations and deaths. */
const MAX_ROUNDS = 60;

describe('workers that die anywhere, with answers that are lost', () => {
  test(
    `bring ${ACTIONS} actions to an end, none dispatched twice`,
    async () => {
      const prefix = 'dying-';
      const random = seededRandom(SEED);
      const provider = await FakeProvider.start((body) => ({
        conduct: CONDUCTS[body.length % CONDUCTS.length] ?? 'honest',
        pendingReads: body.length % 3,
      }));
      try {
        const began = performance.now();
        const names = Array.from({ length: ACTIONS }, (_, n) => n);
        // Payloads of different lengths: the provider's conduct is by its request's.
        await eachOf(names, 2 * WORKERS, (n) => {
          const text = JSON.stringify({ tool_name: 'mail.send', text: 'x'.repeat(n % 97) });
          return parties.gated({ source: `${prefix}${n % 8}`, payload: Uint8Array.from(Buffer.from(text)) });
        });
        const sessions = await registerWorkers(world, WORKERS, services, (channel) =>
          lossy(channel, random, LOSS),
        );
        let deaths = 0;
        const hook = (): void => {
          if (random() >= DEATH) return;
          deaths += 1;
          throw new Killed();
        };
        const start = (n: number): Worker =>
          makeWorker({
            session: sessions[n] as (typeof sessions)[number],
            ...{ providerUrl: provider.url, scope: scopeOf(prefix), hook },
            policy: { providerTimeoutMs: 300, leaseMs: LEASE_MS, retryDelayMs: LEASE_MS },
          });
        const untilIdle = async (n: number): Promise<void> => {
          for (;;) {
            try {
              return await start(n).drain();
            } catch (error) {
              // Where every sending of a call was lost, the next worker asks again.
              if (!(error instanceof Killed || error instanceof DrainFailed)) throw error;
            }
          }
        };
        const open = async (): Promise<number> =>
          (await storedActions(prefix)).filter(({ state }) => !['COMPLETED', 'FAILED'].includes(state))
            .length;
        let rounds = 0;
        for (; (await open()) > 0; rounds += 1) {
          expect(rounds).toBeLessThan(MAX_ROUNDS);
          await Promise.all(names.slice(0, WORKERS).map(untilIdle));
          await world.advance(LEASE_MS + 1_000);
        }
        const actions = await storedActions(prefix);
        await expectEnds(actions, provider);
        if (process.env['SURETY_WORKER_ACTIONS'])
          process.stdout.write(
            summary(actions, { deaths, rounds, seconds: (performance.now() - began) / 1000 }),
          );
      } finally {
        await provider.close();
      }
    },
    TIMEOUT_MS,
  );
});

/** Every action has ended, with a reason where it failed; what completed was done once; dead letters are of the failed ones. */
async function expectEnds(actions: readonly StoredAction[], provider: FakeProvider): Promise<void> {
  expect(actions).toHaveLength(ACTIONS);
  expect([provider.mostRequests, provider.mismatches]).toEqual([1, 0]);
  for (const {
    state,
    failure_reason: reason,
    attempt_count: attempts,
    execution_digest: digest,
  } of actions) {
    const record = provider.records.get(digest?.toString('hex') ?? '');
    if (state === 'COMPLETED') expect(record).toMatchObject({ requests: 1, done: 1 });
    else expect([state, reason]).toEqual(['FAILED', expect.stringMatching(/./)]);
    expect(attempts).toBe(digest === null ? 0 : 1);
    expect(record?.done ?? 0).toBeLessThanOrEqual(1);
  }
  const failed = actions.filter(({ state }) => state === 'FAILED').map(({ action_id: id }) => id);
  const { rows } = await world.sql.query(
    `SELECT d.action_id FROM dead_letters d JOIN actions a USING (domain_id, action_id)
      WHERE a.source LIKE 'dying-%' ORDER BY d.action_id`,
  );
  expect(rows.map(({ action_id: id }) => id)).toEqual(failed);
}

function summary(
  actions: readonly StoredAction[],
  { deaths, rounds, seconds }: { deaths: number; rounds: number; seconds: number },
): string {
  const ends = new Map<string, number>();
  for (const { state, failure_reason: reason } of actions) {
    const end = reason === null ? state : `${state} ${reason}`;
    ends.set(end, (ends.get(end) ?? 0) + 1);
  }
  const told = [...ends].map(([end, count]) => `${end} ${count}`).join(', ');
  return `${deaths} deaths, ${rounds} rounds, ${seconds.toFixed(0)} s: ${told}\n`;
}

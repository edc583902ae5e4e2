import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import type { Reason } from '../../src/ledger/refusal.js';
import { type EffectWorld, openWorld, type Replica } from '../support/effect-world.js';
import { urlFor } from '../support/postgres.js';
import { isLaneCommit } from '../support/postgres-messages.js';
import { type CutAt, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.js';
import {
  acknowledgeCall,
  type Call,
  reconcileCall,
  reserveCall,
  seedWorkers,
  startCall,
  submit,
  unknownCall,
  type Workers,
} from './effect-life.js';
import { type LaneReplica, laneReplica } from './lane-replica.js';
import { expectSound } from './store-invariants.js';

// architecture.md, "The lane": two replicas, one hot domain, connections dropped at random.

/** A minute shows it well; a part of it keeps the suite short. `SURETY_TEST_HICCUP_SECONDS=60` for the whole. */
const SECONDS = Number(process.env['SURETY_TEST_HICCUP_SECONDS'] ?? 12);
const CALLERS = 16;
/** Longer than any lane looks into a lost COMMIT: a reply that takes longer is lost. */
const LOST_AFTER_MS = 45_000;

/** What a caller repeats the exact call after. */
const COME_BACK: ReadonlySet<Reason> = new Set(['OUTCOME_UNKNOWN', 'STORE_UNAVAILABLE', 'BACKPRESSURE']);

/** After how many answers the weather may turn bad again: on a slow machine too, what is begun comes to an end. */
const CALM_ANSWERS = 4;

/** What the callers saw. */
interface Seen {
  answers: number;
  lives: number;
  repeats: number;
  /** Calls that more than one submission was answered as the first. */
  doubles: Call[];
  /** Replies to one call that differ. */
  contradictions: unknown[];
  refused: unknown[];
  /** The last word about each effect. */
  readonly last: Map<string, EffectRow>;
}

let world: EffectWorld;
let healthy: Replica;
let workers: Workers & { grantId: string };
let proxies: TcpProxy[];
let replicas: LaneReplica[];

beforeAll(async () => {
  world = await openWorld();
  healthy = world.replica();
  workers = await seedWorkers(world);
  const targetPort = Number(new URL(world.database.url).port);
  proxies = await Promise.all([startTcpProxy({ targetPort }), startTcpProxy({ targetPort })]);
  replicas = proxies.map(({ port }) => laneReplica(urlFor(world.database.serviceUrl, { port })));
});
afterAll(async () => {
  await Promise.all(proxies.map((proxy) => proxy.close()));
  await world.close();
});

describe('two replicas on one domain, whose connections are dropped at random', () => {
  test(
    `for ${SECONDS} s: no double, no lost reply, the log whole`,
    async () => {
      const seen: Seen = {
        answers: 0,
        lives: 0,
        repeats: 0,
        doubles: [],
        contradictions: [],
        refused: [],
        last: new Map(),
      };
      const until = performance.now() + SECONDS * 1_000;
      // At least so long, and until the weather was bad enough to show something.
      const isOver = (): boolean =>
        seen.refused.length > 0 ||
        (performance.now() >= until && leastHiccups() > SECONDS / 10 && seen.lives > SECONDS);
      const weather = badWeather(isOver, seen);
      await Promise.all(Array.from({ length: CALLERS }, () => liveUntil(isOver, seen)));
      await weather;

      expect(seen.doubles).toEqual([]);
      expect(seen.contradictions).toEqual([]);
      expect(seen.refused).toEqual([]);
      await expectSound(world.admin);
      const { rows } = await world.admin.query('SELECT effect_id, state, fence, step FROM effects');
      expect(rows).toHaveLength(seen.last.size);
      for (const row of rows) {
        const { state, fence, step } = seen.last.get(row.effect_id) as EffectRow;
        expect({ state, fence: fence.toString(), step: step.toString() }).toEqual({
          state: row.state,
          fence: row.fence,
          step: row.step,
        });
      }
      await Promise.all(replicas.map((replica) => replica.close()));
    },
    (SECONDS + 300) * 1_000,
  );
});

/** How often the replica that met the least of them lost a COMMIT, or had to try again. */
function leastHiccups(): number {
  return Math.min(...replicas.flatMap(({ tally }) => [tally.unknownCommits, tally.retries]));
}

/** Drops all connections of a replica, ends one in the server, or cuts one at COMMIT, at most some five times a second. */
async function badWeather(isOver: () => boolean, seen: Seen): Promise<void> {
  while (!isOver()) {
    const proxy = pick(proxies);
    const kind = Math.random();
    if (kind < 0.35) proxy.dropAll();
    else if (kind < 0.7) await terminateOne();
    else void proxy.cutAfter(isLaneCommit, pick<CutAt>(['before', 'forwarded', 'answered']));
    const calmUntil = seen.answers + CALM_ANSWERS;
    await pause(100 + 200 * Math.random());
    while (seen.answers < calmUntil && !isOver()) await pause(10);
  }
}

function terminateOne(): Promise<unknown> {
  return world.admin.query(
    `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'surety-fault' ORDER BY random() LIMIT 1) AS victim`,
  );
}

async function liveUntil(isOver: () => boolean, seen: Seen): Promise<void> {
  while (!isOver()) {
    let effect = await insist(await reserveCall(healthy, workers.grantId), seen);
    if (effect) effect = await insist(startCall(workers.executor, effect), seen);
    if (!effect) return;
    if (Math.random() < 0.5) {
      const state = pick(['SUCCEEDED', 'FAILED', 'CANCELLED'] as const);
      effect = await insist(acknowledgeCall(workers.executor, effect, state), seen);
    } else {
      effect = await insist(unknownCall(workers.executor, effect), seen);
      effect = effect && (await insist(reconcileCall(workers.reconciler, effect), seen));
    }
    if (effect) seen.lives += 1;
  }
}

/** Repeats the exact call, at either replica and at times at both at once, until it is answered. */
async function insist(call: Call, seen: Seen): Promise<EffectRow | undefined> {
  const firsts: EffectRow[] = [];
  let answer: EffectRow | undefined;
  while (!answer) {
    const targets = Math.random() < 0.2 ? replicas : [pick(replicas)];
    const outcomes = await Promise.all(targets.map((replica) => inTime(submit(replica, call), call)));
    for (const outcome of outcomes) {
      if (outcome.ok) {
        const { effect, duplicate } = outcome.reply;
        if (!duplicate) firsts.push(effect);
        if (answer && !sameState(answer, effect)) seen.contradictions.push([answer, effect]);
        answer = effect;
        seen.answers += 1;
      } else if (!COME_BACK.has(outcome.refusal.reason)) {
        seen.refused.push([call.decision.kind, outcome.refusal]);
        return undefined;
      }
    }
    if (!answer) seen.repeats += 1;
  }
  if (firsts.length > 1) seen.doubles.push(call);
  seen.last.set(answer.effectId, answer);
  return answer;
}

function sameState(one: EffectRow, other: EffectRow): boolean {
  return one.effectId === other.effectId && one.fence === other.fence && one.stateSeq === other.stateSeq;
}

async function inTime<T>(work: Promise<T>, call: Call): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the reply to ${call.decision.kind} is lost`)), LOST_AFTER_MS);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

function pick<T>(items: readonly T[]): T {
  return items[Math.floor(Math.random() * items.length)] as T;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

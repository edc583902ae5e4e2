import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { expectSound } from '../fault/store-invariants.js';
import { ACME, AUDITOR, type E2eWorld, openE2eWorld } from '../support/e2e-world.js';
import { urlFor } from '../support/postgres.js';
import { type FrontendMessage, isLaneCommit } from '../support/postgres-messages.js';
import type { ServiceProcess } from '../support/service-process.js';
import { type CutAt, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.js';
import { type Answer, type CallKind, type ExactCall, ExactCalls } from './exact-calls.js';

// architecture.md: a COMMIT whose answer is lost is unknown, never failed; STORE_UNAVAILABLE means not done. Here as
// callers of two real replicas see it, one of which has its connections to Postgres cut.

let world: E2eWorld;
let calls: ExactCalls;
let proxy: TcpProxy;
/** The replica whose store is behind the proxy. */
let replica: ServiceProcess;

beforeAll(async () => {
  world = await openE2eWorld();
  calls = new ExactCalls(world, await world.executor());
  const { port } = new URL(world.database.url);
  proxy = await startTcpProxy({ targetPort: Number(port) });
  replica = await world.startReplica({
    SURETY_DATABASE_URL: urlFor(world.database.url, { port: proxy.port }),
    // Only what is sent here goes through the proxy, and no COMMIT of a sweep is taken for a batch's.
    SURETY_SWEEP_INTERVAL_MS: '3600000',
  });
});
afterAll(async () => {
  await world.close();
  await proxy.close();
});
afterEach(() => expectSound(world.sql, ACME));

const KINDS: readonly CallKind[] = [
  'effect.reserve',
  'effect.start',
  'effect.acknowledge',
  'execute_command',
];
const CUTS: readonly CutAt[] = ['before', 'forwarded', 'answered'];

describe('a connection that is cut at COMMIT', () => {
  test.each(KINDS.flatMap((kind) => CUTS.map((at) => ({ kind, at }))))(
    '$at, of $kind: the caller gets the first answer, and a repeat gets it again',
    async ({ kind, at }) => {
      const call = await calls.make(kind);
      const before = await counters(replica);
      const cut = proxy.cutAfter(commitOfBatch(), at);
      const first = await call.send(replica);
      await cut;
      expect(first.duplicate).toBe(false);
      const after = await counters(replica);
      expect(after.unknown - before.unknown).toBe(1);
      // What was committed is not done again, what was not is.
      if (at !== 'forwarded') expect(after.retries - before.retries).toBe(at === 'before' ? 1 : 0);
      expect(await call.send(world.service)).toEqual({ ...first, duplicate: true });
    },
  );
});

describe('connections that are lost while callers are at work', () => {
  test.each([
    {
      how: 'ended by pg_terminate_backend, of both replicas',
      lose: async () => (await world.sql.query(TERMINATE)).rowCount ?? 0,
    },
    {
      how: 'dropped by the network, of one replica',
      lose: async () => {
        const open = proxy.connections();
        proxy.dropAll();
        return open;
      },
    },
  ])(
    '$how: done once, or said not to be',
    async ({ lose }) => {
      const all = await Promise.all(Array.from({ length: CALLERS * CALLS_EACH }, () => calls.reserve()));
      const began = (await world.sql.query('SELECT count(*)::int AS effects FROM effects')).rows[0].effects;
      const storm = new Storm(lose);
      const answers = await Promise.all(
        Array.from({ length: CALLERS }, async (_, caller) => {
          const mine: Answer[] = [];
          for (let i = caller; i < all.length; i += CALLERS) {
            const service = i % 2 === 0 ? replica : world.service;
            mine.push(await untilDone(all[i] as ExactCall, service));
            await storm.answered();
          }
          return mine;
        }),
      );
      expect(storm.lost).toBeGreaterThan(5);
      const done = answers.flat();
      expect(new Set(done.map(({ result }) => result['effectId'])).size).toBe(all.length);
      const { rows } = await world.sql.query('SELECT count(*)::int AS effects FROM effects');
      expect(rows[0].effects - began).toBe(all.length);
      for (const [i, call] of all.entries()) {
        const first = answers[i % CALLERS]?.[Math.floor(i / CALLERS)];
        expect(await call.send(world.service)).toEqual({ ...first, duplicate: true });
      }
      const chain = await world.channel(AUDITOR).service(AuditService).verifyChain({ domainId: ACME });
      expect(chain).toMatchObject({ verified: true, complete: true, findings: [] });
    },
    120_000,
  );
});

const CALLERS = 6;
const CALLS_EACH = 6;
/** Of one caller; a call meets a few lost connections at most. */
const MAX_ATTEMPTS = 200;
const TERMINATE = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'surety%'`;

/** Loses all connections behind every second answer, while the other callers are at work: however fast they are. */
class Storm {
  /** How many connections were lost. */
  lost = 0;
  private answers = 0;
  /** One after the other. */
  private blows = Promise.resolve();

  constructor(private readonly lose: () => Promise<number>) {}

  async answered(): Promise<void> {
    this.answers += 1;
    if (this.answers % 2 === 0) this.blows = this.blows.then(() => this.blow());
    await this.blows;
  }

  private async blow(): Promise<void> {
    // The others are not always where they are when this one is answered.
    await sleep(20 * Math.random());
    this.lost += await this.lose();
  }
}

/**
 * Repeats the exact call for as long as it is told that the store was away. What was said not to be done is then done
 * for the first time.
 */
async function untilDone(call: ExactCall, service: ServiceProcess): Promise<Answer> {
  let certain = true;
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const outcome = await call.send(service).catch((error: unknown) => error);
    if (!(outcome instanceof Error)) {
      const answer = outcome as Answer;
      if (certain) expect(answer.duplicate).toBe(false);
      return answer;
    }
    expect(outcome).toBeInstanceOf(SuretyError);
    const { code, reason } = outcome as SuretyError;
    expect({ code, reason }).toEqual({
      code: 'UNAVAILABLE',
      reason: expect.stringMatching(/^(STORE_UNAVAILABLE|OUTCOME_UNKNOWN)$/),
    });
    if (reason === 'OUTCOME_UNKNOWN') certain = false;
  }
  throw new Error(`not done after ${MAX_ATTEMPTS} attempts`);
}

/**
 * The COMMIT of a flight that wrote an entry of the log: a flight is sent in one piece, so it is the next one behind that
 * statement; that of a read has none before it.
 */
function commitOfBatch(): (message: FrontendMessage) => boolean {
  let writes = false;
  return (message) => {
    if (message.body.includes('insert_audit_entries')) writes = true;
    return writes && isLaneCommit(message);
  };
}

async function counters({ admin }: ServiceProcess): Promise<{ unknown: number; retries: number }> {
  const text = await (await fetch(`${admin}/metrics`)).text();
  const value = (name: string): number => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
  return {
    unknown: value('surety_lane_commit_unknown_total'),
    retries: value('surety_lane_retries_total'),
  };
}

import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { createSigningKey } from '../../src/identity/sign.js';
import { EXECUTOR_A } from '../support/e2e-world.js';
import { type Rpc, type Target, time, TransitionRig } from '../support/transition-rig.js';

const SECOND = 1_000_000n;

let rig: TransitionRig;
let executor: WorkloadSession;
let reconciler: WorkloadSession;

beforeAll(async () => {
  rig = await TransitionRig.open();
  executor = await rig.world.executor();
  reconciler = await rig.world.reconciler();
});
afterAll(() => rig.close());

const freshNonce = (): string => randomBytes(24).toString('base64url');

/** Refused as a replay, and without a trace. */
async function replays(rpc: Rpc, session: WorkloadSession, target: Target, nonce: string): Promise<void> {
  const traces = await rig.traces();
  expect(await rig.refused(rpc, session, target, { statement: { nonce } })).toMatchObject({
    code: 'ALREADY_EXISTS',
    reason: 'PROOF_REPLAYED',
  });
  expect(await rig.traces()).toEqual(traces);
}

/** Spends a nonce on the start of an effect. */
async function spend(session: WorkloadSession, statement = { nonce: freshNonce() }): Promise<string> {
  await rig.done('start', session, await rig.prepared(), { statement });
  return statement.nonce;
}

describe('rule 12: a nonce is spent on one statement', () => {
  test('in another statement of the same registration, at once, for each RPC', async () => {
    const nonce = await spend(executor);
    await replays('start', executor, await rig.prepared(), nonce);
    const executing = await rig.executing(executor);
    await replays('markUnknown', executor, executing, nonce);
    await replays('acknowledge', executor, executing, nonce);
    const settled = freshNonce();
    await rig.done('reconcile', reconciler, await rig.unknown(executor), { statement: { nonce: settled } });
    const unknown = await rig.unknown(executor);
    await replays('reconcile', reconciler, unknown, settled);
    // Nothing else was wrong with them.
    expect(await rig.done('acknowledge', executor, executing)).toMatchObject({ duplicate: false });
    expect(await rig.done('reconcile', reconciler, unknown)).toMatchObject({ duplicate: false });
  });

  test('in the next statement for the same effect', async () => {
    const target = await rig.prepared();
    const nonce = freshNonce();
    await rig.done('start', executor, target, { statement: { nonce } });
    await replays('markUnknown', executor, target, nonce);
  });

  test('a statement that differs in its issue time alone is another one', async () => {
    const [target, other] = [await rig.prepared(), await rig.prepared()];
    const statement = { nonce: freshNonce(), issuedTime: time(rig.now - SECOND) };
    await rig.done('start', executor, target, { statement });
    await replays('start', executor, other, statement.nonce);
  });

  test('a refused transition spends nothing', async () => {
    const target = await rig.prepared();
    const statement = { nonce: freshNonce() };
    const late = { startTime: time(rig.now + 61n * SECOND) };
    expect(await rig.refused('start', executor, target, { statement, evidence: late })).toMatchObject({
      reason: 'EVIDENCE_TIME_OUTSIDE_WINDOW',
    });
    expect(await rig.done('start', executor, target, { statement })).toMatchObject({ duplicate: false });
  });

  test('another registration has its own', async () => {
    const nonce = await spend(executor);
    const other = await rig.world.executor();
    expect(await spend(other, { nonce })).toBe(nonce);
    const settle = await rig.done('reconcile', reconciler, await rig.unknown(executor), {
      statement: { nonce },
    });
    expect(settle).toMatchObject({ duplicate: false });
  });

  test('after a renewal, also with another key, process and session', async () => {
    const first = await rig.world.executor();
    const nonce = await spend(first);
    const second = await rig.renewed(first, { sessionId: 'session-2' }, createSigningKey());
    await replays('start', second, await rig.prepared(), nonce);
    const third = await rig.renewed(second);
    await replays('start', third, await rig.prepared(), nonce);
  });
});

describe('as long as any token with it can verify', () => {
  /** A registration that ends before its nonces may be forgotten, and its renewal in time. */
  async function shortLived(): Promise<{ first: WorkloadSession; renew: () => Promise<WorkloadSession> }> {
    const overrides = { expireTime: time(rig.now + 120n * SECOND) };
    const first = await rig.world.executor(EXECUTOR_A, { overrides });
    return { first, renew: () => rig.renewed(first) };
  }

  test('+301 s to +359 s under a fresh issue time, sweeps included; forgotten afterwards', async () => {
    const { first, renew } = await shortLived();
    const nonce = await spend(first);
    await rig.advance(100_000);
    const renewed = await renew();
    await rig.advance(201_000);
    await replays('start', renewed, await rig.prepared(), nonce);
    await rig.advance(58_000);
    await replays('start', renewed, await rig.prepared(), nonce);
    await rig.advance(1_000);
    await replays('start', renewed, await rig.prepared(), nonce);
    // The old registration and every token with it are over: what is kept stays small.
    await rig.advance(1);
    expect(await spend(renewed, { nonce })).toBe(nonce);
  });

  test('counted from an issue time that lay ahead', async () => {
    const { first, renew } = await shortLived();
    const statement = { nonce: freshNonce(), issuedTime: time(rig.now + 60n * SECOND) };
    const target = await rig.prepared();
    await rig.done('start', first, target, { statement });
    await rig.advance(100_000);
    const renewed = await renew();
    await rig.advance(319_000);
    await replays('start', renewed, await rig.prepared(), statement.nonce);
  });

  test('and as long as the registration', async () => {
    const session = await rig.world.executor();
    const nonce = await spend(session);
    await rig.advance(3_590_000);
    await replays('start', session, await rig.prepared(), nonce);
  });

  test('after a restart, and on every replica at the same moment', async () => {
    const session = await rig.world.executor();
    const nonce = await spend(session);
    const replica = await rig.world.startReplica({ SURETY_SWEEP_INTERVAL_MS: '3600000' });
    const channel = rig.world.channel(EXECUTOR_A, replica);
    const request = rig.request('start', session, await rig.prepared(), { statement: { nonce } });
    await expect(rig.send('start', request, channel)).rejects.toMatchObject({ reason: 'PROOF_REPLAYED' });

    // Over one connection they may share a batch, over two replicas they never do.
    for (const other of [session.channel, channel]) {
      const statement = { nonce: freshNonce() };
      const requests = [
        rig.request('start', session, await rig.prepared(), { statement }),
        rig.request('start', session, await rig.prepared(), { statement }),
      ] as const;
      const outcomes = await Promise.allSettled([
        rig.send('start', requests[0], session.channel),
        rig.send('start', requests[1], other),
      ]);
      expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
      const lost = outcomes.find((outcome) => outcome.status === 'rejected');
      expect(lost?.reason).toMatchObject({ code: 'ALREADY_EXISTS', reason: 'PROOF_REPLAYED' });
    }
  });
});

test('a nonce is 24 to 256 printable characters', async () => {
  // The hour before has ended whoever was registered at the beginning.
  const session = await rig.world.executor();
  const target = await rig.prepared();
  const refused = [
    '',
    'x',
    'x'.repeat(23),
    'x'.repeat(257),
    `${'x'.repeat(24)} `,
    `${'x'.repeat(24)}é`,
    `\t${'x'.repeat(24)}`,
  ];
  for (const nonce of refused) {
    expect(await rig.refused('start', session, target, { statement: { nonce } })).toMatchObject({
      code: 'INVALID_ARGUMENT',
      reason: 'FIELD_INVALID',
      violations: [{ field: 'proof.nonce' }],
    });
  }
  expect(await rig.done('start', session, target, { statement: { nonce: 'n'.repeat(24) } })).toBeDefined();
  const longest = { statement: { nonce: 'N'.repeat(256) } };
  expect(await rig.done('markUnknown', session, target, longest)).toMatchObject({ duplicate: false });
});

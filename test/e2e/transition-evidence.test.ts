import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { ACME, EXECUTOR_B } from '../support/e2e-world.js';
import { type Rpc, type Target, time, TransitionRig } from '../support/transition-rig.js';

const SECOND = 1_000_000n;
const SLACK = 60n * SECOND;

let rig: TransitionRig;
let executor: WorkloadSession;
let reconciler: WorkloadSession;

beforeAll(async () => {
  rig = await TransitionRig.open();
  executor = await rig.world.executor();
  reconciler = await rig.world.reconciler();
});
afterAll(() => rig.close());

const by = (rpc: Rpc): WorkloadSession => (rpc === 'reconcile' ? reconciler : executor);
const timed = (rpc: Rpc, micros: bigint) => ({
  evidence: { [rpc === 'start' ? 'startTime' : 'observedTime']: time(micros) },
});

describe('rule 6: the attempt', () => {
  test('a start is of the request that was reserved', async () => {
    const target = await rig.prepared();
    const requestDigest = Uint8Array.from(target.requestDigest, (byte, at) => (at === 31 ? byte ^ 1 : byte));
    const traces = await rig.traces();
    expect(await rig.refused('start', executor, target, { evidence: { requestDigest } })).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'EFFECT_REQUEST_MISMATCH',
    });
    expect(await rig.traces()).toEqual(traces);
  });

  test('every later step is of the attempt that was started', async () => {
    const executing = await rig.executing(executor);
    const unknown = await rig.unknown(executor);
    const evidence = { attemptId: `${executing.attemptId}x` };
    const tries: [Rpc, Target][] = [
      ['markUnknown', executing],
      ['acknowledge', executing],
      ['reconcile', unknown],
    ];
    for (const [rpc, target] of tries) {
      expect(await rig.refused(rpc, by(rpc), target, { evidence })).toMatchObject({
        code: 'FAILED_PRECONDITION',
        reason: 'EFFECT_ATTEMPT_MISMATCH',
      });
    }
  });
});

/** Refused a microsecond outside on both sides, then taken at the very edges: one effect for each. */
async function meetsItsEdges(rpc: Rpc, early: Target, late: Target, earliest: bigint): Promise<void> {
  const latest = rig.now + SLACK;
  for (const micros of [earliest - 1n, latest + 1n]) {
    expect(await rig.refused(rpc, by(rpc), early, timed(rpc, micros))).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'EVIDENCE_TIME_OUTSIDE_WINDOW',
      metadata: { field: rpc === 'start' ? 'start_time' : 'observed_time' },
    });
  }
  for (const [target, micros] of [
    [early, earliest],
    [late, latest],
  ] as const) {
    const { step } = await rig.done(rpc, by(rpc), target, timed(rpc, micros));
    const { rows } = await rig.world.sql.query(
      'SELECT skew FROM transitions WHERE domain_id = $1 AND effect_id = $2 AND step = $3',
      [ACME, target.effectId, step.toString()],
    );
    expect(BigInt(rows[0].skew)).toBe(rig.now - micros);
  }
}

describe('rule 7: the time window', () => {
  test('60 s before the step that it follows, 60 s after the clock; a reconciliation never before the step', async () => {
    const [early, late] = [await rig.prepared(), await rig.prepared()];
    const reserved = rig.now;
    await rig.move(10n * SECOND);
    await meetsItsEdges('start', early, late, reserved - SLACK);
    const started = rig.now;
    await rig.move(10n * SECOND);
    await meetsItsEdges('markUnknown', early, late, started - SLACK);
    const unknown = rig.now;
    await rig.move(10n * SECOND);
    await meetsItsEdges('reconcile', early, late, unknown);
  });

  test('an acknowledgement follows the start', async () => {
    const [early, late] = [await rig.prepared(), await rig.prepared()];
    await rig.move(10n * SECOND);
    await rig.done('start', executor, early);
    await rig.done('start', executor, late);
    const started = rig.now;
    await rig.move(10n * SECOND);
    await meetsItsEdges('acknowledge', early, late, started - SLACK);
  });
});

describe('the first reason wins', () => {
  const wrong = {
    fence: (target: Target) => ({ fence: target.fence + 1n }),
    attempt: { attemptId: 'attempt-of-somebody' },
  };
  const tooLate = (rpc: Rpc) => timed(rpc, rig.now + SLACK + 1n).evidence;
  const spent = 'a-nonce-that-both-of-them-have-spent';

  beforeAll(async () => {
    await rig.done('start', executor, await rig.prepared(), { statement: { nonce: spent } });
    await rig.done('reconcile', reconciler, await rig.unknown(executor), { statement: { nonce: spent } });
  });

  const reasonOf = async (...tried: Parameters<TransitionRig['refused']>): Promise<string> =>
    (await rig.refused(...tried)).reason;

  test('visible (1), then currency (2), then the proof (3)', async () => {
    const revoked = await rig.world.executor();
    const { registrationId } = revoked.registration;
    await rig.world.admin.execute(ACME, { case: 'revokeWorkload', value: { registrationId } });
    const target = await rig.prepared();
    const absent = { ...target, effectId: `${target.effectId}x` };
    const statement = wrong.fence(target);
    expect(await reasonOf('start', revoked, absent, { statement })).toBe('NOT_VISIBLE');
    expect(await reasonOf('start', revoked, target, { statement })).toBe('WORKLOAD_NOT_CURRENT');
    expect(await reasonOf('start', executor, target, { statement, evidence: tooLate('start') })).toBe(
      'PROOF_BINDING_MISMATCH',
    );
  });

  test('the proof (3) before the duplicate (4) and the state (5)', async () => {
    const target = await rig.prepared();
    const start = rig.request('start', executor, target);
    await rig.send('start', start, executor.channel);
    const bytes = start.evidence;
    expect(await reasonOf('start', executor, target, { bytes, statement: wrong.fence(target) })).toBe(
      'PROOF_BINDING_MISMATCH',
    );
    // A state that is no edge of the RPC is the proof's, whatever state is found.
    const fromState = EffectState.UNKNOWN;
    expect(await reasonOf('start', executor, target, { statement: { fromState } })).toBe(
      'PROOF_BINDING_MISMATCH',
    );
    expect(await rig.done('start', executor, target, { bytes })).toMatchObject({ duplicate: true });
  });

  test('the duplicate (4) before the grant (10), the conditions of a start (11) and the nonce (12)', async () => {
    const grantId = await rig.world.grant();
    const target = await rig.prepared({ grantId });
    const start = rig.request('start', executor, target);
    await rig.send('start', start, executor.channel);
    await rig.world.admin.execute(ACME, { case: 'revokeGrant', value: { grantId } });
    await rig.world.admin.execute(ACME, { case: 'setFreeze', value: { frozen: true } });
    const again = { bytes: start.evidence, statement: { nonce: spent } };
    expect(await rig.done('start', executor, target, again)).toMatchObject({ duplicate: true });
    await rig.world.admin.execute(ACME, { case: 'setFreeze', value: { frozen: false } });
  });

  test('the state (5), the attempt (6), the time (7), the executor (8), the nonce (12)', async () => {
    const other = await rig.world.executor(EXECUTOR_B, { workloadId: 'payments-b' });
    await rig.done('start', other, await rig.prepared(), { statement: { nonce: spent } });
    const done = await rig.executing(executor);
    await rig.done('acknowledge', executor, done);
    const target = await rig.executing(executor);
    const statement = { nonce: spent };
    const time = tooLate('markUnknown');
    const all = { ...wrong.attempt, ...time };
    const reasons = [
      await reasonOf('markUnknown', other, done, { statement, evidence: all }),
      await reasonOf('markUnknown', other, target, { statement, evidence: all }),
      await reasonOf('markUnknown', other, target, { statement, evidence: time }),
      await reasonOf('markUnknown', other, target, { statement }),
      await reasonOf('markUnknown', executor, target, { statement }),
    ];
    expect(reasons).toEqual([
      'EFFECT_STATE_CONFLICT',
      'EFFECT_ATTEMPT_MISMATCH',
      'EVIDENCE_TIME_OUTSIDE_WINDOW',
      'EFFECT_EXECUTOR_MISMATCH',
      'PROOF_REPLAYED',
    ]);
  });

  test('a reconciliation: time (7), independence (9), too early, the nonce (12)', async () => {
    const target = await rig.unknown(executor);
    const to = EffectState.FAILED;
    const statement = { nonce: spent };
    const other = { authoritySystemId: 'another-ledger' };
    const reasons = [
      await reasonOf('reconcile', reconciler, target, {
        to,
        statement,
        evidence: { ...other, ...tooLate('reconcile') },
      }),
      await reasonOf('reconcile', reconciler, target, { to, statement, evidence: other }),
      await reasonOf('reconcile', reconciler, target, { to, statement }),
      await reasonOf('reconcile', reconciler, target, { statement }),
    ];
    expect(reasons).toEqual([
      'EVIDENCE_TIME_OUTSIDE_WINDOW',
      'RECONCILER_NOT_INDEPENDENT',
      'RECONCILE_TOO_EARLY',
      'PROOF_REPLAYED',
    ]);
  });

  test('a start: the request (6), the time (7), the grant (10), too late, frozen (11), the nonce (12)', async () => {
    const grantId = await rig.world.grant();
    const reservationTtl = { seconds: 30n, nanos: 0 };
    const ended = await rig.prepared({ grantId, reservationTtl });
    const [late, waiting] = [await rig.prepared({ reservationTtl }), await rig.prepared()];
    await rig.world.admin.execute(ACME, { case: 'revokeGrant', value: { grantId } });
    await rig.world.admin.execute(ACME, { case: 'setFreeze', value: { frozen: true } });
    await rig.move(30n * SECOND);
    const statement = { nonce: spent };
    const evidence = { requestDigest: new Uint8Array(32), ...tooLate('start') };
    const reasons = [
      await reasonOf('start', executor, ended, { statement, evidence }),
      await reasonOf('start', executor, ended, { statement, evidence: tooLate('start') }),
      await reasonOf('start', executor, ended, { statement }),
      await reasonOf('start', executor, late, { statement }),
      await reasonOf('start', executor, waiting, { statement }),
    ];
    await rig.world.admin.execute(ACME, { case: 'setFreeze', value: { frozen: false } });
    reasons.push(await reasonOf('start', executor, waiting, { statement }));
    expect(reasons).toEqual([
      'EFFECT_REQUEST_MISMATCH',
      'EVIDENCE_TIME_OUTSIDE_WINDOW',
      'GRANT_NOT_CURRENT',
      'START_TOO_LATE',
      'FROZEN',
      'PROOF_REPLAYED',
    ]);
  });
});

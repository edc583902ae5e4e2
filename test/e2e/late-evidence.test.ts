import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SuretyError } from '../../src/cli/client/surety-error.js';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { AuditKind } from '../../src/gen/surety/audit/v1/entry_pb.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService, RetryAdvice } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { ACME, AUDITOR, EXECUTOR_B, refusedWith } from '../support/e2e-world.js';
import { hex, restarted, type Target, time, TransitionRig, type Wish } from '../support/transition-rig.js';

const SECOND = 1_000_000n;
const SETTLED = 120n * SECOND;
const { SUCCEEDED, FAILED, CANCELLED, UNKNOWN } = EffectState;

let rig: TransitionRig;
let executor: WorkloadSession;
let reconciler: WorkloadSession;

beforeAll(async () => {
  rig = await TransitionRig.open();
  executor = await rig.world.executor();
  reconciler = await rig.world.reconciler();
});
afterAll(() => rig.close());

/** An effect that a reconciler settled. */
async function settled(to: EffectState, effectKey?: string): Promise<Target> {
  const target = await rig.unknown(executor, effectKey === undefined ? {} : { effectKey });
  await rig.move(SETTLED);
  await rig.done('reconcile', reconciler, target, { to });
  return target;
}

const acknowledge = (target: Target, wish: Wish = {}, session = executor): Promise<SuretyError> =>
  rig.refused('acknowledge', session, target, wish);
const receipt = (name: string): Wish => ({ evidence: { externalReceiptId: `receipt-${name}` } });

/** Refused for the reason, and not kept. */
async function notKept(target: Target, reason: string, wish: Wish, session = executor): Promise<void> {
  const traces = await rig.traces();
  const error = await acknowledge(target, wish, session);
  expect({ reason: error.reason, kept: error.metadata['late_evidence'] }).toEqual({
    reason,
    kept: 'not_kept',
  });
  expect(await rig.traces()).toEqual(traces);
}

/** As many pieces that say the same as are kept. */
async function sayOften(target: Target, to: EffectState): Promise<void> {
  for (let piece = 1; piece <= 7; piece += 1) {
    const error = await acknowledge(target, { to, ...receipt(`${piece}-of-${target.effectId}`) });
    expect(error.metadata['late_evidence']).toBe('kept');
  }
}

describe('on UNKNOWN', () => {
  test('it is verified, kept, audited and refused; the state does not change', async () => {
    const target = await rig.unknown(executor);
    const before = await executor.look(target.effectId);
    const request = rig.request('acknowledge', executor, target);
    const error = await refusedWith(rig.send('acknowledge', request, executor.channel));
    expect(error).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'EFFECT_MUST_RECONCILE',
      metadata: { state: 'UNKNOWN', late_evidence: 'kept' },
    });
    const after = await executor.look(target.effectId);
    expect({ ...after, step: 3n, lateEvidenceCount: 0, auditPosition: before.auditPosition }).toEqual(before);
    expect(after).toMatchObject({ state: UNKNOWN, step: 4n, lateEvidenceCount: 1, disputed: false });
    expect(await rig.lastEntry()).toMatchObject({
      seq: after.auditPosition,
      kind: AuditKind.EFFECT_LATE_EVIDENCE,
      effect: {
        effectId: target.effectId,
        step: 4n,
        fromState: UNKNOWN,
        toState: UNKNOWN,
        registrationId: executor.registration.registrationId,
        grantCurrent: true,
        disputed: false,
      },
    });
    const { rows } = await rig.world.sql.query(
      'SELECT late, to_state, evidence FROM transitions WHERE domain_id = $1 AND effect_id = $2 AND step = 4',
      [ACME, target.effectId],
    );
    expect(rows).toMatchObject([{ late: true, to_state: 'SUCCEEDED' }]);
    expect(hex(rows[0].evidence)).toBe(hex(request.evidence));

    // An exact repeat is answered likewise, and kept no second time.
    const traces = await rig.traces();
    for (const repeat of [
      request,
      rig.request('acknowledge', executor, target, { bytes: request.evidence }),
    ]) {
      await expect(rig.send('acknowledge', repeat, executor.channel)).rejects.toMatchObject({
        reason: 'EFFECT_MUST_RECONCILE',
        metadata: { late_evidence: 'kept' },
      });
    }
    expect(await rig.traces()).toEqual(traces);
    // The steps go on behind it.
    expect(await rig.done('reconcile', reconciler, target)).toMatchObject({ step: 5n });
  });

  test('a transition stays the one that led to the state: its repeat is a duplicate, as first answered', async () => {
    const target = await rig.executing(executor);
    const mark = rig.request('markUnknown', executor, target);
    const marked = await rig.send('markUnknown', mark, executor.channel);
    await acknowledge(target);
    expect(await rig.send('markUnknown', mark, executor.channel)).toEqual({ ...marked, duplicate: true });
    const settle = rig.request('reconcile', reconciler, target);
    const reconciled = await rig.send('reconcile', settle, reconciler.channel);
    await acknowledge(target, receipt(`after-of-${target.effectId}`));
    expect(await rig.send('reconcile', settle, reconciler.channel)).toEqual({
      ...reconciled,
      duplicate: true,
    });
  });

  test('eight pieces are kept, the last of them only if it says something else, and no ninth', async () => {
    const target = await rig.unknown(executor);
    await sayOften(target, SUCCEEDED);
    expect(await executor.look(target.effectId)).toMatchObject({ lateEvidenceCount: 7, step: 10n });
    const reason = 'EFFECT_MUST_RECONCILE';
    await notKept(target, reason, receipt(`8-of-${target.effectId}`));
    const error = await acknowledge(target, { to: FAILED, ...receipt(`8-of-${target.effectId}`) });
    expect(error.metadata['late_evidence']).toBe('kept');
    expect(await executor.look(target.effectId)).toMatchObject({ lateEvidenceCount: 8, step: 11n });
    await notKept(target, reason, { to: CANCELLED, ...receipt(`9-of-${target.effectId}`) });
    const again = await acknowledge(target, receipt(`7-of-${target.effectId}`));
    expect(again.metadata['late_evidence']).toBe('kept');
  });

  test('rules 3, 6, 7, 8 and 12 hold for it', async () => {
    const target = await rig.unknown(executor);
    const unproven = await acknowledge(target, { statement: { fence: target.fence + 1n } });
    expect(unproven).toMatchObject({ reason: 'PROOF_BINDING_MISMATCH', metadata: { field: 'fence' } });
    expect(unproven.metadata['late_evidence']).toBeUndefined();

    const reason = 'EFFECT_MUST_RECONCILE';
    await notKept(target, reason, { evidence: { attemptId: 'attempt-of-somebody' } });
    await notKept(target, reason, { evidence: { observedTime: time(rig.now + 60n * SECOND + 1n) } });
    const started = (await executor.look(target.effectId)).startTime?.seconds ?? 0n;
    const early = started * SECOND - 60n * SECOND - 1n;
    await notKept(target, reason, { evidence: { observedTime: time(early) } });
    await notKept(target, reason, {}, await rig.world.executor());
    const b = await rig.world.executor(EXECUTOR_B, { workloadId: 'payments-b' });
    await notKept(target, reason, {}, b);
    const nonce = `a-nonce-that-was-spent-${target.effectId}`;
    await rig.done('start', executor, await rig.prepared(), { statement: { nonce } });
    await notKept(target, reason, { statement: { nonce } });
    // And its own is spent.
    const own = { nonce: `a-nonce-of-late-evidence-${target.effectId}` };
    await acknowledge(target, { statement: own });
    expect(await rig.refused('start', executor, await rig.prepared(), { statement: own })).toMatchObject({
      reason: 'PROOF_REPLAYED',
    });
  });

  test('an expired registration may, a restarted process too; a revoked one may not', async () => {
    let session = await rig.world.executor();
    const [first, second] = [await rig.unknown(session), await rig.unknown(session)];
    session = await rig.renewed(session, {
      ...restarted(rig.now),
      expireTime: time(rig.now + SECOND),
    });
    await rig.move(2n * SECOND);
    expect((await acknowledge(first, {}, session)).metadata['late_evidence']).toBe('kept');
    const { registrationId } = session.registration;
    await rig.world.admin.execute(ACME, { case: 'revokeWorkload', value: { registrationId } });
    const traces = await rig.traces();
    expect(await acknowledge(second, {}, session)).toMatchObject({
      code: 'UNAUTHENTICATED',
      reason: 'WORKLOAD_NOT_CURRENT',
      metadata: { rule: 'status' },
    });
    expect(await rig.traces()).toEqual(traces);
  });

  test('an expired registration may nothing else: not even what is no late evidence', async () => {
    const session = await rig.world.executor(undefined, {
      overrides: { expireTime: time(rig.now + SECOND) },
    });
    const [prepared, executing, done] = [
      await rig.prepared(),
      await rig.executing(session),
      await rig.executing(session),
    ];
    const request = rig.request('acknowledge', session, done);
    await rig.send('acknowledge', request, session.channel);
    const foreign = await rig.unknown(executor);
    await rig.move(2n * SECOND);
    for (const [target, wish] of [
      [prepared, {}],
      [executing, {}],
      [done, { bytes: request.evidence }],
      [done, { to: FAILED }],
      [foreign, {}],
    ] as const) {
      expect(await acknowledge(target, wish, session)).toMatchObject({
        reason: 'WORKLOAD_NOT_CURRENT',
        metadata: { rule: 'expiry' },
      });
    }
  });

  test('of a lost executor that comes back', async () => {
    const target = await rig.executing(executor, { executionDeadline: { seconds: 5n, nanos: 0 } });
    await rig.advance(5_000);
    expect(await executor.look(target.effectId)).toMatchObject({
      state: UNKNOWN,
      stateSource: StateSource.EXECUTOR_LOST,
    });
    expect(await acknowledge(target)).toMatchObject({
      reason: 'EFFECT_MUST_RECONCILE',
      metadata: { late_evidence: 'kept' },
    });
  });
});

describe('on a terminal state', () => {
  test.each([
    ['SUCCEEDED', SUCCEEDED],
    ['FAILED', FAILED],
    ['CANCELLED', CANCELLED],
  ])('that a reconciler reached and it confirms, %s: kept, and no dispute', async (state, to) => {
    const target = await settled(to);
    expect(await acknowledge(target, { to })).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'EFFECT_STATE_CONFLICT',
      metadata: { state, source: 'reconciler', late_evidence: 'kept' },
    });
    expect(await executor.look(target.effectId)).toMatchObject({
      state: to,
      disputed: false,
      lateEvidenceCount: 1,
      holdsKey: to === SUCCEEDED,
    });
  });

  test('that it reached itself: a conflict, and nothing is kept', async () => {
    const target = await rig.executing(executor);
    await rig.done('acknowledge', executor, target, { to: FAILED });
    await notKept(target, 'EFFECT_STATE_CONFLICT', { to: SUCCEEDED });
  });

  test('of what was never started: nothing is kept', async () => {
    const target = await rig.prepared({ reservationTtl: { seconds: 1n, nanos: 0 } });
    await rig.advance(1_000);
    await notKept(target, 'EFFECT_STATE_CONFLICT', {});
  });
});

describe('a contradiction', () => {
  const reserveUnder = (effectKey: string) => rig.prepared({ effectKey });

  test('marks it disputed, and takes its key again where that is free', async () => {
    const effectKey = `refund:${rig.now}-free`;
    const target = await settled(FAILED, effectKey);
    expect(await executor.look(target.effectId)).toMatchObject({ holdsKey: false });
    expect(await acknowledge(target)).toMatchObject({
      reason: 'EFFECT_STATE_CONFLICT',
      metadata: { state: 'FAILED', source: 'reconciler', late_evidence: 'kept' },
    });
    expect(await executor.look(target.effectId)).toMatchObject({
      state: FAILED,
      stateSource: StateSource.RECONCILER,
      disputed: true,
      holdsKey: true,
    });
    expect(await rig.lastEntry()).toMatchObject({
      kind: AuditKind.EFFECT_LATE_EVIDENCE,
      effect: { effectId: target.effectId, fromState: FAILED, toState: FAILED, disputed: true, step: 5n },
    });
    expect(await refusedWith(reserveUnder(effectKey))).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'EFFECT_KEY_BUSY',
      metadata: { state: 'FAILED', effect_id: target.effectId },
    });
    // Disputed it stays, whatever comes after.
    await acknowledge(target, { to: FAILED, ...receipt(`second-of-${target.effectId}`) });
    expect(await executor.look(target.effectId)).toMatchObject({ disputed: true, lateEvidenceCount: 2 });
    const advice = await executor.channel.service(EffectService).checkRetry({ effectId: target.effectId });
    expect(advice).toMatchObject({ advice: RetryAdvice.WAIT, state: FAILED });
  });

  test('takes no key from who has it by now', async () => {
    const effectKey = `refund:${rig.now}-taken`;
    const target = await settled(FAILED, effectKey);
    const next = await reserveUnder(effectKey);
    expect((await acknowledge(target)).metadata['late_evidence']).toBe('kept');
    expect(await executor.look(target.effectId)).toMatchObject({ disputed: true, holdsKey: false });
    expect(await executor.look(next.effectId)).toMatchObject({ holdsKey: true, state: EffectState.PREPARED });
    expect(await rig.done('start', executor, next)).toMatchObject({ duplicate: false });
  });

  test('and a reservation under its key at the same moment: one of them has the key', async () => {
    for (let round = 1; round <= 4; round += 1) {
      const effectKey = `refund:${rig.now}-race-${round}`;
      const target = await settled(FAILED, effectKey);
      const [late, reserved] = await Promise.allSettled([acknowledge(target), reserveUnder(effectKey)]);
      expect(late).toMatchObject({ value: { metadata: { late_evidence: 'kept' } } });
      const { disputed, holdsKey } = await executor.look(target.effectId);
      expect({ disputed, holdsKey }).toEqual({ disputed: true, holdsKey: reserved.status === 'rejected' });
      if (reserved.status === 'rejected')
        expect(reserved.reason).toMatchObject({ reason: 'EFFECT_KEY_BUSY' });
    }
  });

  test.each(['before', 'after'])('is heard however much was said %s the settlement', async (when) => {
    const target = when === 'before' ? await rig.unknown(executor) : await settled(FAILED);
    await sayOften(target, FAILED);
    if (when === 'before') {
      await rig.move(SETTLED);
      await rig.done('reconcile', reconciler, target, { to: FAILED });
    }
    await notKept(target, 'EFFECT_STATE_CONFLICT', { to: FAILED, ...receipt(`8-of-${target.effectId}`) });
    expect(await executor.look(target.effectId)).toMatchObject({ disputed: false, holdsKey: false });
    expect((await acknowledge(target)).metadata['late_evidence']).toBe('kept');
    expect(await executor.look(target.effectId)).toMatchObject({
      disputed: true,
      holdsKey: true,
      lateEvidenceCount: 8,
    });
  });

  test('of a success that it denies: disputed, and the key stays', async () => {
    const target = await settled(SUCCEEDED);
    await acknowledge(target, { to: FAILED });
    expect(await executor.look(target.effectId)).toMatchObject({
      state: SUCCEEDED,
      disputed: true,
      holdsKey: true,
    });
  });

  test('with evidence that was kept before the settlement: the settlement is disputed from the start', async () => {
    const effectKey = `refund:${rig.now}-before`;
    const target = await rig.unknown(executor, { effectKey });
    const request = rig.request('acknowledge', executor, target);
    await refusedWith(rig.send('acknowledge', request, executor.channel));
    await rig.move(SETTLED);
    const result = await rig.done('reconcile', reconciler, target, { to: FAILED });
    expect(result).toMatchObject({ state: FAILED, step: 5n });
    expect((await rig.entry(result.auditPosition)).effect).toMatchObject({ toState: FAILED, disputed: true });
    expect(await executor.look(target.effectId)).toMatchObject({
      state: FAILED,
      disputed: true,
      holdsKey: true,
      lateEvidenceCount: 1,
    });
    expect(await refusedWith(reserveUnder(effectKey))).toMatchObject({ reason: 'EFFECT_KEY_BUSY' });

    const agreed = await rig.unknown(executor);
    await acknowledge(agreed, { to: FAILED });
    await rig.move(SETTLED);
    await rig.done('reconcile', reconciler, agreed, { to: FAILED });
    expect(await executor.look(agreed.effectId)).toMatchObject({ disputed: false, holdsKey: false });
  });
});

test('the log of all this verifies, with no step missing', async () => {
  const reply = await rig.world.channel(AUDITOR).service(AuditService).verifyChain({ domainId: ACME });
  expect(reply).toMatchObject({ verified: true, complete: true, findings: [] });
});

test('what was kept, what is disputed and how far the clocks lay apart can be watched', async () => {
  const { rows } = await rig.world.sql.query(
    `SELECT (SELECT count(*) FROM effects WHERE disputed)::int AS disputed,
       count(*) FILTER (WHERE late)::int AS late, count(*) FILTER (WHERE role = 'effect_executor')::int AS executor
     FROM transitions`,
  );
  const text = await (await fetch(`${rig.world.service.admin}/metrics`)).text();
  expect(rows[0].disputed).toBeGreaterThan(0);
  expect(text).toContain(`surety_effects_disputed_total ${rows[0].disputed}\n`);
  expect(text).toContain(`surety_late_evidence_total ${rows[0].late}\n`);
  expect(text).toContain(`surety_evidence_skew_seconds_count{role="effect_executor"} ${rows[0].executor}\n`);
});

test('nobody brings late evidence past a mass revocation', async () => {
  const target = await rig.unknown(executor);
  await rig.world.admin.execute(ACME, { case: 'bumpRevocationEpoch', value: {} });
  expect(await acknowledge(target)).toMatchObject({
    reason: 'WORKLOAD_NOT_CURRENT',
    metadata: { rule: 'revocation_epoch' },
  });
});

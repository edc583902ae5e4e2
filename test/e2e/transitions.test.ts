import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import { AuditKind } from '../../src/gen/surety/audit/v1/entry_pb.js';
import { EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import { ACME, EXECUTOR_A, EXECUTOR_B, RECONCILER } from '../support/e2e-world.js';
import { hex, restarted, type Rpc, type Target, time, TransitionRig } from '../support/transition-rig.js';

const { PREPARED, EXECUTING, UNKNOWN, SUCCEEDED, FAILED, CANCELLED } = EffectState;
const SECOND = 1_000_000n;
const SETTLED = 120n * SECOND;

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

/** An effect in the state that the RPC leaves. */
function before(rpc: Rpc): Promise<Target> {
  if (rpc === 'start') return rig.prepared();
  return rpc === 'reconcile' ? rig.unknown(executor) : rig.executing(executor);
}

const EDGES: readonly (readonly [Rpc, EffectState, EffectState])[] = [
  ['start', PREPARED, EXECUTING],
  ['markUnknown', EXECUTING, UNKNOWN],
  ['acknowledge', EXECUTING, SUCCEEDED],
  ['acknowledge', EXECUTING, FAILED],
  ['acknowledge', EXECUTING, CANCELLED],
  ['reconcile', UNKNOWN, SUCCEEDED],
  ['reconcile', UNKNOWN, FAILED],
  ['reconcile', UNKNOWN, CANCELLED],
];
const RPCS: readonly Rpc[] = ['start', 'markUnknown', 'acknowledge', 'reconcile'];

describe('rule 13: a transition answers, is logged and leaves a receipt', () => {
  const named = EDGES.map(([rpc, from, to]) => [rpc, EffectState[from], EffectState[to], from, to] as const);
  test.each(named)('%s from %s to %s', async (rpc, _from, _to, from, to) => {
    const target = await before(rpc);
    if (rpc === 'reconcile' && to !== SUCCEEDED) await rig.move(SETTLED);
    const head = BigInt((await rig.traces()).seq);
    const request = rig.request(rpc, by(rpc), target, { to });
    const result = await rig.send(rpc, request, by(rpc).channel);
    const step = { start: 2n, markUnknown: 3n, acknowledge: 3n, reconcile: 4n }[rpc];
    const source = rpc === 'reconcile' ? StateSource.RECONCILER : StateSource.EXECUTOR;
    expect(result).toMatchObject({
      effectId: target.effectId,
      state: to,
      stateSource: source,
      fence: target.fence,
      attemptId: target.attemptId,
      duplicate: false,
      auditPosition: head + 1n,
      step,
      transitionTime: time(rig.now),
    });

    const { registrationId, spiffeId } = by(rpc).registration;
    const entry = await rig.entry(result.auditPosition);
    expect(entry).toMatchObject({
      kind: AuditKind.EFFECT_STEP,
      actorSpiffeId: spiffeId,
      time: time(rig.now),
      effect: {
        effectId: target.effectId,
        step,
        fromState: from,
        toState: to,
        source,
        fence: target.fence,
        attemptId: target.attemptId,
        registrationId,
        grantCurrent: true,
        outputSink: DEMO_SINK,
      },
    });
    expect(hex(entry.effect?.evidenceDigest)).toBe(hex(digest(request.evidence)));
    expect(hex(entry.effect?.proofDigest)).toBe(hex(digest(request.statement)));

    const { rows } = await rig.world.sql.query(
      'SELECT * FROM transitions WHERE domain_id = $1 AND effect_id = $2 AND step = $3',
      [ACME, target.effectId, step.toString()],
    );
    expect(rows[0]).toMatchObject({
      late: false,
      registration_id: registrationId,
      spiffe_id: spiffeId,
      key_thumbprint: by(rpc).key.publicKey.thumbprint,
      proof_encoding: 'jws',
      skew: '0',
      received_at: rig.now.toString(),
    });
    expect(hex(rows[0].evidence)).toBe(hex(request.evidence));
    expect(rows[0].proof.toString()).toBe(request.proof.encoding?.value);
  });

  test('a start says until when it may be sent, and when the executor counts as lost', async () => {
    const target = await rig.prepared({ executionDeadline: { seconds: 90n, nanos: 0 } });
    const { effectId, evidence, proof } = rig.request('start', executor, target);
    const reply = await executor.channel.service(EffectService).startExecution({ effectId, evidence, proof });
    expect(reply.sendWindow).toMatchObject({ seconds: 60n, nanos: 0 });
    expect(reply.executionDeadlineTime).toEqual(time(rig.now + 90n * SECOND));
  });

  test('pending work lasts until a terminal state', async () => {
    const pending = async ({ effectId }: Target): Promise<number> => {
      const text = 'SELECT 1 FROM pending_work WHERE domain_id = $1 AND effect_id = $2';
      return (await rig.world.sql.query(text, [ACME, effectId])).rows.length;
    };
    const acknowledged = await rig.executing(executor);
    const lost = await rig.unknown(executor);
    expect([await pending(acknowledged), await pending(lost)]).toEqual([1, 1]);
    await rig.done('acknowledge', executor, acknowledged, { to: FAILED });
    await rig.done('reconcile', reconciler, lost);
    expect([await pending(acknowledged), await pending(lost)]).toEqual([0, 0]);

    const gone = await rig.executing(executor);
    await rig.tamper('DELETE FROM pending_work WHERE domain_id = $1 AND effect_id = $2', [
      ACME,
      gone.effectId,
    ]);
    const traces = await rig.traces();
    expect(await rig.refused('acknowledge', executor, gone)).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'PENDING_WORK_CONFLICT',
    });
    expect(await rig.traces()).toEqual(traces);
  });
});

describe('rule 4: exact duplicates', () => {
  test.each(RPCS)('%s: the same request, and the same evidence under a fresh nonce', async (rpc) => {
    const target = await before(rpc);
    const request = rig.request(rpc, by(rpc), target);
    const first = await rig.send(rpc, request, by(rpc).channel);
    const traces = await rig.traces();
    const nonce = `a-nonce-that-stays-unspent-${target.effectId}`;
    const again = rig.request(rpc, by(rpc), target, { bytes: request.evidence, statement: { nonce } });
    await rig.move(SECOND);
    for (const repeat of [request, again]) {
      const result = await rig.send(rpc, repeat, by(rpc).channel);
      expect(result).toEqual({ ...first, duplicate: true });
    }
    expect(await rig.traces()).toEqual(traces);
    expect(first.outputReference === undefined).toBe(rpc === 'start' || rpc === 'markUnknown');

    // A nonce of a duplicate is not spent: it is still good for another statement.
    const next = rpc === 'reconcile' ? await rig.unknown(executor) : await rig.prepared();
    const use = rpc === 'reconcile' ? 'reconcile' : 'start';
    expect(await rig.done(use, by(use), next, { statement: { nonce } })).toMatchObject({ duplicate: false });
  });

  test.each(RPCS)('%s: other evidence or another attempt is none', async (rpc) => {
    const target = await before(rpc);
    const { state } = await rig.done(rpc, by(rpc), target);
    const traces = await rig.traces();
    const later = { [rpc === 'start' ? 'startTime' : 'observedTime']: time(rig.now + 1n) };
    for (const evidence of [later, { attemptId: `${target.attemptId}-2` }]) {
      expect(await rig.refused(rpc, by(rpc), target, { evidence })).toMatchObject({
        code: 'FAILED_PRECONDITION',
        reason: 'EFFECT_STATE_CONFLICT',
        metadata: { state: EffectState[state], source: rpc === 'reconcile' ? 'reconciler' : 'executor' },
      });
    }
    expect(await rig.traces()).toEqual(traces);
  });

  test('the same evidence for another state is none', async () => {
    const acknowledged = await before('acknowledge');
    const request = rig.request('acknowledge', executor, acknowledged, { to: FAILED });
    await rig.send('acknowledge', request, executor.channel);
    const other = { to: CANCELLED, bytes: request.evidence };
    expect(await rig.refused('acknowledge', executor, acknowledged, other)).toMatchObject({
      reason: 'EFFECT_STATE_CONFLICT',
      metadata: { state: 'FAILED', late_evidence: 'not_kept' },
    });

    const settled = await before('reconcile');
    await rig.done('reconcile', reconciler, settled);
    await rig.move(SETTLED);
    expect(await rig.refused('reconcile', reconciler, settled, { to: FAILED })).toMatchObject({
      reason: 'EFFECT_STATE_CONFLICT',
      metadata: { state: 'SUCCEEDED', source: 'reconciler' },
    });
  });

  test('only of the transition that led to the current state', async () => {
    const target = await before('start');
    const start = rig.request('start', executor, target);
    await rig.send('start', start, executor.channel);
    await rig.done('markUnknown', executor, target);
    const { code, reason, metadata } = await rig.refused('start', executor, target, {
      bytes: start.evidence,
    });
    expect({ code, reason, metadata }).toEqual({
      code: 'FAILED_PRECONDITION',
      reason: 'EFFECT_STATE_CONFLICT',
      metadata: { state: 'UNKNOWN', source: 'executor' },
    });
  });

  test('an executor repeats only under its own registration, a reconciler under any of its system', async () => {
    const other = await rig.world.executor();
    const colleague = await rig.world.reconciler();
    const target = await before('start');
    const start = rig.request('start', executor, target);
    await rig.send('start', start, executor.channel);
    const conflict = { reason: 'EFFECT_STATE_CONFLICT', metadata: { state: 'EXECUTING' } };
    expect(await rig.refused('start', other, target, { bytes: start.evidence })).toMatchObject(conflict);
    const lost = rig.request('markUnknown', executor, target);
    await rig.send('markUnknown', lost, executor.channel);
    expect(await rig.refused('markUnknown', other, target, { bytes: lost.evidence })).toMatchObject({
      reason: 'EFFECT_STATE_CONFLICT',
      metadata: { state: 'UNKNOWN' },
    });
    const settle = rig.request('reconcile', reconciler, target);
    const first = await rig.send('reconcile', settle, reconciler.channel);
    const again = await rig.done('reconcile', colleague, target, { bytes: settle.evidence });
    expect(again).toEqual({ ...first, duplicate: true });
  });
});

describe('a restarted executor (rules 4 and 8)', () => {
  const CHANGES = ['sessionId', 'processId', 'processStartTime'] as const;

  test.each(CHANGES)('that repeats its start exactly under another %s is not told to send', async (field) => {
    let session = await rig.world.executor();
    const target = await before('start');
    const start = rig.request('start', session, target);
    await rig.send('start', start, session.channel);
    session = await rig.renewed(session, { [field]: restarted(rig.now + 1n)[field] });
    const traces = await rig.traces();
    expect(await rig.refused('start', session, target, { bytes: start.evidence })).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'EFFECT_STATE_CONFLICT',
      metadata: { state: 'EXECUTING', source: 'executor' },
    });
    expect(await rig.traces()).toEqual(traces);
  });

  test('the same process is, also when its registration was renewed meanwhile', async () => {
    let session = await rig.world.executor();
    const target = await before('start');
    const start = rig.request('start', session, target);
    const first = await rig.send('start', start, session.channel);
    session = await rig.renewed(session);
    // The old token names an epoch that is over.
    await expect(rig.send('start', start, session.channel)).rejects.toMatchObject({
      reason: 'PROOF_BINDING_MISMATCH',
      metadata: { field: 'credential_epoch' },
    });
    const again = await rig.done('start', session, target, { bytes: start.evidence });
    expect(again).toEqual({ ...first, duplicate: true });
  });

  test('may mark unknown and acknowledge under the same registration', async () => {
    const old = await rig.world.executor();
    const [unknown, acknowledged] = [await rig.executing(old), await rig.executing(old)];
    const session = await rig.renewed(old, restarted(rig.now));
    expect(await rig.done('markUnknown', session, unknown)).toMatchObject({ state: UNKNOWN });
    expect(await rig.done('acknowledge', session, acknowledged)).toMatchObject({ state: SUCCEEDED });
  });
});

describe('rule 5: the state found', () => {
  const FOUND: readonly (readonly [Rpc, readonly EffectState[]])[] = [
    ['start', [EXECUTING, UNKNOWN, SUCCEEDED]],
    ['markUnknown', [PREPARED, UNKNOWN, SUCCEEDED]],
    ['acknowledge', [PREPARED, SUCCEEDED]],
    ['reconcile', [PREPARED, EXECUTING, SUCCEEDED]],
  ];

  test.each(FOUND)('%s of another from-state', async (rpc, states) => {
    const made: Partial<Record<EffectState, Target>> = {
      [PREPARED]: await rig.prepared(),
      [EXECUTING]: await rig.executing(executor),
      [UNKNOWN]: await rig.unknown(executor),
      [SUCCEEDED]: await rig.executing(executor),
    };
    await rig.done('acknowledge', executor, made[SUCCEEDED] as Target);
    for (const state of states) {
      const error = await rig.refused(rpc, by(rpc), made[state] as Target, {
        evidence: { [rpc === 'start' ? 'startTime' : 'observedTime']: time(rig.now + SECOND) },
      });
      expect(error).toMatchObject({
        code: 'FAILED_PRECONDITION',
        reason: 'EFFECT_STATE_CONFLICT',
        metadata: { state: EffectState[state], source: state === PREPARED ? 'reservation' : 'executor' },
      });
    }
  });

  test('an acknowledgement of UNKNOWN must reconcile', async () => {
    const target = await rig.unknown(executor);
    expect(await rig.refused('acknowledge', executor, target)).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'EFFECT_MUST_RECONCILE',
      metadata: { state: 'UNKNOWN' },
    });
  });

  test('another executor and another kind of caller change nothing in that order', async () => {
    const target = await rig.executing(executor);
    const b = await rig.world.executor(EXECUTOR_B, { workloadId: 'payments-b' });
    for (const rpc of ['markUnknown', 'acknowledge'] as const) {
      const traces = await rig.traces();
      expect(await rig.refused(rpc, b, target)).toMatchObject({
        code: 'FAILED_PRECONDITION',
        reason: 'EFFECT_EXECUTOR_MISMATCH',
      });
      expect(await rig.traces()).toEqual(traces);
    }
    const request = rig.request('reconcile', executor, target);
    await expect(rig.send('reconcile', request, rig.world.channel(EXECUTOR_A))).rejects.toMatchObject({
      code: 'PERMISSION_DENIED',
      reason: 'METHOD_NOT_ALLOWED',
      metadata: { kind: 'executor' },
    });
    const start = rig.request('start', reconciler, target);
    await expect(rig.send('start', start, rig.world.channel(RECONCILER))).rejects.toMatchObject({
      reason: 'METHOD_NOT_ALLOWED',
      metadata: { kind: 'reconciler' },
    });
  });
});

import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { CertificateBinding, WorkloadRole } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { createSigningKey } from '../../src/identity/sign.js';
import { ACME, EXECUTOR_A, EXECUTOR_B } from '../support/e2e-world.js';
import { type Rpc, type StatementInit, type Target, time, TransitionRig } from '../support/transition-rig.js';

const SECOND = 1_000_000n;
const RPCS: readonly Rpc[] = ['start', 'markUnknown', 'acknowledge', 'reconcile'];
const { PREPARED, EXECUTING, UNKNOWN, SUCCEEDED, FAILED } = EffectState;

let rig: TransitionRig;
let executor: WorkloadSession;
let reconciler: WorkloadSession;

beforeAll(async () => {
  rig = await TransitionRig.open();
  // Epochs of 2, so that both neighbours are epochs as well.
  await rig.world.admin.execute(ACME, { case: 'bumpRevocationEpoch', value: {} });
  executor = await rig.renewed(await rig.world.executor());
  reconciler = await rig.renewed(await rig.world.reconciler());
});
afterAll(() => rig.close());

const by = (rpc: Rpc): WorkloadSession => (rpc === 'reconcile' ? reconciler : executor);

/** An effect in the state that the RPC leaves. */
function before(rpc: Rpc): Promise<Target> {
  if (rpc === 'start') return rig.prepared();
  return rpc === 'reconcile' ? rig.unknown(executor) : rig.executing(executor);
}

/** The text with its last character one further. */
function next(text: string): string {
  return text.slice(0, -1) + String.fromCharCode(text.charCodeAt(text.length - 1) + 1);
}

/** Each bound value by one, under the name that the refusal gives it. */
function alterations(rpc: Rpc, target: Target): readonly (readonly [string, StatementInit])[] {
  const { registration, service } = by(rpc);
  const started = registration.processStartTime;
  const startMicros = (started?.seconds ?? 0n) * SECOND + BigInt((started?.nanos ?? 0) / 1000);
  const executing = rpc === 'reconcile';
  return [
    ['audience', { audience: next(service.audience) }],
    ['incarnation', { incarnation: service.incarnation + 1n }],
    ['domain_id', { domainId: next(ACME) }],
    ['workload_id', { workloadId: next(registration.workloadId) }],
    ['role', { role: executing ? WorkloadRole.EFFECT_EXECUTOR : WorkloadRole.EFFECT_RECONCILER }],
    ['process_id', { processId: next(registration.processId) }],
    ['process_start_time', { processStartTime: time(startMicros + 1n) }],
    ['process_start_time', { processStartTime: time(startMicros - 1n) }],
    ['session_id', { sessionId: next(registration.sessionId) }],
    ['credential_epoch', { credentialEpoch: registration.credentialEpoch + 1n }],
    ['credential_epoch', { credentialEpoch: registration.credentialEpoch - 1n }],
    ['revocation_epoch', { revocationEpoch: registration.revocationEpoch + 1n }],
    ['revocation_epoch', { revocationEpoch: registration.revocationEpoch - 1n }],
    ['parent_event_id', { parentEventId: next(target.eventId) }],
    ['grant_id', { grantId: next(target.grantId) }],
    ['effect_id', { effectId: next(target.effectId) }],
    ['fence', { fence: target.fence + 1n }],
    ['fence', { fence: target.fence - 1n }],
    ['from_state', { fromState: rpc === 'start' ? EXECUTING : PREPARED }],
    ['to_state', { toState: rpc === 'markUnknown' ? SUCCEEDED : UNKNOWN }],
  ];
}

describe('rule 3: every bound value', () => {
  test.each(RPCS)('%s: by one, and nothing is spent', async (rpc) => {
    const target = await before(rpc);
    const traces = await rig.traces();
    const nonce = `the-nonce-of-a-hundred-tries-${target.effectId}`;
    for (const [field, statement] of alterations(rpc, target)) {
      const error = await rig.refused(rpc, by(rpc), target, { statement: { ...statement, nonce } });
      expect({ ...error.metadata, code: error.code, reason: error.reason }).toEqual({
        code: 'UNAUTHENTICATED',
        reason: 'PROOF_BINDING_MISMATCH',
        field,
      });
    }
    expect(await rig.traces()).toEqual(traces);
    expect(await rig.done(rpc, by(rpc), target, { statement: { nonce } })).toMatchObject({
      duplicate: false,
    });
  });

  test.each(RPCS)('%s: the evidence, to the last bit', async (rpc) => {
    const target = await before(rpc);
    const request = rig.request(rpc, by(rpc), target);
    // Another time, so that the evidence is good in itself.
    const { evidence } = rig.request(rpc, by(rpc), target, {
      evidence: { [rpc === 'start' ? 'startTime' : 'observedTime']: time(rig.now + 1n) },
    });
    await expect(rig.send(rpc, { ...request, evidence }, by(rpc).channel)).rejects.toMatchObject({
      reason: 'PROOF_BINDING_MISMATCH',
      metadata: { field: 'evidence_digest' },
    });
    const evidenceDigest = Uint8Array.from({ length: 32 }, (_, at) => at);
    expect(await rig.refused(rpc, by(rpc), target, { statement: { evidenceDigest } })).toMatchObject({
      reason: 'PROOF_BINDING_MISMATCH',
      metadata: { field: 'evidence_digest' },
    });
  });

  test('the state of a reconciliation is the one of its evidence', async () => {
    const target = await before('reconcile');
    expect(
      await rig.refused('reconcile', reconciler, target, { statement: { toState: FAILED } }),
    ).toMatchObject({ reason: 'PROOF_BINDING_MISMATCH', metadata: { field: 'to_state' } });
  });

  test('the effect of the request', async () => {
    const [target, other] = [await before('start'), await before('start')];
    const request = rig.request('start', executor, target);
    await expect(
      rig.send('start', { ...request, effectId: other.effectId }, executor.channel),
    ).rejects.toMatchObject({ reason: 'PROOF_BINDING_MISMATCH' });
  });

  test('another registration, also of the same workload', async () => {
    const target = await before('start');
    const other = await rig.world.executor();
    const { registrationId } = other.registration;
    expect(await rig.refused('start', executor, target, { statement: { registrationId } })).toMatchObject({
      reason: 'PROOF_BINDING_MISMATCH',
    });
  });
});

describe('rule 3: whose proof it is', () => {
  test.each(RPCS)('%s: a token sent by another certificate', async (rpc) => {
    const target = await before(rpc);
    const channel = rig.world.channel(EXECUTOR_B);
    if (rpc !== 'reconcile') {
      await rig.world.executor(EXECUTOR_B, { workloadId: 'payments-b' });
      const request = rig.request(rpc, executor, target);
      await expect(rig.send(rpc, request, channel)).rejects.toMatchObject({
        code: 'UNAUTHENTICATED',
        reason: 'PROOF_BINDING_MISMATCH',
        metadata: { field: 'spiffe_id' },
      });
      return;
    }
    // There is one reconciler's certificate: the registration is made another's instead.
    const session = await rig.world.reconciler();
    await rig.tamper(
      'UPDATE registrations SET spiffe_id = $1 WHERE domain_id = $2 AND registration_id = $3',
      [`${session.registration.spiffeId}-2`, ACME, session.registration.registrationId],
    );
    expect(await rig.refused(rpc, session, target)).toMatchObject({
      reason: 'PROOF_BINDING_MISMATCH',
      metadata: { field: 'spiffe_id' },
    });
  });

  test('who is another learns of no field how far a guess is right', async () => {
    const target = await before('start');
    const b = await rig.world.executor(EXECUTOR_B, { workloadId: 'payments-b' });
    const colleague = await rig.world.executor();
    for (const [, statement] of [['', {}] as const, ...alterations('start', target)]) {
      // In the name of the registration, by its own key: over another certificate, and under another key.
      const stolen = rig.request('start', executor, target, { statement, key: b.key });
      await expect(rig.send('start', stolen, b.channel)).rejects.toMatchObject({
        reason: 'PROOF_BINDING_MISMATCH',
        metadata: { field: 'spiffe_id' },
      });
      expect(await rig.refused('start', executor, target, { statement, key: colleague.key })).toMatchObject({
        reason: 'PROOF_BINDING_MISMATCH',
        metadata: { field: 'kid' },
      });
    }
  });

  test('a registration of one leaf is used by no other leaf of its SPIFFE ID', async () => {
    const { certificateDigest } = await rig.world.channel(EXECUTOR_A).service(WorkloadService).whoAmI({});
    const certificateBinding = CertificateBinding.CERTIFICATE;
    const otherLeaf = Uint8Array.from(certificateDigest, (byte, at) => (at === 31 ? byte ^ 1 : byte));
    const own = await rig.world.executor(EXECUTOR_A, {
      overrides: { certificateBinding, certificateDigest },
    });
    const other = await rig.world.executor(EXECUTOR_A, {
      overrides: { certificateBinding, certificateDigest: otherLeaf },
    });
    const target = await before('start');
    expect(await rig.refused('start', other, target)).toMatchObject({
      reason: 'PROOF_BINDING_MISMATCH',
      metadata: { field: 'certificate' },
    });
    expect(await rig.done('start', own, target)).toMatchObject({ duplicate: false });
  });

  test('the key is the current one: not the one before a renewal, not that of another registration', async () => {
    const old = await rig.world.executor();
    const session = await rig.renewed(old, {}, createSigningKey());
    const target = await before('start');
    for (const key of [old.key, executor.key]) {
      expect(await rig.refused('start', session, target, { key })).toMatchObject({
        code: 'UNAUTHENTICATED',
        reason: 'PROOF_BINDING_MISMATCH',
        metadata: { field: 'kid' },
      });
    }
    expect(await rig.done('start', session, target)).toMatchObject({ duplicate: false });
  });
});

describe('rule 3: the issue time', () => {
  test.each(RPCS)('%s: at most 300 s ago and 60 s ahead', async (rpc) => {
    const [early, late] = [await before(rpc), await before(rpc)];
    const [oldest, latest] = [rig.now - 300n * SECOND, rig.now + 60n * SECOND];
    for (const micros of [oldest - 1n, oldest - SECOND, latest + 1n, latest + SECOND]) {
      const error = await rig.refused(rpc, by(rpc), early, { statement: { issuedTime: time(micros) } });
      expect(error).toMatchObject({ code: 'UNAUTHENTICATED', reason: 'PROOF_EXPIRED' });
    }
    for (const [target, micros] of [
      [early, oldest],
      [late, latest],
    ] as const) {
      const statement = { issuedTime: time(micros) };
      expect(await rig.done(rpc, by(rpc), target, { statement })).toMatchObject({ duplicate: false });
    }
  });

  test('also of an exact duplicate: a lost answer is asked for again under a fresh statement', async () => {
    const target = await before('start');
    const request = rig.request('start', executor, target);
    const first = await rig.send('start', request, executor.channel);
    await rig.move(300n * SECOND + 1n);
    await expect(rig.send('start', request, executor.channel)).rejects.toMatchObject({
      reason: 'PROOF_EXPIRED',
    });
    const again = await rig.done('start', executor, target, { bytes: request.evidence });
    expect(again).toEqual({ ...first, duplicate: true });
  });

  test("digits below a microsecond are a client's own", async () => {
    const target = await before('start');
    const processStartTime = { ...timestampFromMs(0), ...executor.registration.processStartTime };
    processStartTime.nanos += 999;
    expect(await rig.done('start', executor, target, { statement: { processStartTime } })).toMatchObject({
      duplicate: false,
    });
  });
});

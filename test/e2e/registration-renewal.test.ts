import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import { AuditKind } from '../../src/gen/surety/audit/v1/entry_pb.js';
import {
  CertificateBinding,
  RecordStatus,
  WorkloadRole,
} from '../../src/gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { createSigningKey, signBytes, signRenewal, type SigningKey } from '../../src/identity/sign.js';
import { ACME, EXECUTOR_A, EXECUTOR_B, refusedWith } from '../support/e2e-world.js';
import { type Proved, RegistrationDesk } from '../support/registration-desk.js';
import { restarted, type SpecInit, time, TransitionRig } from '../support/transition-rig.js';

const SECOND = 1_000_000n;
const HOUR = 3600n * SECOND;

let rig: TransitionRig;
let desk: RegistrationDesk;

beforeAll(async () => {
  rig = await TransitionRig.open();
  desk = await RegistrationDesk.open(rig);
});
afterAll(() => rig.close());

/** Registers an executor that may renew itself for a day. */
async function registered(changes: SpecInit = {}): Promise<Proved> {
  const proved = desk.executor({ renewableUntilTime: time(rig.now + 24n * HOUR), ...changes });
  await desk.register(proved);
  return proved;
}

/** How a renewal is refused: the reason and its rule. Nothing of it is kept. */
async function refused(renew: () => Promise<unknown>, of: Proved): Promise<string> {
  const before = await desk.versions(of.spec.registrationId);
  const { reason, metadata } = await refusedWith(renew());
  expect(await desk.versions(of.spec.registrationId)).toBe(before);
  return `${reason} ${metadata['rule'] ?? metadata['current'] ?? metadata['field'] ?? ''}`.trim();
}

describe('by the workload itself, with its current key', () => {
  test('to another process, session and key: the old ones are over at once', async () => {
    const old = await registered();
    const before = desk.session(old);
    const next = desk.renewal(old, restarted(rig.now), createSigningKey());
    const reply = await desk.renewSelf(next, old.key);
    expect(reply).toMatchObject({
      duplicate: false,
      registration: {
        spec: next.spec,
        status: RecordStatus.ACTIVE,
        proofKeyThumbprint: next.key.publicKey.thumbprint,
        updateTime: time(rig.now),
      },
    });
    expect(await desk.versions(old.spec.registrationId)).toBe(2);
    expect(await rig.lastEntry()).toMatchObject({
      kind: AuditKind.WORKLOAD,
      actorSpiffeId: EXECUTOR_A,
      record: { id: old.spec.registrationId, revision: 2n, operation: 'renew_workload' },
    });
    expect(await rig.refused('start', before, await rig.prepared())).toMatchObject({
      reason: 'PROOF_BINDING_MISMATCH',
    });
    expect(await rig.done('start', desk.session(next), await rig.prepared())).toMatchObject({
      duplicate: false,
    });
  });

  test('answered again after a lost answer, also when it has expired since', async () => {
    const old = await registered();
    const next = desk.renewal(old, { expireTime: time(rig.now + SECOND) });
    const request = await desk.selfRenewal(next, old.key);
    const service = rig.world.channel(EXECUTOR_A).service(WorkloadService);
    const first = await service.renewWorkload(request);
    const traces = await rig.traces();
    await rig.move(2n * SECOND);
    expect(await service.renewWorkload(request)).toEqual({ ...first, duplicate: true });
    expect(await rig.traces()).toEqual(traces);
  });

  test('and not when another renewal has followed', async () => {
    const old = await registered();
    const second = desk.renewal(old);
    await desk.renewSelf(second, old.key);
    await desk.renewSelf(desk.renewal(second), old.key);
    expect(await refused(() => desk.renewSelf(second, old.key), old)).toBe('REVISION_STALE 3');
  });

  test('the expected epoch is a compare-and-swap: of two at once one is stored', async () => {
    const old = await registered();
    const replica = await rig.world.startReplica({ SURETY_SWEEP_INTERVAL_MS: '3600000' });
    const outcomes = await Promise.allSettled([
      desk.renewSelf(desk.renewal(old, { sessionId: 'session-one' }), old.key),
      desk.renewSelf(
        desk.renewal(old, { sessionId: 'session-two' }),
        old.key,
        rig.world.channel(EXECUTOR_A, replica),
      ),
    ]);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(outcomes.find((one) => one.status === 'rejected')?.reason).toMatchObject({
      code: 'ABORTED',
      reason: 'REVISION_STALE',
      metadata: { current: '2' },
    });
    for (const epoch of [1n, 2n, 4n]) {
      const other = desk.renewal(old, { credentialEpoch: epoch });
      expect(await refused(() => desk.renewSelf(other, old.key), old)).toBe('REVISION_STALE 2');
    }
    expect(await desk.versions(old.spec.registrationId)).toBe(2);
  });

  test('only by the current key, over the very payload that the new key signed', async () => {
    const old = await registered();
    const next = desk.renewal(old, {}, createSigningKey());
    const possessionJws = await desk.possession(next);
    const payload = Buffer.from(possessionJws.split('.')[1] ?? '', 'base64url');
    const other = await registered();
    const send = (authorizationJws: string, possession = possessionJws) =>
      rig.world
        .channel(EXECUTOR_A)
        .service(WorkloadService)
        .renewWorkload({ possessionJws: possession, authorizationJws });
    const renewalBy = (key: SigningKey) => signBytes('renewal', payload, key);
    const invalid = 'PROOF_SIGNATURE_INVALID';
    expect(await refused(async () => send(await renewalBy(next.key)), old)).toBe(`${invalid} key`);
    expect(await refused(async () => send(await renewalBy(other.key)), old)).toBe(`${invalid} key`);
    const liar = { privateKey: next.key.privateKey, publicKey: old.key.publicKey };
    expect(await refused(async () => send(await renewalBy(liar)), old)).toBe(`${invalid} signature`);
    expect(await refused(async () => send(await signBytes('possession', payload, old.key)), old)).toBe(
      `${invalid} header`,
    );
    const elsewhere = { ...desk.service, registration: { ...next.spec, sessionId: 'another' } };
    expect(await refused(async () => send(await signRenewal(elsewhere, old.key)), old)).toBe(
      `${invalid} payload`,
    );
    // And the possession of the new key is proved, not claimed.
    const unproved = await desk.possession(next, { signer: old.key });
    expect(await refused(async () => send(await renewalBy(old.key), unproved), old)).toBe(
      'POSSESSION_INVALID key',
    );
    expect(await send(await renewalBy(old.key))).toMatchObject({ duplicate: false });
  });

  test('only its own: a foreign one looks like one that is not there', async () => {
    const old = await registered();
    const channel = rig.world.channel(EXECUTOR_B);
    await rig.world.executor(EXECUTOR_B, { workloadId: 'payments-b' });
    const foreign = await refusedWith(desk.renewSelf(desk.renewal(old), old.key, channel));
    const absent = desk.renewal(old, { registrationId: 'reg-not-there' });
    const missing = await refusedWith(desk.renewSelf(absent, old.key, channel));
    const shown = ({ code, reason, message, metadata }: typeof foreign) => ({
      code,
      reason,
      message,
      metadata,
    });
    expect(shown(foreign)).toEqual(shown(missing));
    expect(foreign).toMatchObject({ code: 'PERMISSION_DENIED', reason: 'NOT_VISIBLE' });
  });

  test('only over the certificate that it is bound to, which a renewal may change', async () => {
    const { certificateDigest } = await rig.world.channel(EXECUTOR_A).service(WorkloadService).whoAmI({});
    const certificateBinding = CertificateBinding.CERTIFICATE;
    const other = await registered({ certificateBinding, certificateDigest: new Uint8Array(32).fill(7) });
    expect(await refused(() => desk.renewSelf(desk.renewal(other), other.key), other)).toBe(
      'PROOF_BINDING_MISMATCH certificate',
    );
    const own = await registered({ certificateBinding, certificateDigest });
    // Away from the certificate, and asked for again over it.
    const away = desk.renewal(own, { certificateDigest: new Uint8Array(32).fill(7) });
    expect(await desk.renewSelf(away, own.key)).toMatchObject({ duplicate: false });
    expect(await desk.renewSelf(away, own.key)).toMatchObject({ duplicate: true });
    expect(await rig.refused('start', desk.session(away), await rig.prepared())).toMatchObject({
      reason: 'PROOF_BINDING_MISMATCH',
      metadata: { field: 'certificate' },
    });
  });

  test('where its registration allows it, until then and no longer', async () => {
    const never = desk.executor();
    await desk.register(never);
    const rule = 'WORKLOAD_NOT_CURRENT renewable_until_time';
    expect(await refused(() => desk.renewSelf(desk.renewal(never), never.key), never)).toBe(rule);

    const end = rig.now + 1800n * SECOND;
    const old = await registered({ renewableUntilTime: time(end) });
    const renewal = (changes: SpecInit) => desk.renewSelf(desk.renewal(old, changes), old.key);
    expect(await refused(() => renewal({ expireTime: time(end + 1n) }), old)).toBe(
      'POSSESSION_INVALID expire_time',
    );
    const longer = { expireTime: time(end), renewableUntilTime: time(end + 1n) };
    expect(await refused(() => renewal(longer), old)).toBe('POSSESSION_INVALID renewable_until_time');
    await rig.move(1800n * SECOND - 1n);
    expect(await renewal({ expireTime: time(end) })).toMatchObject({ duplicate: false });

    const late = await registered({ renewableUntilTime: time(rig.now + 10n * SECOND) });
    await rig.move(10n * SECOND);
    expect(await refused(() => desk.renewSelf(desk.renewal(late), late.key), late)).toBe(rule);
  });
});

describe('by an operator', () => {
  test('also one that may not renew itself; the same proof again is no other version', async () => {
    const old = desk.executor();
    await desk.register(old);
    const next = desk.renewal(old, restarted(rig.now), createSigningKey());
    expect(await desk.renew(next)).toMatchObject({ entityRevision: 2n });
    expect(await desk.renew(next)).toMatchObject({ entityRevision: 2n });
    expect(await desk.versions(old.spec.registrationId)).toBe(2);
    expect(await rig.done('start', desk.session(next), await rig.prepared())).toMatchObject({
      duplicate: false,
    });
    expect(await refused(() => desk.renew(desk.renewal(old, { sessionId: 'late' })), old)).toBe(
      'REVISION_STALE 2',
    );
    const absent = desk.renewal(old, { registrationId: 'reg-not-there' });
    await expect(desk.renew(absent)).rejects.toMatchObject({ reason: 'RECORD_MISSING' });
  });

  test('for a day from the first issue, however often it was renewed', async () => {
    const old = await registered({ renewableUntilTime: time(rig.now + HOUR) });
    const first = rig.now;
    await rig.move(60n * SECOND);
    const until = (micros: bigint) => desk.renewal(old, { renewableUntilTime: time(micros) });
    expect(await refused(() => desk.renew(until(first + 24n * HOUR + 1n)), old)).toBe(
      'POSSESSION_INVALID renewable_until_time',
    );
    expect(await desk.renew(until(first + 24n * HOUR))).toMatchObject({ entityRevision: 2n });
  });
});

describe('either way', () => {
  const both = async (next: Proved, old: Proved): Promise<string[]> => [
    await refused(() => desk.renew(next), old),
    await refused(() => desk.renewSelf(next, old.key), old),
  ];

  test('who and what it is for stays', async () => {
    const old = await registered({ workloadId: 'effect-system:bank-ledger' });
    const changes: readonly (readonly [string, SpecInit])[] = [
      ['role', { role: WorkloadRole.EFFECT_RECONCILER }],
      ['workload_id', { workloadId: 'payments-2' }],
      ['recipient_scope', { recipientScope: 'planner' }],
      ['revocation_epoch', { revocationEpoch: 2n }],
      ['sinks', { sinks: [DEMO_SINK, 'mails'] }],
      ['parent_event_id', { parentEventId: 'event-1', grantId: 'grant-1', sinks: [] }],
      ['spiffe_id', { spiffeId: EXECUTOR_B }],
    ];
    for (const [rule, change] of changes) {
      const next = desk.renewal(old, change);
      expect(await refused(() => desk.renew(next), old)).toBe(`POSSESSION_INVALID ${rule}`);
      const self = () => desk.renewSelf(next, old.key, rig.world.channel(EXECUTOR_A));
      expect(await refused(self, old)).toBe(`POSSESSION_INVALID ${rule}`);
    }
  });

  test('fresh, and for an hour at most', async () => {
    const old = await registered();
    const issued = (micros: bigint) =>
      desk.renewal(old, { issuedTime: time(micros), expireTime: time(micros + HOUR) });
    const rule = 'POSSESSION_INVALID issued_time';
    expect(await both(issued(rig.now - 300n * SECOND - 1n), old)).toEqual([rule, rule]);
    expect(await both(issued(rig.now + 60n * SECOND + 1n), old)).toEqual([rule, rule]);
    const long = desk.renewal(old, { expireTime: time(rig.now + HOUR + 1n) });
    expect(await both(long, old)).toEqual(['FIELD_INVALID', 'FIELD_INVALID']);
  });

  test("not to another registration's key of another role", async () => {
    const reconciler = desk.reconciler();
    await desk.register(reconciler);
    const old = await registered();
    const next = desk.renewal(old, {}, reconciler.key);
    expect(await both(next, old)).toEqual(['KEY_REUSED', 'KEY_REUSED']);
  });

  test('not once it has expired, to the microsecond', async () => {
    const old = await registered({ expireTime: time(rig.now + 10n * SECOND) });
    const last = await registered({ expireTime: time(rig.now + 10n * SECOND) });
    await rig.move(10n * SECOND - 1n);
    expect(await desk.renewSelf(desk.renewal(last), last.key)).toMatchObject({ duplicate: false });
    await rig.move(1n);
    const rule = 'WORKLOAD_NOT_CURRENT expire_time';
    expect(await both(desk.renewal(old), old)).toEqual([rule, rule]);
  });

  test('a workload of a suspended domain does not renew itself', async () => {
    const old = await registered();
    const update = (status: RecordStatus) =>
      rig.world.admin.execute(ACME, {
        case: 'updateDomain',
        value: { status, allowStandingRegistrations: true },
      });
    await update(RecordStatus.SUSPENDED);
    expect(await refused(() => desk.renewSelf(desk.renewal(old), old.key), old)).toBe('DOMAIN_INACTIVE');
    await update(RecordStatus.ACTIVE);
  });

  test('nobody renews himself out of a mass revocation', async () => {
    const old = await registered();
    await rig.world.admin.execute(ACME, { case: 'bumpRevocationEpoch', value: {} });
    const rule = 'WORKLOAD_NOT_CURRENT revocation_epoch';
    expect(await both(desk.renewal(old), old)).toEqual([rule, rule]);
    expect(await both(desk.renewal(old, { revocationEpoch: 2n }), old)).toEqual([rule, rule]);
    expect(await rig.refused('start', desk.session(old), await rig.prepared())).toMatchObject({
      reason: 'WORKLOAD_NOT_CURRENT',
      metadata: { rule: 'revocation_epoch' },
    });
  });
});

import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SuretyError } from '../../src/cli/client/surety-error.js';
import { DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import { AuditKind } from '../../src/gen/surety/audit/v1/entry_pb.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import {
  CertificateBinding,
  RecordStatus,
  WorkloadRole,
} from '../../src/gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { createSigningKey, signBytes } from '../../src/identity/sign.js';
import { ACME, EXECUTOR_A, GLOBEX, OPERATOR, refusedWith } from '../support/e2e-world.js';
import { type ProofWish, type Proved, RegistrationDesk } from '../support/registration-desk.js';
import { type SpecInit, time, TransitionRig } from '../support/transition-rig.js';

const SECOND = 1_000_000n;
const HOUR = 3600n * SECOND;

let rig: TransitionRig;
let desk: RegistrationDesk;

beforeAll(async () => {
  rig = await TransitionRig.open();
  desk = await RegistrationDesk.open(rig);
});
afterAll(() => rig.close());

async function refused(proved: Proved, wish: ProofWish = {}): Promise<SuretyError> {
  const traces = await rig.traces();
  const error = await refusedWith(desk.register(proved, wish));
  expect(await rig.traces()).toEqual(traces);
  expect(await desk.versions(proved.spec.registrationId)).toBe(0);
  return error;
}

const ruleOf = async (proved: Proved, wish?: ProofWish): Promise<string> => {
  const { reason, metadata } = await refused(proved, wish);
  return `${reason} ${metadata['rule'] ?? metadata['record'] ?? metadata['current'] ?? ''}`.trim();
};

/** The fields of the registration that break a rule of their form. */
async function malformed(changes: SpecInit, make: 'executor' | 'reconciler' = 'executor'): Promise<string[]> {
  const error = await refused(desk[make](changes));
  expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', reason: 'FIELD_INVALID' });
  const prefix = 'command_jws.register_workload.possession_jws.registration.';
  return error.violations.map(({ field }) => field.replace(prefix, ''));
}

describe('a workload is registered by command, with its own proof', () => {
  test('kept as it was proved, under its first version, and in the log', async () => {
    const proved = desk.executor({ recipientScope: 'planner' });
    await desk.register(proved);
    const { registrationId } = proved.spec;
    const { registration } = await rig.world
      .channel(EXECUTOR_A)
      .service(WorkloadService)
      .getWorkload({ registrationId });
    expect(registration).toMatchObject({
      spec: proved.spec,
      status: RecordStatus.ACTIVE,
      proofKeyThumbprint: proved.key.publicKey.thumbprint,
      updateTime: time(rig.now),
    });
    expect(await desk.versions(registrationId)).toBe(1);
    const command = await rig.lastEntry();
    expect(command).toMatchObject({
      kind: AuditKind.COMMAND,
      actorSpiffeId: OPERATOR,
      record: { type: 'workload', id: registrationId, operation: 'register_workload' },
    });
    expect(await rig.entry(command.seq - 1n)).toMatchObject({
      kind: AuditKind.WORKLOAD,
      record: { type: 'workload', id: registrationId, revision: 1n, operation: 'register_workload' },
    });
    expect(command.intentSeq).toBe(command.seq - 2n);
    expect(await rig.entry(command.intentSeq)).toMatchObject({
      kind: AuditKind.COMMAND_INTENT,
      actorSpiffeId: OPERATOR,
      commandId: command.commandId,
      command: {
        operation: 'register_workload',
        payloadDigest: command.record?.digest,
        expectedEntityRevision: 0n,
      },
    });
  });

  test('once: the exact command again is answered, another with the same id is refused', async () => {
    const proved = desk.executor();
    const possessionJws = await desk.possession(proved);
    const mutation = { case: 'registerWorkload', value: { possessionJws } } as const;
    const commandJws = await rig.world.admin.sign(ACME, mutation, 'register');
    const service = rig.world.channel(OPERATOR).service(AdminService);
    const first = await service.executeCommand({ commandJws });
    const traces = await rig.traces();
    expect(await service.executeCommand({ commandJws })).toEqual({ ...first, duplicate: true });
    expect(await rig.traces()).toEqual(traces);
    await expect(desk.register(proved)).rejects.toMatchObject({
      code: 'ALREADY_EXISTS',
      reason: 'RECORD_EXISTS',
    });
    expect(await desk.versions(proved.spec.registrationId)).toBe(1);
  });

  test('fresh: issued at most 5 min ago and 60 s ahead, for an hour at most', async () => {
    const at = (issued: bigint, validity = HOUR) =>
      desk.executor({ issuedTime: time(issued), expireTime: time(issued + validity) });
    const [oldest, latest] = [rig.now - 300n * SECOND, rig.now + 60n * SECOND];
    expect(await ruleOf(at(oldest - 1n))).toBe('POSSESSION_INVALID issued_time');
    expect(await ruleOf(at(latest + 1n))).toBe('POSSESSION_INVALID issued_time');
    expect(await ruleOf(at(rig.now - SECOND, SECOND))).toBe('POSSESSION_INVALID expire_time');
    for (const proved of [at(oldest), at(latest), at(rig.now - SECOND, SECOND + 1n)]) {
      await desk.register(proved);
    }
    const expireTime = (micros: bigint) => ({ expireTime: time(rig.now + micros) });
    expect(await malformed(expireTime(HOUR + 1n))).toEqual(['expire_time']);
    expect(await malformed(expireTime(0n))).toEqual(['expire_time']);
  });

  test('meant for this service, store and domain, as its first version, in the present revocation epoch', async () => {
    const proved = desk.executor();
    const elsewhere = { audience: 'spiffe://surety.test/other' };
    expect(await ruleOf(proved, { service: elsewhere })).toBe('POSSESSION_INVALID audience');
    expect(await ruleOf(proved, { service: { incarnation: 2n } })).toBe('POSSESSION_INVALID incarnation');
    const foreign = { domainId: GLOBEX, spiffeId: `spiffe://${GLOBEX}/executor/payments-a` };
    expect(await ruleOf(desk.executor(foreign))).toBe('POSSESSION_INVALID domain_id');
    expect(await ruleOf(desk.executor({ credentialEpoch: 2n }))).toBe('POSSESSION_INVALID credential_epoch');
    expect(await ruleOf(desk.executor({ revocationEpoch: 2n }))).toBe('REVISION_STALE 1');
  });

  test('signed by the key that it names', async () => {
    const proved = desk.executor();
    const stranger = createSigningKey();
    expect(await ruleOf(proved, { signer: stranger })).toBe('POSSESSION_INVALID key');
    const liar = { privateKey: stranger.privateKey, publicKey: proved.key.publicKey };
    expect(await ruleOf(proved, { signer: liar })).toBe('POSSESSION_INVALID signature');
    const possessionJws = await signBytes('transition', new Uint8Array([1]), proved.key);
    const mutation = { case: 'registerWorkload', value: { possessionJws } } as const;
    expect(await refusedWith(rig.world.admin.execute(ACME, mutation))).toMatchObject({
      code: 'UNAUTHENTICATED',
      reason: 'POSSESSION_INVALID',
      metadata: { rule: 'header' },
    });
    const secret = JSON.stringify({ ...JSON.parse(proved.key.publicKey.jwk), d: 'AAAA' });
    expect(await malformed({ proofKeyJwk: secret })).toEqual(['proof_key_jwk']);
  });

  test('well-formed, every field', async () => {
    expect(await malformed({ spiffeId: `spiffe://${GLOBEX}/executor/payments-a` })).toEqual(['spiffe_id']);
    expect(await malformed({ workloadId: 'payments' }, 'reconciler')).toEqual(['workload_id']);
    expect(await malformed({ workloadId: 'effect-system:xy' }, 'reconciler')).toEqual(['workload_id']);
    expect(await malformed({ certificateBinding: CertificateBinding.CERTIFICATE })).toEqual([
      'certificate_digest',
    ]);
    expect(await malformed({ certificateDigest: new Uint8Array(32) })).toEqual(['certificate_digest']);
    expect(
      await malformed({
        registrationId: '',
        workloadId: 'x'.repeat(257),
        role: WorkloadRole.UNSPECIFIED,
        recipientScope: '',
        processId: 'a\u0000b',
        sessionId: '',
        credentialEpoch: 0n,
        revocationEpoch: 0n,
      }),
    ).toEqual([
      'role',
      'registration_id',
      'workload_id',
      'recipient_scope',
      'process_id',
      'session_id',
      'credential_epoch',
      'revocation_epoch',
    ]);
  });
});

describe('bound and standing', () => {
  test('bound to an event and a grant that are there, both or neither', async () => {
    const [parentEventId, grantId] = [await rig.world.publish(), await rig.world.grant()];
    expect(await malformed({ parentEventId, sinks: [] })).toEqual(['grant_id']);
    expect(await malformed({ grantId })).toEqual(['parent_event_id']);
    expect(await malformed({ parentEventId, grantId, sinks: [DEMO_SINK] })).toEqual(['sinks']);
    const absent = 'not-there';
    expect(await ruleOf(desk.executor({ parentEventId: absent, grantId }))).toBe('RECORD_MISSING event');
    expect(await ruleOf(desk.executor({ parentEventId, grantId: absent }))).toBe('RECORD_MISSING grant');
    expect(await ruleOf(desk.executor({ recipientScope: absent }))).toBe('RECORD_MISSING harness');
    await desk.register(desk.executor({ parentEventId, grantId }));
  });

  test('to a grant that has ended: only a reconciler, for an effect that is not settled', async () => {
    const executor = await rig.world.executor();
    const grantId = await rig.world.grant();
    const eventId = await rig.world.publish();
    const bound = { parentEventId: eventId, grantId };
    const target = await rig.unknown(executor, { eventId, grantId });
    await rig.world.admin.execute(ACME, { case: 'revokeGrant', value: { grantId } });
    expect(await ruleOf(desk.executor(bound))).toBe('RECORD_MISSING grant');
    const reconciler = await desk.register(desk.reconciler(bound));
    await rig.done('reconcile', reconciler, target);
    expect(await ruleOf(desk.reconciler(bound))).toBe('RECORD_MISSING grant');
  });

  test('standing for sinks that are there, where the domain allows it', async () => {
    expect(await malformed({ sinks: [] })).toEqual(['sinks']);
    expect(await malformed({ sinks: [DEMO_SINK, DEMO_SINK] })).toEqual(['sinks']);
    expect(await ruleOf(desk.executor({ sinks: ['not-there'] }))).toBe('RECORD_MISSING sink');
    const allow = (allowStandingRegistrations: boolean) =>
      rig.world.admin.execute(ACME, {
        case: 'updateDomain',
        value: { status: RecordStatus.ACTIVE, allowStandingRegistrations },
      });
    const standing = desk.executor();
    await desk.register(standing);
    await allow(false);
    expect(await refused(desk.executor())).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'STANDING_NOT_ALLOWED',
    });
    await expect(desk.renew(desk.renewal(standing))).rejects.toMatchObject({
      reason: 'STANDING_NOT_ALLOWED',
    });
    const bound = { parentEventId: await rig.world.publish(), grantId: await rig.world.grant() };
    await desk.register(desk.executor(bound));
    await allow(true);
  });

  test('a worker is bound to nothing', async () => {
    const worker = (changes: SpecInit) =>
      malformed({ role: WorkloadRole.ACTION_WORKER, spiffeId: `spiffe://${ACME}/worker/mailer`, ...changes });
    expect(await worker({ parentEventId: 'event-1', grantId: 'grant-1', sinks: [] })).toEqual(['grant_id']);
    expect(await worker({ sinks: [DEMO_SINK] })).toEqual(['sinks']);
  });

  test('may renew itself for 24 h at most, and no longer than its grant', async () => {
    const until = (micros: bigint) => ({ renewableUntilTime: time(rig.now + micros) });
    const rule = 'POSSESSION_INVALID renewable_until_time';
    expect(await ruleOf(desk.executor(until(24n * HOUR + 1n)))).toBe(rule);
    await desk.register(desk.executor(until(24n * HOUR)));
    const bound = {
      parentEventId: await rig.world.publish(),
      grantId: await rig.world.grant({ expireTime: time(rig.now + 2n * HOUR) }),
    };
    expect(await ruleOf(desk.executor({ ...bound, ...until(2n * HOUR + 1n) }))).toBe(rule);
    await desk.register(desk.executor({ ...bound, ...until(2n * HOUR) }));
  });
});

describe('revoked', () => {
  test('while its connections are open: the next call is refused, on every replica', async () => {
    const replica = await rig.world.startReplica({ SURETY_SWEEP_INTERVAL_MS: '3600000' });
    const proved = desk.executor();
    const session = await desk.register(proved);
    const { registrationId } = proved.spec;
    const channels = [session.channel, rig.world.channel(EXECUTOR_A, replica)];
    const [first, second] = [await rig.prepared(), await rig.prepared()];
    const look = async (index: number) =>
      channels[index]?.service(EffectService).getEffect({ effectId: first.effectId, registrationId });
    for (const index of channels.keys()) await look(index);

    await desk.revoke(registrationId);
    for (const [index, target] of [first, second].entries()) {
      const channel = channels[index] ?? session.channel;
      const start = rig.request('start', session, target);
      await expect(rig.send('start', start, channel)).rejects.toMatchObject({
        code: 'UNAUTHENTICATED',
        reason: 'WORKLOAD_NOT_CURRENT',
        metadata: { rule: 'status' },
      });
      await expect(look(index)).rejects.toMatchObject({
        reason: 'WORKLOAD_NOT_CURRENT',
        metadata: { rule: 'status' },
      });
    }
  });

  test('for ever, by an epoch of its own', async () => {
    const proved = desk.executor({ renewableUntilTime: time(rig.now + 2n * HOUR) });
    await desk.register(proved);
    const { registrationId } = proved.spec;
    expect(await desk.revoke(registrationId)).toMatchObject({ entityRevision: 2n });
    expect(await desk.versions(registrationId)).toBe(2);
    // Once more is no other version.
    expect(await desk.revoke(registrationId)).toMatchObject({ entityRevision: 2n });
    expect(await desk.versions(registrationId)).toBe(2);
    const current = { ...proved, spec: { ...proved.spec, credentialEpoch: 2n } };
    for (const renew of [
      () => desk.renew(desk.renewal(current)),
      () => desk.renewSelf(desk.renewal(current), proved.key),
    ]) {
      await expect(renew()).rejects.toMatchObject({
        reason: 'WORKLOAD_NOT_CURRENT',
        metadata: { rule: 'status' },
      });
    }
    await expect(desk.register(proved)).rejects.toMatchObject({ reason: 'RECORD_EXISTS' });
    await expect(desk.revoke('reg-not-there')).rejects.toMatchObject({ reason: 'RECORD_MISSING' });
  });

  test('only in the epoch that the command rests on', async () => {
    const proved = desk.executor();
    await desk.register(proved);
    const { registrationId } = proved.spec;
    const revokeIn = async (expectedEntityRevision: bigint): Promise<unknown> => {
      const mutation = { case: 'revokeWorkload', value: { registrationId } } as const;
      const commandJws = await rig.world.admin.sign(ACME, mutation, `revoke ${randomUUID()}`, {
        expectedEntityRevision,
      });
      return rig.world.channel(OPERATOR).service(AdminService).executeCommand({ commandJws });
    };
    for (const other of [2n, 0n]) {
      await expect(revokeIn(other)).rejects.toMatchObject({
        code: 'ABORTED',
        reason: 'REVISION_STALE',
        metadata: { current: '1' },
      });
    }
    expect(await revokeIn(1n)).toMatchObject({ duplicate: false });
  });
});

import { randomUUID } from 'node:crypto';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { possession } from '../../src/cli/client/register-workload.js';
import type { Channel } from '../../src/cli/client/service-client.js';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { Health } from '../../src/gen/grpc/health/v1/health_pb.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { OperatorRole } from '../../src/gen/surety/authority/v1/records_pb.js';
import { type Effect, EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import {
  CertificateBinding,
  RecordStatus,
  WorkloadRole,
} from '../../src/gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { ReplayService } from '../../src/gen/surety/replay/v1/replay_service_pb.js';
import { put, putHarness } from '../support/e2e-parties.js';
import {
  ACME,
  AUDIENCE,
  type E2eWorld,
  GLOBEX,
  OPERATOR,
  refusedWith,
  SERVICE_DOMAIN,
} from '../support/e2e-world.js';
import type { Certificate } from '../support/pki.js';
import {
  beginStream,
  type LivingOperator,
  type LivingStream,
  ReplicatedWorld,
  until,
} from '../support/replicated-world.js';

// identity.md, Living connections: what is taken from a caller while its connection lives is refused at the very next
// call, on every replica, and its streams end. The streams of all of it are looked at last, so that one wait is enough.

const { ACTIVE, SUSPENDED, REVOKED } = RecordStatus;
const { EFFECT_EXECUTOR, EFFECT_RECONCILER } = WorkloadRole;
const { ADMIN, AUDITOR } = OperatorRole;
const BUMP = { case: 'bumpPolicyRevision', value: {} } as const;

let living: ReplicatedWorld;
let world: E2eWorld;
const streams: { readonly what: string; readonly told: object; readonly stream: LivingStream }[] = [];

beforeAll(async () => {
  living = await ReplicatedWorld.open();
  world = living.world;
});
afterAll(() => living?.close());

/** Begins a stream, and says what its end is to be. */
async function watch(what: string, told: object, replies: AsyncIterable<unknown>): Promise<void> {
  streams.push({ what, told, stream: await beginStream(replies) });
}

const whoAmI = (channel: Channel) => channel.service(WorkloadService).whoAmI({});
const watchEffects = (channel: Channel, domainId = '') =>
  channel.service(EffectService).watchEffects({ domainId });
const watchEntries = (channel: Channel, domainId: string) =>
  channel.service(AuditService).watchEntries({ domainId });

describe('an actor', () => {
  test('whose harness is suspended, until it is resumed', async () => {
    const harness = await living.newHarness();
    await putHarness(world, { ...harness, status: SUSPENDED });
    await living.expectRefused(harness, 'HARNESS_INACTIVE');
    await putHarness(world, { ...harness, status: ACTIVE });
    await living.expectServed(harness);
  });

  test('whose principal is suspended', async () => {
    const harness = await living.newHarness();
    const { principalId } = harness;
    await put(world, { case: 'putPrincipal', value: { principal: { principalId, status: SUSPENDED } } });
    await living.expectRefused(harness, 'PRINCIPAL_INACTIVE');
  });

  test('whose credential is revoked', async () => {
    const harness = await living.newHarness();
    await put(world, { case: 'revokeCredential', value: { credentialId: harness.credentialId } });
    await living.expectRefused(harness, 'CREDENTIAL_INACTIVE');
  });

  test('whose credential epoch is over, and whose new credential is bound to another leaf', async () => {
    const harness = await living.newHarness();
    const { spiffeId, harnessId, principalId } = harness;
    await put(world, { case: 'bumpCredentialEpoch', value: { harnessId } });
    await living.expectRefused(harness, 'CREDENTIAL_MISSING');
    const next = living.pki.leaf(spiffeId);
    await put(world, {
      case: 'createCredential',
      value: {
        credential: {
          credentialId: randomUUID(),
          harnessId,
          spiffeId,
          binding: CertificateBinding.CERTIFICATE,
          certificateDigest: Uint8Array.from(next.sha256),
          expireTime: timestampFromMs((await world.now()) + 86_400_000),
        },
      },
    });
    await living.expectRefused(harness, 'CREDENTIAL_UNBOUND');
    const grantId = await world.grant({ principalId, harnessId });
    await living.expectServed({ ...harness, grantId, channels: living.connect(next) });
  });
});

/** Effects that nobody works on, one for each replica. */
async function reservedEffects(session: WorkloadSession): Promise<Effect[]> {
  const ids = [await world.reserve(), await world.reserve()].map(({ effectId }) => effectId);
  return Promise.all(ids.map((effectId) => session.look(effectId)));
}

async function start(session: WorkloadSession, effect: Effect): Promise<unknown> {
  const request = await session.start(effect, `attempt-${randomUUID()}`, await world.now());
  return session.channel.service(EffectService).startExecution(request);
}

describe('a workload', () => {
  async function expectNotCurrent(
    sessions: readonly WorkloadSession[],
    effects: readonly Effect[],
    rule: string,
  ) {
    for (const [index, session] of sessions.entries()) {
      const effect = effects[index] as Effect;
      for (const refused of [
        await refusedWith(start(session, effect)),
        await refusedWith(session.look(effect.effectId)),
      ]) {
        expect(refused).toMatchObject({
          code: 'UNAUTHENTICATED',
          reason: 'WORKLOAD_NOT_CURRENT',
          metadata: { rule },
        });
      }
      const { effect: untouched } = await world
        .channel(OPERATOR)
        .service(EffectService)
        .getEffect({ domainId: ACME, effectId: effect.effectId });
      expect(untouched?.state).toBe(EffectState.PREPARED);
    }
  }

  test('whose registration is revoked', async () => {
    const executor = await living.newWorkload(EFFECT_EXECUTOR);
    const reconciler = await living.newWorkload(EFFECT_RECONCILER);
    const effects = await reservedEffects(executor[0] as WorkloadSession);
    for (const { channel } of reconciler) {
      const told = { code: 'UNAUTHENTICATED', reason: 'WORKLOAD_NOT_CURRENT', metadata: { rule: 'status' } };
      await watch('a revoked reconciler', told, watchEffects(channel));
    }
    for (const { registration } of [executor[0], reconciler[0]] as WorkloadSession[]) {
      await put(world, { case: 'revokeWorkload', value: { registrationId: registration.registrationId } });
    }
    await expectNotCurrent(executor, effects, 'status');
  });

  test('whose registration is renewed for another leaf', async () => {
    const executor = await living.newWorkload(EFFECT_EXECUTOR, { bound: true });
    const [first] = executor as [WorkloadSession];
    const effects = await reservedEffects(first);
    const next = living.pki.leaf(first.registration.spiffeId);
    const renewed = {
      ...first.registration,
      credentialEpoch: 2n,
      certificateDigest: Uint8Array.from(next.sha256),
    };
    const possessionJws = await possession(renewed, first.service, first.key);
    await put(world, { case: 'renewWorkload', value: { possessionJws } });
    for (const [index, { channel, registration }] of executor.entries()) {
      const { registrationId } = registration;
      const { effectId } = effects[index] as Effect;
      const look = channel.service(EffectService).getEffect({ effectId, registrationId });
      expect(await refusedWith(look)).toMatchObject({
        reason: 'WORKLOAD_NOT_CURRENT',
        metadata: { rule: 'certificate' },
      });
    }
    for (const channel of living.connect(next)) {
      const { registrationId } = first.registration;
      const effectId = effects[0]?.effectId ?? '';
      expect(await channel.service(EffectService).getEffect({ effectId, registrationId })).toMatchObject({
        effect: { effectId },
      });
    }
  });
});

describe('an operator', () => {
  const NOBODY = { reason: expect.stringMatching(/^(NOT_VISIBLE|CALLER_UNKNOWN|METHOD_NOT_ALLOWED)$/) };

  /** Watches on each replica, and a command that was signed in time for each. */
  async function atWork(what: string, operator: LivingOperator): Promise<string[]> {
    for (const channel of operator.channels) {
      await watch(`${what}: entries`, NOBODY, watchEntries(channel, ACME));
      await watch(`${what}: effects`, NOBODY, watchEffects(channel, ACME));
    }
    return Promise.all(operator.sessions.map((session) => session.sign(ACME, BUMP, 'too late')));
  }

  /** Every way to act or to look, on each replica. */
  async function expectRefused(operator: LivingOperator, signed: string[], reason: string): Promise<void> {
    const domainId = ACME;
    for (const [index, channel] of operator.channels.entries()) {
      const commandJws = signed[index] ?? '';
      const command = refusedWith(channel.service(AdminService).executeCommand({ commandJws }));
      expect((await command).reason).toBe(reason);
      const nonce = {
        scope: 'x',
        nonce: randomUUID(),
        consumptionId: randomUUID(),
        expireTime: timestampFromMs((await world.now()) + 60_000),
        domainId,
      };
      const refused = await Promise.all([
        refusedWith(channel.service(AdminService).getDomain({ domainId })),
        refusedWith(channel.service(AdminService).listGrants({ domainId })),
        refusedWith(channel.service(AuditService).listEntries({ domainId })),
        refusedWith(channel.service(AuditService).verifyChain({ domainId })),
        refusedWith(channel.service(WorkloadService).listWorkloads({ domainId })),
        refusedWith(channel.service(EffectService).listEffects({ domainId })),
        refusedWith(channel.service(ReplayService).consumeNonce(nonce)),
      ]);
      for (const one of refused) expect(one).toMatchObject(NOBODY);
    }
  }

  test.each([
    ['of the platform, suspended', SERVICE_DOMAIN, SUSPENDED],
    ['of the domain, suspended', ACME, SUSPENDED],
    ['of the domain, revoked', ACME, REVOKED],
  ])('%s', async (what, homeDomainId, status) => {
    const operator = await living.newOperator([ADMIN], { homeDomainId });
    const signed = await atWork(what, operator);
    await living.setOperator(operator, status);
    await expectRefused(operator, signed, 'COMMAND_SIGNATURE_INVALID');
  });

  test('of all domains, who is left with another one', async () => {
    const operator = await living.newOperator([ADMIN]);
    const signed = await atWork('narrowed', operator);
    await living.setOperator(operator, ACTIVE, GLOBEX);
    await expectRefused(operator, signed, 'ROLE_MISSING');
    const [channel] = operator.channels;
    expect(await channel?.service(AdminService).getDomain({ domainId: GLOBEX })).toMatchObject({
      domain: {},
    });
  });

  test('an auditor who is suspended', async () => {
    const auditor = await living.newOperator([AUDITOR]);
    for (const channel of auditor.channels) await watch('an auditor', NOBODY, watchEntries(channel, ACME));
    await living.setOperator(auditor, SUSPENDED);
    for (const channel of auditor.channels) {
      const list = channel.service(AuditService).listEntries({ domainId: ACME });
      expect(await refusedWith(list)).toMatchObject(NOBODY);
    }
  });
});

const setDomain = (status: RecordStatus.ACTIVE | RecordStatus.SUSPENDED) =>
  world.admin.execute(GLOBEX, {
    case: 'updateDomain',
    value: { status, allowStandingRegistrations: true },
  });
/** The harness of globex.test. */
let globex: readonly Channel[];

describe('everybody of a domain that is suspended', () => {
  test('is refused at the next call', async () => {
    globex = living.connect(living.pki.leaf(`spiffe://${GLOBEX}/harness/planner`));
    for (const channel of globex) await living.publish(channel);
    const executor = await living.newWorkload(EFFECT_EXECUTOR, { domainId: GLOBEX });
    const reconciler = await living.newWorkload(EFFECT_RECONCILER, { domainId: GLOBEX });
    const operator = await living.newOperator([ADMIN], { homeDomainId: GLOBEX });
    const notCurrent = { reason: 'WORKLOAD_NOT_CURRENT', metadata: { rule: 'domain' } };
    for (const { channel } of reconciler) await watch('of a domain', notCurrent, watchEffects(channel));
    await setDomain(SUSPENDED);
    for (const [index, channel] of globex.entries()) {
      expect(await refusedWith(living.publish(channel))).toMatchObject({ reason: 'DOMAIN_INACTIVE' });
      expect(await refusedWith((executor[index] as WorkloadSession).look('any'))).toMatchObject(notCurrent);
      const bump = operator.sessions[index]?.execute(GLOBEX, BUMP);
      expect(await refusedWith(bump as Promise<unknown>)).toMatchObject({ reason: 'DOMAIN_INACTIVE' });
    }
  });
});

describe('certificates', () => {
  const REJECTED = { code: 'UNAUTHENTICATED', reason: 'CERTIFICATE_REJECTED' };
  const rejected = (rule: string) => ({ ...REJECTED, metadata: { rule } });
  let expiring: string;
  const health = (channel: Channel) => channel.service(Health).watch({ service: '' });

  test('one that expires by the clock of the store', async () => {
    const notAfter = new Date(Date.now() + 10 * 60_000);
    const harness = await living.newHarness({ notAfter });
    const reconciler = await living.newWorkload(EFFECT_RECONCILER, { notAfter });
    const auditor = await living.newOperator([AUDITOR], { notAfter });
    for (const [index, channel] of harness.channels.entries()) {
      // The one judge sees the certificate on the connection, the other the caller in its transaction.
      const told = {
        code: 'UNAUTHENTICATED',
        reason: expect.stringMatching(/^(CERTIFICATE_REJECTED|CALLER_UNKNOWN)$/),
      };
      await watch('expired', told, health(channel));
      await watch('expired', told, watchEffects((reconciler[index] as WorkloadSession).channel));
      await watch('expired', told, watchEntries(auditor.channels[index] as Channel, ACME));
    }
    expiring = harness.spiffeId;
    await world.advance(11 * 60_000);
    // It is the process through which the clock was moved that knows at once; the other asks its store.
    const [here, there] = harness.channels as [Channel, Channel];
    expect(await refusedWith(living.publish(here))).toMatchObject(rejected('EXPIRED'));
    expect(await refusedWith(whoAmI(here))).toMatchObject(rejected('EXPIRED'));
    for (const refused of [
      await refusedWith(living.publish(there)),
      await refusedWith(living.reserve(harness, there)),
    ]) {
      expect(refused.code).toBe('UNAUTHENTICATED');
    }
    const look = refusedWith((reconciler[1] as WorkloadSession).look('any'));
    expect((await look).code).toBe('UNAUTHENTICATED');
  });

  test('one that a list revokes, those of a bundle that is gone, and nobody else, while the service has another', async () => {
    const { pki } = living;
    const victim = await living.newWorkload(EFFECT_RECONCILER);
    const colleague = await living.newHarness();
    const initech = await living.newOperator([ADMIN], { homeDomainId: ACME, trustDomain: 'initech.test' });
    for (const [index, { channel }] of victim.entries()) {
      await watch('revoked', rejected('REVOKED'), watchEffects(channel));
      const gone = rejected('TRUST_DOMAIN_UNKNOWN');
      await watch('gone', gone, watchEntries(initech.channels[index] as Channel, ACME));
    }
    const serial = living.certificates.get(victim[0]?.registration.spiffeId ?? '')?.serial ?? 0n;
    const renewed = pki.leaf(AUDIENCE, { dnsNames: ['localhost'] });
    pki.serve(renewed);
    pki.bundles.crl(ACME, pki.acme.crl({ revoked: [serial] })).delete('initech.test.pem');
    pki.bundles.file(`${GLOBEX}.pem`, 'half a fi');
    await expectEnds('revoked', 'gone', 'expired');
    await expectCutOff(expiring);

    for (const [index, service] of living.replicas.entries()) {
      await until(() => service.log().includes('serving another certificate'), 'the other certificate');
      expect(await living.pki.serialOf(service)).toBe(renewed.serial);
      expect(service.log()).toMatch(/globex\.test\.pem: .*a bad file: keeping what it said before/);
      const late = [
        (victim[index] as WorkloadSession).look('any'),
        initech.sessions[index]?.sign(ACME, BUMP, 'x'),
      ];
      for (const call of late) {
        expect((await refusedWith(call as Promise<unknown>)).code).toMatch(/^(UNAUTHENTICATED|UNAVAILABLE)$/);
      }
      // Who was let in before stays, and whoever comes now finds the domain as it was.
      await living.reserve(colleague, colleague.channels[index] as Channel);
      await whoAmI(globex[index] as Channel);
    }
    for (const channel of living.connect(pki.leaf(`spiffe://${GLOBEX}/harness/planner`)))
      await whoAmI(channel);
    await expectCutOff(initech.spiffeId);
  });

  /** Nobody gets in any more with what a caller presented so far. */
  async function expectCutOff(spiffeId: string): Promise<void> {
    for (const channel of living.connect(living.certificates.get(spiffeId) as Certificate)) {
      expect(await refusedWith(whoAmI(channel))).toMatchObject({ code: 'UNAVAILABLE' });
    }
  }
});

test('all streams of what was taken away have ended; a domain that is resumed is served over the same connections', async () => {
  await expectEnds();
  await setDomain(ACTIVE);
  for (const channel of globex) await living.publish(channel);
});

/** Waits for the ends of the streams that are called so. */
async function expectEnds(...names: string[]): Promise<void> {
  const named = streams.filter(({ what }) => names.length === 0 || names.includes(what));
  expect(named.length).toBeGreaterThan(0);
  for (const { what, told, stream } of named) {
    expect([what, await stream.ended]).toMatchObject([what, told]);
  }
}

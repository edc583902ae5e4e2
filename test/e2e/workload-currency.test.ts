import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SuretyError } from '../../src/cli/client/surety-error.js';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_AUTHORITY_SYSTEM, DEMO_PRINCIPAL, DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import { RecordStatus, WorkloadRole } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { ACME, EXECUTOR_A, EXECUTOR_B, GLOBEX, OPERATOR, RECONCILER } from '../support/e2e-world.js';
import { registerWorkload } from '../../src/cli/client/register-workload.js';
import { type Rpc, type Target, time, TransitionRig } from '../support/transition-rig.js';

const HOUR = 3_600_000_000n;
const RPCS: readonly Rpc[] = ['start', 'markUnknown', 'acknowledge', 'reconcile'];
const OTHER_SINK = 'mails';

let rig: TransitionRig;
let targets: Readonly<Record<Rpc, Target>>;

beforeAll(async () => {
  rig = await TransitionRig.open({ globex: true });
  const { admin } = rig.world;
  await admin.execute(ACME, {
    case: 'putSink',
    value: { sink: { sink: OTHER_SINK, authoritySystems: [DEMO_AUTHORITY_SYSTEM] } },
  });
  await admin.execute(ACME, {
    case: 'putHarness',
    value: {
      harness: {
        harnessId: 'scribe',
        principalId: DEMO_PRINCIPAL,
        bindingAssurance: 'attested',
        status: RecordStatus.ACTIVE,
      },
    },
  });
  const executor = await rig.world.executor();
  const executing = await rig.executing(executor);
  targets = {
    start: await rig.prepared(),
    markUnknown: executing,
    acknowledge: executing,
    reconcile: await rig.unknown(executor),
  };
});
afterAll(() => rig.close());

type RegistrationWish = Parameters<TransitionRig['world']['executor']>[1];

/** A registration of the kind that the RPC is for. */
function register(rpc: Rpc, wish: RegistrationWish = {}): Promise<WorkloadSession> {
  return rpc === 'reconcile' ? rig.world.reconciler(wish) : rig.world.executor(EXECUTOR_A, wish);
}

/** What a caller sees of a refusal. */
function seen({ code, reason, message, metadata, violations, retryAfterMs }: SuretyError) {
  return { code, reason, message, metadata, violations, retryAfterMs };
}

describe('rule 1: what may not be seen looks like what is not there', () => {
  let absent: ReturnType<typeof seen>;
  let executor: WorkloadSession;
  let reconciler: WorkloadSession;
  const by = (rpc: Rpc): WorkloadSession => (rpc === 'reconcile' ? reconciler : executor);

  beforeAll(async () => {
    executor = await rig.world.executor();
    reconciler = await rig.world.reconciler();
    const target = { ...targets.start, effectId: 'effect-that-is-not-there' };
    absent = seen(await rig.refused('start', executor, target));
    expect(absent).toMatchObject({ code: 'PERMISSION_DENIED', reason: 'NOT_VISIBLE', metadata: {} });
  });

  test.each(RPCS)('%s: absent', async (rpc) => {
    const target = { ...targets[rpc], effectId: 'effect-that-is-not-there' };
    expect(seen(await rig.refused(rpc, by(rpc), target))).toEqual(absent);
  });

  test.each(RPCS)('%s: standing for another sink, or for another harness', async (rpc) => {
    for (const wish of [{ sinks: [OTHER_SINK] }, { overrides: { recipientScope: 'scribe' } }]) {
      const session = await register(rpc, wish);
      expect(seen(await rig.refused(rpc, session, targets[rpc]))).toEqual(absent);
    }
  });

  test.each(RPCS)('%s: bound to another event, or to another grant', async (rpc) => {
    const { eventId, grantId } = targets[rpc];
    const [otherEvent, otherGrant] = [await rig.world.publish(), await rig.world.grant()];
    for (const bound of [
      { parentEventId: otherEvent, grantId },
      { parentEventId: eventId, grantId: otherGrant },
    ]) {
      const session = await register(rpc, bound);
      expect(seen(await rig.refused(rpc, session, targets[rpc]))).toEqual(absent);
    }
  });

  test.each(RPCS)('%s: a registration of another role, or none', async (rpc) => {
    const other = rpc === 'reconcile' ? executor : reconciler;
    for (const { registrationId, workloadId, role } of [
      other.registration,
      { ...by(rpc).registration, registrationId: 'reg-that-is-not-there' },
    ]) {
      const statement = { registrationId, workloadId, role };
      expect(seen(await rig.refused(rpc, by(rpc), targets[rpc], { statement }))).toEqual(absent);
    }
  });

  test('another domain', async () => {
    const channel = rig.world.channel(`spiffe://${GLOBEX}/executor/payments-a`);
    const foreigner = await registerWorkload(rig.world.admin, channel, rig.world.channel(OPERATOR), {
      domainId: GLOBEX,
      spiffeId: `spiffe://${GLOBEX}/executor/payments-a`,
      role: WorkloadRole.EFFECT_EXECUTOR,
      workloadId: 'payments',
      sinks: [DEMO_SINK],
    });
    expect(seen(await rig.refused('start', foreigner, targets.start))).toEqual(absent);
  });

  test('its own event and grant, its own sink and harness are seen', async () => {
    const { eventId, grantId } = targets.start;
    const bound = await register('start', { parentEventId: eventId, grantId });
    const scoped = await register('start', { overrides: { recipientScope: 'planner' } });
    for (const session of [bound, scoped]) {
      expect(await rig.done('start', session, await rig.prepared())).toMatchObject({ duplicate: false });
    }
  });
});

describe('rule 2: a registration that is not current', () => {
  async function notCurrent(session: WorkloadSession, rpc: Rpc, rule: string): Promise<void> {
    const traces = await rig.traces();
    expect(seen(await rig.refused(rpc, session, targets[rpc]))).toMatchObject({
      code: 'UNAUTHENTICATED',
      reason: 'WORKLOAD_NOT_CURRENT',
      metadata: { rule },
    });
    expect(await rig.traces()).toEqual(traces);
  }

  test.each(RPCS)('%s: revoked', async (rpc) => {
    const session = await register(rpc);
    const { registrationId } = session.registration;
    await rig.world.admin.execute(ACME, { case: 'revokeWorkload', value: { registrationId } });
    await notCurrent(session, rpc, 'status');
  });

  test('expired, at its very end', async () => {
    const expireTime = time(rig.now + 60_000_000n);
    const sessions = await Promise.all(RPCS.map((rpc) => register(rpc, { overrides: { expireTime } })));
    const last = await rig.world.executor(EXECUTOR_B, { workloadId: 'b', overrides: { expireTime } });
    await rig.move(60_000_000n - 1n);
    expect(await rig.done('start', last, await rig.prepared())).toMatchObject({ duplicate: false });
    await rig.move(1n);
    for (const [index, rpc] of RPCS.entries()) {
      await notCurrent(sessions[index] as WorkloadSession, rpc, 'expiry');
    }
  });

  test('issued in the future', async () => {
    const session = await register('start');
    const { registrationId } = session.registration;
    const set = 'UPDATE registrations SET issued_at = $1 WHERE domain_id = $2 AND registration_id = $3';
    await rig.tamper(set, [(rig.now + 60_000_001n).toString(), ACME, registrationId]);
    await notCurrent(session, 'start', 'issue_time');
  });

  test('for another event, grant or sink than the effect that it started', async () => {
    const session = await register('start');
    const { registrationId } = session.registration;
    const target = await rig.executing(session);
    const change = (set: string) =>
      rig.tamper(`UPDATE registrations SET ${set} WHERE domain_id = $1 AND registration_id = $2`, [
        ACME,
        registrationId,
      ]);
    for (const set of [
      `sinks = '{${OTHER_SINK}}'`,
      `sinks = '{}', parent_event_id = 'event-other', grant_id = '${target.grantId}'`,
      `parent_event_id = '${target.eventId}', grant_id = 'grant-other'`,
    ]) {
      await change(set);
      for (const rpc of ['markUnknown', 'acknowledge'] as const) {
        expect(await rig.refused(rpc, session, target)).toMatchObject({
          reason: 'WORKLOAD_NOT_CURRENT',
          metadata: { rule: 'binding' },
        });
      }
    }
    await change(`grant_id = '${target.grantId}'`);
    expect(await rig.done('acknowledge', session, target)).toMatchObject({ duplicate: false });
  });

  test('standing, where the domain no longer allows it; a bound one stays', async () => {
    const { eventId, grantId } = targets.start;
    const standing = await Promise.all(RPCS.map((rpc) => register(rpc)));
    const bound = await register('start', { parentEventId: eventId, grantId });
    await allowStanding(false);
    for (const [index, rpc] of RPCS.entries()) {
      await notCurrent(standing[index] as WorkloadSession, rpc, 'standing');
    }
    expect(await rig.done('start', bound, await rig.prepared())).toMatchObject({ duplicate: false });
    await allowStanding(true);
  });

  test('in a domain that is suspended', async () => {
    const sessions = await Promise.all(RPCS.map((rpc) => register(rpc)));
    await allowStanding(true, RecordStatus.SUSPENDED);
    for (const [index, rpc] of RPCS.entries()) {
      await notCurrent(sessions[index] as WorkloadSession, rpc, 'domain');
    }
    await allowStanding(true);
    expect(await rig.done('start', sessions[0] as WorkloadSession, await rig.prepared())).toMatchObject({
      duplicate: false,
    });
  });

  test('of a revocation epoch that is over: all at once', async () => {
    const sessions = await Promise.all(RPCS.map((rpc) => register(rpc)));
    await rig.world.admin.execute(ACME, { case: 'bumpRevocationEpoch', value: {} });
    for (const [index, rpc] of RPCS.entries()) {
      await notCurrent(sessions[index] as WorkloadSession, rpc, 'revocation_epoch');
    }
    const fresh = await register('start');
    expect(await rig.done('start', fresh, await rig.prepared())).toMatchObject({ duplicate: false });
  });

  function allowStanding(allowed: boolean, status = RecordStatus.ACTIVE): Promise<unknown> {
    const value = { status, allowStandingRegistrations: allowed };
    return rig.world.admin.execute(ACME, { case: 'updateDomain', value });
  }
});

test('a caller whose kind was taken from it is nobody', async () => {
  const session = await rig.world.reconciler();
  await rig.tamper('DELETE FROM callers WHERE domain_id = $1 AND spiffe_id = $2', [ACME, RECONCILER]);
  expect(await rig.refused('reconcile', session, targets.reconcile)).toMatchObject({
    code: 'UNAUTHENTICATED',
    reason: 'CALLER_UNKNOWN',
  });
});

test('the hour of a registration is over', async () => {
  const session = await rig.world.executor(EXECUTOR_B, { workloadId: 'b' });
  await rig.move(HOUR);
  expect(await rig.refused('start', session, targets.start)).toMatchObject({
    reason: 'WORKLOAD_NOT_CURRENT',
    metadata: { rule: 'expiry' },
  });
});

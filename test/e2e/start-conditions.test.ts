import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Mutation } from '../../src/cli/client/admin-session.js';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_HARNESS, DEMO_PRINCIPAL, DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { RecordStatus } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { ACME } from '../support/e2e-world.js';
import { type Target, time, TransitionRig } from '../support/transition-rig.js';

const SECOND = 1_000_000n;
const { ACTIVE, SUSPENDED } = RecordStatus;

let rig: TransitionRig;
let executor: WorkloadSession;
let reconciler: WorkloadSession;

beforeAll(async () => {
  rig = await TransitionRig.open();
  executor = await rig.world.executor();
  reconciler = await rig.world.reconciler();
});
afterAll(() => rig.close());

const command = (mutation: Mutation) => rig.world.admin.execute(ACME, mutation);
const revokeGrant = (grantId: string) => command({ case: 'revokeGrant', value: { grantId } });

async function refusesStart(target: Target, reason: string, metadata: object): Promise<void> {
  const traces = await rig.traces();
  const error = await rig.refused('start', executor, target);
  expect({ code: error.code, reason: error.reason, metadata: error.metadata }).toEqual({
    code: 'FAILED_PRECONDITION',
    reason,
    metadata,
  });
  expect(await rig.traces()).toEqual(traces);
}

/** A grant of its own, and an effect of each kind under it. */
async function underOneGrant(wish: Parameters<TransitionRig['world']['grant']>[0] = {}) {
  const grantId = await rig.world.grant(wish);
  return {
    grantId,
    prepared: await rig.prepared({ grantId }),
    lost: await rig.executing(executor, { grantId }),
    acknowledged: await rig.executing(executor, { grantId }),
  };
}

type UnderOneGrant = Awaited<ReturnType<typeof underOneGrant>>;

/** Nobody is stuck: what was started is settled, and the log says that the grant was no longer current. */
async function settlesAllTheSame({ lost, acknowledged }: UnderOneGrant): Promise<void> {
  for (const done of [
    () => rig.done('markUnknown', executor, lost),
    () => rig.done('reconcile', reconciler, lost),
    () => rig.done('acknowledge', executor, acknowledged),
  ]) {
    const { auditPosition, duplicate } = await done();
    expect(duplicate).toBe(false);
    expect((await rig.entry(auditPosition)).effect?.grantCurrent).toBe(false);
  }
}

describe('rule 10: the grant, needed at a start and recorded later', () => {
  test('a revoked one', async () => {
    const all = await underOneGrant();
    await revokeGrant(all.grantId);
    await refusesStart(all.prepared, 'GRANT_NOT_CURRENT', { rule: 'GRANT_REVOKED' });
    await settlesAllTheSame(all);
  });

  test('one that expires after the start', async () => {
    const expireTime = time(rig.now + 10n * SECOND);
    const all = await underOneGrant({ expireTime });
    await rig.move(10n * SECOND - 1n);
    const last = await rig.done('start', executor, all.prepared);
    expect((await rig.entry(last.auditPosition)).effect?.grantCurrent).toBe(true);
    const late = { ...all, prepared: await rig.prepared({ grantId: all.grantId }) };
    await rig.move(1n);
    await refusesStart(late.prepared, 'GRANT_NOT_CURRENT', { rule: 'GRANT_EXPIRED' });
    await settlesAllTheSame(late);
  });

  test('one whose policy revision is over', async () => {
    const all = await underOneGrant();
    await command({ case: 'bumpPolicyRevision', value: {} });
    await refusesStart(all.prepared, 'GRANT_NOT_CURRENT', { rule: 'GRANT_BINDING_STALE' });
    await settlesAllTheSame(all);
    await renewAuthority();
  });

  /** Entitlements, event and grant of the new policy revision. */
  async function renewAuthority(): Promise<void> {
    const expireTime = timestampFromMs(Number(rig.now / 1000n) + 86_400_000);
    const entitlement = {
      entitlementId: `${DEMO_PRINCIPAL}-refund.create`,
      principalId: DEMO_PRINCIPAL,
      action: 'refund.create',
      resource: '*',
      expireTime,
    };
    await command({ case: 'putEntitlement', value: { entitlement } });
    await rig.renewAuthority();
  }
});

describe('rule 11: only at a start', () => {
  test('before its time is over, to the microsecond', async () => {
    const reservationTtl = { seconds: 10n, nanos: 0 };
    const [inTime, late] = [await rig.prepared({ reservationTtl }), await rig.prepared({ reservationTtl })];
    await rig.move(10n * SECOND - 1n);
    expect(await rig.done('start', executor, inTime)).toMatchObject({ state: EffectState.EXECUTING });
    await rig.move(1n);
    await refusesStart(late, 'START_TOO_LATE', {});
    // The sweep says the same of it.
    await rig.advance(1);
    expect(await rig.refused('start', executor, late)).toMatchObject({
      reason: 'EFFECT_STATE_CONFLICT',
      metadata: { state: 'CANCELLED', source: 'expiry' },
    });
  });

  test.each([
    ['the domain', '', { scope: 'domain' }],
    ['the sink', DEMO_SINK, { scope: 'sink' }],
  ])('not while %s is frozen; all that settles goes on', async (_name, sink, metadata) => {
    const prepared = await rig.prepared();
    const [lost, acknowledged] = [await rig.executing(executor), await rig.executing(executor)];
    await command({ case: 'setFreeze', value: { sink, frozen: true } });
    await refusesStart(prepared, 'FROZEN', metadata);
    await rig.done('markUnknown', executor, lost);
    await rig.done('reconcile', reconciler, lost);
    await rig.done('acknowledge', executor, acknowledged);
    await command({ case: 'setFreeze', value: { sink, frozen: false } });
    expect(await rig.done('start', executor, prepared)).toMatchObject({ duplicate: false });
  });

  test('not for a harness or a principal that is suspended; what was started is settled', async () => {
    const harness = (status: RecordStatus): Mutation => ({
      case: 'putHarness',
      value: {
        harness: {
          harnessId: DEMO_HARNESS,
          principalId: DEMO_PRINCIPAL,
          bindingAssurance: 'attested',
          status,
        },
      },
    });
    const principal = (status: RecordStatus): Mutation => ({
      case: 'putPrincipal',
      value: { principal: { principalId: DEMO_PRINCIPAL, status } },
    });
    const prepared = await rig.prepared();
    for (const [suspend, rule] of [
      [harness, 'HARNESS_INACTIVE'],
      [principal, 'PRINCIPAL_INACTIVE'],
    ] as const) {
      const lost = await rig.executing(executor);
      await command(suspend(SUSPENDED));
      await refusesStart(prepared, 'ACTOR_NOT_CURRENT', { rule });
      await rig.done('markUnknown', executor, lost);
      await rig.done('reconcile', reconciler, lost);
      await command(suspend(ACTIVE));
    }
    expect(await rig.done('start', executor, prepared)).toMatchObject({ duplicate: false });
  });

  test("not without the event's provenance, nor with another", async () => {
    const eventId = await rig.world.publish();
    const prepared = await rig.prepared({ eventId });
    const where = `WHERE domain_id = $1 AND object_id = $2`;
    await rig.tamper(`UPDATE provenance_records SET content_digest = sha256('\\x00') ${where}`, [
      ACME,
      eventId,
    ]);
    await refusesStart(prepared, 'PROVENANCE_MISSING', {});
    await rig.tamper(`DELETE FROM provenance_records ${where}`, [ACME, eventId]);
    await refusesStart(prepared, 'PROVENANCE_MISSING', {});
  });

  test('the first reason wins among them: frozen, the actor, the provenance', async () => {
    const eventId = await rig.world.publish();
    const prepared = await rig.prepared({ eventId });
    await rig.tamper('DELETE FROM provenance_records WHERE domain_id = $1 AND object_id = $2', [
      ACME,
      eventId,
    ]);
    const principal = (status: RecordStatus): Mutation => ({
      case: 'putPrincipal',
      value: { principal: { principalId: DEMO_PRINCIPAL, status } },
    });
    await command(principal(SUSPENDED));
    await command({ case: 'setFreeze', value: { frozen: true } });
    await refusesStart(prepared, 'FROZEN', { scope: 'domain' });
    await command({ case: 'setFreeze', value: { frozen: false } });
    await refusesStart(prepared, 'ACTOR_NOT_CURRENT', { rule: 'PRINCIPAL_INACTIVE' });
    await command(principal(ACTIVE));
    await refusesStart(prepared, 'PROVENANCE_MISSING', {});
  });
});

test("a grant's credential epoch that is over stops starts, and only those", async () => {
  const all = await underOneGrant();
  await command({ case: 'bumpCredentialEpoch', value: { harnessId: DEMO_HARNESS } });
  await refusesStart(all.prepared, 'GRANT_NOT_CURRENT', { rule: 'GRANT_BINDING_STALE' });
  await settlesAllTheSame(all);
});

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { registerWorkload } from '../../src/cli/client/register-workload.js';
import type { WorkloadSession } from '../../src/cli/client/workload-session.js';
import { DEMO_AUTHORITY_SYSTEM, DEMO_SINK } from '../../src/cli/demo/set-up-domain.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { WorkloadRole } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { createSigningKey, type SigningKey } from '../../src/identity/sign.js';
import { ACME, EXECUTOR_A, OPERATOR, RECONCILER, refusedWith } from '../support/e2e-world.js';
import { type Target, TransitionRig } from '../support/transition-rig.js';

const OTHER_SYSTEM = 'other-ledger';

let rig: TransitionRig;
let executor: WorkloadSession;
let oldKey: SigningKey;
let reconciler: WorkloadSession;
let target: Target;

beforeAll(async () => {
  rig = await TransitionRig.open();
  const first = await rig.world.executor();
  oldKey = first.key;
  target = await rig.unknown(first);
  executor = await rig.renewed(first, {}, createSigningKey());
  reconciler = await rig.world.reconciler();
});
afterAll(() => rig.close());

/** Refused for the rule, without a trace. */
async function dependent(rule: string, session = reconciler, of = target): Promise<void> {
  const traces = await rig.traces();
  expect(await rig.refused('reconcile', session, of)).toMatchObject({
    code: 'FAILED_PRECONDITION',
    reason: 'RECONCILER_NOT_INDEPENDENT',
    metadata: { rule },
  });
  expect(await rig.traces()).toEqual(traces);
}

/** Registers a workload with a key that it brings. */
function register(spiffeId: string, role: WorkloadRole, key: SigningKey): Promise<WorkloadSession> {
  const { world } = rig;
  const workloadId =
    role === WorkloadRole.EFFECT_RECONCILER ? `effect-system:${DEMO_AUTHORITY_SYSTEM}` : 'payments';
  const wish = { domainId: ACME, spiffeId, role, workloadId, sinks: [DEMO_SINK] };
  return registerWorkload(world.admin, world.channel(spiffeId), world.channel(OPERATOR), wish, key);
}

describe('rule 9: nothing of the executor', () => {
  test.each([
    ['present', () => executor.key],
    ['old', () => oldKey],
  ])("its %s key is not registered as a reconciler's", async (_name, key) => {
    const error = await refusedWith(register(RECONCILER, WorkloadRole.EFFECT_RECONCILER, key()));
    expect(error).toMatchObject({ code: 'ALREADY_EXISTS', reason: 'KEY_REUSED' });
  });

  test("nor a reconciler's as an executor's; one of the same role may share it", async () => {
    const error = await refusedWith(register(EXECUTOR_A, WorkloadRole.EFFECT_EXECUTOR, reconciler.key));
    expect(error).toMatchObject({ reason: 'KEY_REUSED' });
    const twin = await register(RECONCILER, WorkloadRole.EFFECT_RECONCILER, reconciler.key);
    expect(twin.registration.registrationId).not.toBe(reconciler.registration.registrationId);
  });

  test('nor is a renewal to a key of another role', async () => {
    await expect(rig.renewed(reconciler, {}, oldKey)).rejects.toMatchObject({ reason: 'KEY_REUSED' });
  });

  test('its SPIFFE ID is not that of a reconciler', async () => {
    const error = await refusedWith(register(EXECUTOR_A, WorkloadRole.EFFECT_RECONCILER, createSigningKey()));
    expect(error).toMatchObject({ code: 'ALREADY_EXISTS', reason: 'CALLER_KIND_CONFLICT' });
  });

  test.each([
    ['present', () => executor.key],
    ['old', () => oldKey],
  ])('its %s key, put there by SQL, is not independent', async (_name, key) => {
    const session = await rig.world.reconciler();
    await rig.tamper(
      `UPDATE registrations SET proof_key_thumbprint = $1 WHERE domain_id = $2 AND registration_id = $3`,
      [key().publicKey.thumbprint, ACME, session.registration.registrationId],
    );
    const traces = await rig.traces();
    expect(await rig.refused('reconcile', session, target, { key: key() })).toMatchObject({
      reason: 'RECONCILER_NOT_INDEPENDENT',
      metadata: { rule: 'proof_key' },
    });
    expect(await rig.traces()).toEqual(traces);
  });

  test('a key that only its receipt has', async () => {
    const other = await rig.unknown(executor);
    const thumbprint = reconciler.key.publicKey.thumbprint;
    await ofReceipt(other, 'key_thumbprint', thumbprint);
    await dependent('proof_key', reconciler, other);
  });

  test('its SPIFFE ID or certificate of any version or receipt', async () => {
    const { certificateDigest } = await rig.world.channel(RECONCILER).service(WorkloadService).whoAmI({});
    const leaf = Buffer.from(certificateDigest);
    const version = (spiffeId: string, certificate: Buffer | null) =>
      rig.tamper(
        `INSERT INTO registration_versions SELECT domain_id, registration_id, 99, role, $1, $2::bytea, 'key-99', status,
          NULL, stored_at FROM registration_versions WHERE domain_id = $3 AND registration_id = $4 AND credential_epoch = 1`,
        [spiffeId, certificate, ACME, executor.registration.registrationId],
      );
    const forget = () =>
      rig.tamper('DELETE FROM registration_versions WHERE domain_id = $1 AND credential_epoch = 99', [ACME]);
    await version(RECONCILER, null);
    await dependent('spiffe_id');
    await forget();
    await version(EXECUTOR_A, leaf);
    await dependent('certificate');
    await forget();

    const other = await rig.unknown(executor);
    await ofReceipt(other, 'leaf_digest', leaf);
    await dependent('certificate', reconciler, other);
    const third = await rig.unknown(executor);
    await ofReceipt(third, 'spiffe_id', RECONCILER);
    await dependent('spiffe_id', reconciler, third);
  });

  test('its registration', async () => {
    const other = await rig.unknown(executor);
    await rig.tamper(
      'UPDATE effects SET executor_registration_id = $1 WHERE domain_id = $2 AND effect_id = $3',
      [reconciler.registration.registrationId, ACME, other.effectId],
    );
    await dependent('registration', reconciler, other);
  });

  /** Changes what the receipt of a start says. */
  const ofReceipt = ({ effectId }: Target, column: string, value: unknown): Promise<void> =>
    rig.tamper(`UPDATE transitions SET ${column} = $1 WHERE domain_id = $2 AND effect_id = $3 AND step = 2`, [
      value,
      ACME,
      effectId,
    ]);
});

describe('rule 9: the system that it speaks for', () => {
  test('is the one of its evidence', async () => {
    const evidence = { authoritySystemId: OTHER_SYSTEM };
    expect(await rig.refused('reconcile', reconciler, target, { evidence })).toMatchObject({
      reason: 'RECONCILER_NOT_INDEPENDENT',
      metadata: { rule: 'workload_id' },
    });
  });

  test('is named for the sink by the domain', async () => {
    const other = await rig.world.reconciler({ workloadId: `effect-system:${OTHER_SYSTEM}` });
    const evidence = { authoritySystemId: OTHER_SYSTEM };
    const refusal = {
      reason: 'RECONCILER_NOT_INDEPENDENT',
      metadata: { rule: 'authority_system' },
    };
    expect(await rig.refused('reconcile', other, target, { evidence })).toMatchObject(refusal);
    const name = (authoritySystems: string[]) =>
      rig.world.admin.execute(ACME, {
        case: 'putSink',
        value: { sink: { sink: DEMO_SINK, authoritySystems } },
      });
    await name([OTHER_SYSTEM]);
    expect(await rig.refused('reconcile', reconciler, target)).toMatchObject(refusal);
    await name([DEMO_AUTHORITY_SYSTEM, OTHER_SYSTEM]);
    const settled = await rig.unknown(executor);
    expect(await rig.done('reconcile', other, settled, { evidence })).toMatchObject({
      state: EffectState.SUCCEEDED,
    });
  });
});

test('who shares nothing settles it', async () => {
  expect(await rig.done('reconcile', reconciler, target)).toMatchObject({ state: EffectState.SUCCEEDED });
});

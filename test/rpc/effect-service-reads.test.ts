import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Effect, EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { sha256 } from '../../src/ledger/encoding.js';
import type { RegistrationRow } from '../../src/ledger/identity/records.js';
import {
  callerOf,
  EXECUTOR_A,
  EXECUTOR_B,
  freshId,
  nowMicros,
  RECONCILER,
  seedRegistration,
} from '../support/effect-world.js';
import {
  acknowledgeRequest,
  type Peer,
  PLANNER,
  reconcileRequest,
  refusalOf,
  ServiceWorld,
  type Workload,
} from './effect-service-world.js';

const OTHER_HARNESS: Peer = { caller: callerOf('spiffe://acme.test/harness/other'), kind: 'harness' };
const OPERATOR: Peer = { caller: callerOf('spiffe://acme.test/operator/olaf'), kind: 'operator' };
const AUDITOR: Peer = { caller: callerOf('spiffe://surety.test/auditor/ann'), kind: 'auditor' };

let service: ServiceWorld;
/** Standing for the sink. */
let executor: Workload;
let reconciler: Workload;
/** Reserved, started, lost and settled: everything is there. */
let settled: Effect;

beforeAll(async () => {
  service = await ServiceWorld.open();
  const { world } = service;
  await world.seed('harnesses', [
    {
      harnessId: 'other',
      ownerKind: 'principal',
      ownerId: 'paula',
      assurance: 'attested',
      credentialEpoch: 1n,
      status: 'active',
      revision: 1n,
    },
  ]);
  const { spiffeId } = OTHER_HARNESS.caller;
  await world.seed('callers', [{ spiffeId, kind: 'harness', refId: 'other' }]);
  await world.seed('credentials', [
    {
      credentialId: 'other-1',
      harnessId: 'other',
      credentialEpoch: 1n,
      spiffeId,
      binding: 'spiffe_id',
      certificateDigest: null,
      notBefore: 0n,
      expiresAt: nowMicros() + 3_600_000_000n,
      status: 'active',
      revision: 1n,
    },
  ]);
  await service.operator(OPERATOR, ['ADMIN'], 'acme.test');
  await service.operator(AUDITOR, ['AUDITOR'], 'surety.test');
  executor = await service.workload(EXECUTOR_A);
  reconciler = await service.workload(RECONCILER);
  const unknown = await service.lose(executor);
  await service.call('reconcile', reconciler, await reconcileRequest(reconciler, unknown, 'SUCCEEDED'));
  settled = await service.show(unknown.effectId);
});
afterAll(() => service.close());

/** What a peer gets of an effect: its id, or why not. */
async function lookedAt(peer: Peer, effect: { effectId: string }, registrationId = ''): Promise<string> {
  const request = { effectId: effect.effectId, registrationId };
  try {
    const { effect: seen } = await service.call('getEffect', peer, request);
    const { steps } = await service.call('getEffectHistory', peer, request);
    if (steps.length !== Number(seen?.step)) throw new Error('a step is missing');
    return seen?.effectId === effect.effectId ? 'seen' : 'another one';
  } catch {
    const refused = await refusalOf(service.call('getEffect', peer, request));
    const history = await refusalOf(service.call('getEffectHistory', peer, request));
    expect(history).toEqual(refused);
    const rule = refused.metadata?.['rule'];
    return rule === undefined ? refused.reason : `${refused.reason} ${rule}`;
  }
}

/** Well-formed, and about another actor: only its hash tells. */
const FORGED_ACTOR = `entry = decode(replace(encode(entry, 'hex'), encode('payments', 'hex'), encode('payment5', 'hex')), 'hex')`;

async function update(table: string, key: Readonly<Record<string, string>>, set: string): Promise<void> {
  const where = Object.keys(key).map((column, i) => `${column} = $${i + 1}`);
  await service.tamper(`UPDATE ${table} SET ${set} WHERE ${where.join(' AND ')}`, Object.values(key));
}

describe('who sees an effect', () => {
  test('its actor, its executor, its reconciler, operators and auditors see the same', async () => {
    const seen = await Promise.all(
      [PLANNER, executor, reconciler, OPERATOR, AUDITOR].map(async (peer) => {
        const { effect } = await service.call('getEffect', peer, { effectId: settled.effectId });
        return effect;
      }),
    );
    expect(seen).toEqual(Array.from({ length: 5 }, () => settled));
    expect(settled).toMatchObject({
      state: EffectState.SUCCEEDED,
      stateSource: StateSource.RECONCILER,
      executorRegistrationId: executor.registration.registrationId,
      reconcilerRegistrationId: reconciler.registration.registrationId,
      step: 4n,
    });
    for (const field of ['startTime', 'unknownTime', 'settleTime', 'outputReference'] as const) {
      expect(settled[field]).toBeDefined();
    }
  });

  test('absent and foreign look alike, whoever asks', async () => {
    const absent = { effectId: freshId('eff') };
    for (const peer of [PLANNER, executor, reconciler, OPERATOR, AUDITOR]) {
      expect(await lookedAt(peer, absent)).toBe('NOT_VISIBLE');
    }
    const foreign = await refusalOf(service.call('getEffect', OTHER_HARNESS, { effectId: settled.effectId }));
    expect(foreign).toEqual(await refusalOf(service.call('getEffect', OTHER_HARNESS, absent)));
    expect(foreign.reason).toBe('NOT_VISIBLE');
    expect(
      await refusalOf(service.call('checkRetry', OTHER_HARNESS, { effectId: settled.effectId })),
    ).toEqual(foreign);
    const { effectId } = settled;
    expect(await refusalOf(service.call('cancelEffect', OTHER_HARNESS, { effectId }))).toMatchObject({
      reason: 'NOT_VISIBLE',
    });
  });

  test('a harness only while it is in force', async () => {
    const key = { credential_id: 'planner-1' };
    await update('credentials', key, `status = 'revoked'`);
    expect(await lookedAt(PLANNER, settled)).toBe('CREDENTIAL_INACTIVE');
    await update('credentials', key, `status = 'active'`);
    expect(await lookedAt(PLANNER, settled)).toBe('seen');
  });

  test('an operator or auditor only of the domain, and only while active', async () => {
    const key = { spiffe_id: OPERATOR.caller.spiffeId };
    const elsewhere: Peer = { caller: callerOf('spiffe://globex.test/operator/gina'), kind: 'operator' };
    expect(await lookedAt(elsewhere, settled)).toBe('NOT_VISIBLE');
    await update('operators', key, `status = 'suspended'`);
    expect(await lookedAt(OPERATOR, settled)).toBe('NOT_VISIBLE');
    await update('operators', key, `status = 'active', scope_domain_id = 'globex.test'`);
    expect(await lookedAt(OPERATOR, settled)).toBe('NOT_VISIBLE');
    await update('operators', key, `scope_domain_id = NULL`);
    expect(await lookedAt(OPERATOR, settled)).toBe('seen');
    const nowhere = service.call('getEffect', OPERATOR, { effectId: 'e' }, { domainId: 'globex.test' });
    expect((await refusalOf(nowhere)).reason).toBe('NOT_VISIBLE');
  });

  test('a workload by a registration that is for it', async () => {
    const effect = await service.reserve();
    const elsewhere = await service.reserve();
    const bound = await service.workload(EXECUTOR_B, {
      parentEventId: effect.eventId,
      grantId: effect.grantId,
      sinks: [],
    });
    expect(await lookedAt(bound, effect)).toBe('seen');
    expect(await lookedAt(bound, elsewhere)).toBe('NOT_VISIBLE');
    // Any of several will do, and the one that is named only for itself.
    const second = await service.workload(EXECUTOR_B, {
      parentEventId: elsewhere.eventId,
      grantId: elsewhere.grantId,
      sinks: [],
    });
    expect(await lookedAt(bound, elsewhere)).toBe('seen');
    expect(await lookedAt(bound, elsewhere, second.registration.registrationId)).toBe('seen');
    expect(await lookedAt(bound, elsewhere, bound.registration.registrationId)).toBe('NOT_VISIBLE');
    // Half a binding is none.
    const half = await service.workload(EXECUTOR_B, {
      parentEventId: effect.eventId,
      grantId: elsewhere.grantId,
      sinks: [],
    });
    expect(await lookedAt(half, effect, half.registration.registrationId)).toBe('NOT_VISIBLE');
  });

  test("a registration is a selector: another peer's is not there", async () => {
    const { registrationId } = executor.registration;
    expect(await lookedAt(executor, settled, registrationId)).toBe('seen');
    const other = await service.workload(EXECUTOR_B);
    expect(await lookedAt(other, settled, registrationId)).toBe('NOT_VISIBLE');
    expect(await lookedAt(other, settled, freshId('reg'))).toBe('NOT_VISIBLE');
  });

  const registrations: readonly (readonly [string, object, string])[] = [
    ['another harness as its scope', { recipientScope: 'other' }, 'NOT_VISIBLE'],
    ['the reserving harness as its scope', { recipientScope: 'planner' }, 'seen'],
    ['another sink', { sinks: ['mail'] }, 'NOT_VISIBLE'],
    ['the other role', { role: 'effect_reconciler' }, 'WORKLOAD_NOT_CURRENT role'],
    ['a revoked status', { status: 'revoked' }, 'WORKLOAD_NOT_CURRENT status'],
    ['its time over', { expiresAt: nowMicros() - 1n }, 'WORKLOAD_NOT_CURRENT expiry'],
    ['an issue in the future', { issuedAt: nowMicros() + 3_600_000_000n }, 'WORKLOAD_NOT_CURRENT issue_time'],
    ['an old revocation epoch', { revocationEpoch: 2n }, 'WORKLOAD_NOT_CURRENT revocation_epoch'],
    [
      'another certificate',
      { certificateBinding: 'certificate', certificateDigest: sha256('another') },
      'WORKLOAD_NOT_CURRENT certificate',
    ],
    [
      'this certificate',
      { certificateBinding: 'certificate', certificateDigest: EXECUTOR_B.leafDigest },
      'seen',
    ],
  ];
  test.each(registrations)('a registration with %s', async (_, over, expected) => {
    const workload = await service.workload(EXECUTOR_B, over);
    expect(await lookedAt(workload, settled, workload.registration.registrationId)).toBe(expected);
  });

  test('a standing registration ends with the setting that allows it, and all with the revocation epoch', async () => {
    const domain = { domain_id: 'acme.test' };
    await update('domains', domain, 'allow_standing = false');
    expect(await lookedAt(executor, settled)).toBe('WORKLOAD_NOT_CURRENT standing');
    await update('domains', domain, 'allow_standing = true, revocation_epoch = 3');
    expect(await lookedAt(executor, settled)).toBe('WORKLOAD_NOT_CURRENT revocation_epoch');
    await update('domains', domain, 'revocation_epoch = 1');
    expect(await lookedAt(executor, settled)).toBe('seen');
  });

  test('a workload that is nobody any more, or of another kind by now', async () => {
    const stranger: Peer = { caller: callerOf('spiffe://acme.test/executor/stranger'), kind: 'executor' };
    expect(await lookedAt(stranger, settled)).toBe('CALLER_UNKNOWN');
    const expired = { ...EXECUTOR_A, notAfter: nowMicros() - 1n };
    expect(await lookedAt({ caller: expired, kind: 'executor' }, settled)).toBe('CALLER_UNKNOWN');
    expect(await lookedAt({ caller: EXECUTOR_A, kind: 'reconciler' }, settled)).toBe('METHOD_NOT_ALLOWED');
    expect(await lookedAt({ caller: EXECUTOR_A, kind: 'worker' }, settled)).toBe('NOT_VISIBLE');
  });

  test('an executor what it started and a reconciler what it settled, whatever they are for now', async () => {
    const workload = await service.workload(EXECUTOR_A);
    const settler = await service.workload(RECONCILER);
    const unknown = await service.lose(workload);
    await service.call('reconcile', settler, await reconcileRequest(settler, unknown, 'SUCCEEDED'));
    for (const { registration } of [workload, settler]) {
      await update('registrations', { registration_id: registration.registrationId }, `sinks = '{mail}'`);
    }
    expect(await lookedAt(workload, unknown, workload.registration.registrationId)).toBe('seen');
    expect(await lookedAt(settler, unknown, settler.registration.registrationId)).toBe('seen');
    const other = await service.workload(EXECUTOR_A, { sinks: ['mail'] });
    expect(await lookedAt(other, unknown, other.registration.registrationId)).toBe('NOT_VISIBLE');
  });
});

describe('of many registrations in force none is overlooked', () => {
  const HOUR = 3_600_000_000n;
  /** More than any statement used to read. */
  const MANY = 65;
  const FLEET = callerOf('spiffe://acme.test/executor/fleet');
  const SETTLERS = callerOf('spiffe://acme.test/reconciler/settlers');

  async function register(
    caller: typeof FLEET,
    count: number,
    over: Partial<RegistrationRow>,
  ): Promise<void> {
    for (let i = 0; i < count; i += 1) await seedRegistration(service.world, caller, { sinks: [], ...over });
  }

  beforeAll(async () => {
    const rows = [FLEET, SETTLERS].map(({ spiffeId }, i) => ({
      ...{ spiffeId, kind: i === 0 ? 'executor' : 'reconciler', refId: `many-${i}` },
    }));
    await service.world.seed('callers', rows as never);
  });

  test('an executor sees the effect that one of them is for, and no other', async () => {
    const [effect, other] = [await service.reserve(), await service.reserve()];
    const fleet: Peer = { caller: FLEET, kind: 'executor' };
    const bound = (one: Effect) => ({ parentEventId: one.eventId, grantId: one.grantId });
    await register(FLEET, MANY, {
      parentEventId: 'another event',
      grantId: 'g',
      expiresAt: nowMicros() + 2n * HOUR,
    });
    expect(await lookedAt(fleet, effect)).toBe('NOT_VISIBLE');
    await register(FLEET, 1, { ...bound(effect), expiresAt: nowMicros() + HOUR });
    expect(await lookedAt(fleet, effect)).toBe('seen');
    expect(await lookedAt(fleet, other)).toBe('NOT_VISIBLE');
    // Standing for the sink, beside those that are bound and last longer.
    await register(FLEET, 1, { sinks: [other.outputSink], expiresAt: nowMicros() + HOUR });
    expect(await lookedAt(fleet, other)).toBe('seen');
  });

  test('one of the current revocation epoch, beside older ones that last longer, sees and lists', async () => {
    const settlers: Peer = { caller: SETTLERS, kind: 'reconciler' };
    const rule = async () => {
      const refused = await refusalOf(service.call('listEffects', settlers, {}));
      return [refused.reason, refused.metadata?.['rule']];
    };
    const workloadId = reconciler.registration.workloadId;
    const old = {
      workloadId,
      role: 'effect_reconciler',
      sinks: [settled.outputSink],
      revocationEpoch: 7n,
    } as const;
    await register(SETTLERS, MANY, { ...old, expiresAt: nowMicros() + 2n * HOUR });
    expect(await rule()).toEqual(['WORKLOAD_NOT_CURRENT', 'revocation_epoch']);
    await register(SETTLERS, 1, { ...old, revocationEpoch: 1n, expiresAt: nowMicros() + HOUR });
    expect(await lookedAt(settlers, settled)).toBe('seen');
    const { effects } = await service.call('listEffects', settlers, {});
    expect(effects.map(({ effectId }) => effectId)).toContain(settled.effectId);
  });

  test('of many that are bound to an event each, a list has the effects of all', async () => {
    const effect = await service.reserve();
    const settlers: Peer = { caller: SETTLERS, kind: 'reconciler' };
    await service.tamper(`UPDATE registrations SET status = 'revoked' WHERE spiffe_id = $1`, [
      SETTLERS.spiffeId,
    ]);
    const { workloadId } = reconciler.registration;
    const role = 'effect_reconciler' as const;
    const others = { parentEventId: 'another event', grantId: 'g', expiresAt: nowMicros() + 2n * HOUR };
    await register(SETTLERS, MANY, { workloadId, role, ...others });
    const bound = { parentEventId: effect.eventId, grantId: effect.grantId, expiresAt: nowMicros() + HOUR };
    await register(SETTLERS, 1, { workloadId, role, ...bound });
    const { effects } = await service.call('listEffects', settlers, {});
    expect(effects.map(({ effectId }) => effectId)).toEqual([effect.effectId]);
  });
});

describe('what is read is held against the log', () => {
  test.each([
    ['its state', `state = 'FAILED', holds_key = false`],
    ['its fence', 'fence = fence + 1000000'],
    ['its step', 'step = step + 1'],
    ['the place of its last entry', 'last_seq = last_seq - 1'],
  ])('an effect with %s changed is refused by name', async (_, set) => {
    const effect = await service.start(executor, await service.reserve());
    const { effectId } = effect;
    await update('effects', { effect_id: effectId }, set);
    for (const method of ['getEffect', 'checkRetry', 'getEffectHistory'] as const) {
      expect(await refusalOf(service.call(method, PLANNER, { effectId }))).toMatchObject({
        reason: 'DATA_CORRUPT',
        metadata: { record: `effect/${effectId}` },
      });
    }
    // Who may not see it learns nothing of that either.
    expect(await lookedAt(OTHER_HARNESS, effect)).toBe('NOT_VISIBLE');
  });

  test('a changed entry, a changed output and another output', async () => {
    const effect = await service.start(executor, await service.reserve());
    const { effectId } = effect;
    const acknowledge = await acknowledgeRequest(executor, effect, 'SUCCEEDED');
    await service.call('acknowledgeTerminal', executor, acknowledge);
    const record = `provenance:tool_output/effect-output:${effectId}/1`;
    const object = { object_id: `effect-output:${effectId}` };
    await update('provenance_records', object, 'tainted = false');
    expect((await refusalOf(service.call('getEffect', PLANNER, { effectId }))).metadata).toEqual({ record });
    await update('provenance_records', object, 'tainted = true');
    expect(await lookedAt(PLANNER, effect)).toBe('seen');
    const { outputReference } = await service.show(effectId);
    await service.tamper('UPDATE effects SET output_digest = $1 WHERE effect_id = $2', [
      sha256('another'),
      effectId,
    ]);
    expect((await refusalOf(service.call('getEffect', PLANNER, { effectId }))).reason).toBe('DATA_CORRUPT');
    await service.tamper('UPDATE effects SET output_digest = $1 WHERE effect_id = $2', [
      outputReference?.provenanceDigest,
      effectId,
    ]);
    expect(await lookedAt(PLANNER, effect)).toBe('seen');
    const entry = { effect_id: effectId, effect_step: '2' };
    await update('audit_entries', entry, FORGED_ACTOR);
    expect(await service.call('getEffect', PLANNER, { effectId })).toBeDefined();
    const history = await refusalOf(service.call('getEffectHistory', PLANNER, { effectId }));
    expect(history.reason).toBe('DATA_CORRUPT');
    expect(history.metadata?.['record']).toMatch(/^audit_entry\/acme\.test\/\d+$/);
  });
});

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Effect, EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { RetryAdvice } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { sha256 } from '../../src/ledger/encoding.js';
import type { CallerKind } from '../../src/ledger/types.js';
import { callerOf, EXECUTOR_A, EXECUTOR_B, freshId, nowMicros, RECONCILER } from '../support/effect-world.js';
import {
  acknowledgeRequest,
  type Peer,
  PLANNER,
  reconcileRequest,
  refusalOf,
  ServiceWorld,
  violationsOf,
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
  await seedOperator(OPERATOR, ['ADMIN'], 'acme.test');
  await seedOperator(AUDITOR, ['AUDITOR'], 'surety.test');
  executor = await service.workload(EXECUTOR_A);
  reconciler = await service.workload(RECONCILER);
  const unknown = await service.lose(executor);
  await service.call('reconcile', reconciler, await reconcileRequest(reconciler, unknown, 'SUCCEEDED'));
  settled = await service.show(unknown.effectId);
});
afterAll(() => service.close());

async function seedOperator({ caller }: Peer, roles: string[], domainId: string): Promise<void> {
  await service.world.admin.query(
    `INSERT INTO operators (domain_id, spiffe_id, roles, status, revision) VALUES ($1, $2, $3, 'active', 1)`,
    [domainId, caller.spiffeId, roles],
  );
}

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
    expect(await lookedAt({ caller: EXECUTOR_A, kind: 'worker' as CallerKind }, settled)).toBe('NOT_VISIBLE');
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

describe('GetEffectHistory', () => {
  test('tells the steps one by one, from 1, in pages', async () => {
    const { effectId } = settled;
    const { steps, nextPageToken } = await service.call('getEffectHistory', PLANNER, { effectId });
    expect(nextPageToken).toBe('');
    const { PREPARED, EXECUTING, UNKNOWN, SUCCEEDED, UNSPECIFIED } = EffectState;
    expect(
      steps.map(({ step, fromState, toState, source, lateEvidence }) => [
        step,
        fromState,
        toState,
        source,
        lateEvidence,
      ]),
    ).toEqual([
      [1n, UNSPECIFIED, PREPARED, StateSource.RESERVATION, false],
      [2n, PREPARED, EXECUTING, StateSource.EXECUTOR, false],
      [3n, EXECUTING, UNKNOWN, StateSource.EXECUTOR, false],
      [4n, UNKNOWN, SUCCEEDED, StateSource.RECONCILER, false],
    ]);
    const [reserved, , , reconciled] = steps;
    expect(reserved).toMatchObject({
      effectId,
      attemptId: '',
      actorSpiffeId: PLANNER.caller.spiffeId,
      outputSink: 'bank',
      fence: settled.fence,
    });
    expect(reserved?.evidenceDigest).toHaveLength(0);
    expect(reconciled).toMatchObject({
      attemptId: settled.attemptId,
      actorSpiffeId: RECONCILER.spiffeId,
      evidenceDigest: settled.evidenceDigest,
      time: settled.settleTime,
      auditPosition: settled.auditPosition,
    });
    expect(reconciled?.proofDigest).toHaveLength(32);

    const first = await service.call('getEffectHistory', AUDITOR, { effectId, pageSize: 3 });
    expect(first.steps).toEqual(steps.slice(0, 3));
    const pageToken = first.nextPageToken;
    const second = await service.call('getEffectHistory', AUDITOR, { effectId, pageSize: 3, pageToken });
    expect(second).toMatchObject({ steps: steps.slice(3), nextPageToken: '' });
    const other = await service.reserve();
    const mixed = service.call('getEffectHistory', AUDITOR, { effectId: other.effectId, pageToken });
    expect(await violationsOf(mixed)).toEqual(['page_token']);
  });

  test('never passes over a step that is missing, in the middle or at the end', async () => {
    const { effectId } = await service.lose(executor);
    // The head moves on: a lane that missed the very last entry would stop the domain.
    await service.reserve();
    const refused = () => refusalOf(service.call('getEffectHistory', PLANNER, { effectId }));
    const lost = 'DELETE FROM audit_entries WHERE effect_id = $1 AND effect_step = $2';
    await service.tamper(lost, [effectId, 2]);
    expect(await refused()).toMatchObject({
      reason: 'DATA_CORRUPT',
      metadata: { record: `effect/${effectId}/2` },
    });
    const other = await service.lose(executor);
    await service.reserve();
    await service.tamper(
      'UPDATE audit_entries SET effect_id = NULL WHERE effect_id = $1 AND effect_step = 3',
      [other.effectId],
    );
    expect(
      await refusalOf(service.call('getEffectHistory', PLANNER, { effectId: other.effectId })),
    ).toMatchObject({ reason: 'DATA_CORRUPT', metadata: { record: `effect/${other.effectId}/3` } });
    // The last one is what the row itself is held against.
    await service.tamper(lost, [effectId, 3]);
    expect(await refused()).toMatchObject({ metadata: { record: `effect/${effectId}` } });
  });

  test('shows late evidence as a step of its own', async () => {
    const unknown = await service.lose(executor);
    const { effectId } = unknown;
    const from = { fromState: 'EXECUTING' } as const;
    const late = await acknowledgeRequest(executor, unknown, 'FAILED', { statement: from });
    await refusalOf(service.call('acknowledgeTerminal', executor, late));
    const { steps } = await service.call('getEffectHistory', PLANNER, { effectId });
    expect(steps.at(-1)).toMatchObject({
      step: 4n,
      fromState: EffectState.UNKNOWN,
      toState: EffectState.UNKNOWN,
      lateEvidence: true,
    });
    expect(await service.call('checkRetry', OPERATOR, { effectId })).toMatchObject({
      advice: RetryAdvice.RECONCILE,
    });
  });

  test('refuses what is no request', async () => {
    const call = service.call('getEffectHistory', PLANNER, {
      effectId: 'e'.repeat(257),
      registrationId: 'r\n',
      pageSize: 1001,
      pageToken: 'bogus',
    });
    expect(await violationsOf(call)).toEqual(['effect_id', 'page_size', 'page_token', 'registration_id']);
    expect(await violationsOf(service.call('getEffect', PLANNER, {}))).toEqual(['effect_id']);
    expect(await violationsOf(service.call('checkRetry', PLANNER, {}))).toEqual(['effect_id']);
  });
});

describe('the largest fence', () => {
  test('2^63 − 1 goes through lane, store, log and wire unharmed', async () => {
    const { admin } = service.world;
    await admin.query('UPDATE service_state SET incarnation = 8388607');
    await admin.query(`UPDATE domain_heads SET fence_counter = 1099511627774 WHERE domain_id = 'acme.test'`);
    const effect = await service.reserve();
    expect(effect.fence).toBe(2n ** 63n - 1n);
    const { steps } = await service.call('getEffectHistory', PLANNER, { effectId: effect.effectId });
    expect(steps[0]?.fence).toBe(2n ** 63n - 1n);
    const { effects } = await service.call('listEffects', OPERATOR, { eventId: effect.eventId });
    expect(effects).toEqual([effect]);
  });
});

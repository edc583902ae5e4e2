import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { RetryAdvice } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { TransitionStatementSchema } from '../../src/gen/surety/effect/v1/proof_pb.js';
import { createSigningKey, signBytes } from '../../src/identity/sign.js';
import { timestampToMicros } from '../../src/identity/timestamp.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { MAX_REQUEST_BODY_BYTES } from '../../src/rpc/effect/reserve-request.js';
import { DOMAIN, EXECUTOR_A, EXECUTOR_B, freshId, RECONCILER, SINK } from '../support/effect-world.js';
import {
  acknowledgeRequest,
  PLANNER,
  reconcileRequest,
  refusalOf,
  ServiceWorld,
  startRequest,
  unknownRequest,
  violationsOf,
  type Workload,
} from './effect-service-world.js';

let service: ServiceWorld;
let executor: Workload;
let reconciler: Workload;

beforeAll(async () => {
  service = await ServiceWorld.open();
  executor = await service.workload(EXECUTOR_A);
  reconciler = await service.workload(RECONCILER);
});
afterAll(() => service.close());

describe('ReserveEffect', () => {
  test('tells every field that breaks a rule at once', async () => {
    const call = service.call('reserveEffect', PLANNER, {
      eventId: '',
      grantId: 'g'.repeat(257),
      action: 'a\u0000',
      resource: 'r'.repeat(513),
      inputSource: '\u2028',
      outputSink: '',
      effectKey: 'k'.repeat(257),
      request: { case: 'requestDigest', value: new Uint8Array(31) },
      reservationTtl: { seconds: 0n, nanos: 999_999_999 },
      executionDeadline: { seconds: 86_400n, nanos: 1_000 },
    });
    expect(await violationsOf(call)).toEqual([
      'action',
      'data_class',
      'effect_key',
      'event_id',
      'execution_deadline',
      'grant_id',
      'input_source',
      'output_sink',
      'request_digest',
      'reservation_ttl',
      'resource',
    ]);
  });

  test('takes a request of 512 KiB, and no byte more, and none at all neither', async () => {
    const body = (length: number) => ({ case: 'requestBody' as const, value: new Uint8Array(length) });
    const tooLong = await service.reservation({ request: body(MAX_REQUEST_BODY_BYTES + 1) });
    expect(await violationsOf(service.call('reserveEffect', PLANNER, tooLong))).toEqual(['request_body']);
    const none = await service.reservation({ request: { case: undefined } });
    expect(await violationsOf(service.call('reserveEffect', PLANNER, none))).toEqual(['request_digest']);
    const longest = await service.reservation({ request: body(MAX_REQUEST_BODY_BYTES) });
    expect(await service.call('reserveEffect', PLANNER, longest)).toMatchObject({ duplicate: false });
  });

  test('hashes a body as it is: its digest is the same request', async () => {
    const value = Buffer.from('{ "amount":  1 }\n');
    const request = await service.reservation({
      request: { case: 'requestBody', value: Uint8Array.from(value) },
      effectKey: freshId('key'),
      reservationTtl: { seconds: 60n, nanos: 0 },
    });
    const first = await service.call('reserveEffect', PLANNER, request);
    const again = await service.call('reserveEffect', PLANNER, {
      ...request,
      request: { case: 'requestDigest', value: Uint8Array.from(sha256(value)) },
    });
    expect(again).toEqual({ ...first, duplicate: true });
    expect(first).toMatchObject({ duplicate: false, currentState: EffectState.PREPARED });
    expect(first.effectId).toMatch(/^eff_[a-z2-7]{26}$/);
    expect(first.decisionId).toMatch(/^dec_[a-z2-7]{26}$/);
    expect(first.auditLeaf).toHaveLength(32);
    const effect = await service.show(first.effectId);
    expect(effect).toMatchObject({
      domainId: DOMAIN,
      eventId: request.eventId,
      grantId: request.grantId,
      outputSink: SINK,
      effectKey: request.effectKey,
      fence: first.fence,
      state: EffectState.PREPARED,
      stateSource: StateSource.RESERVATION,
      harnessId: 'planner',
      principalId: 'paula',
      guestId: '',
      holdsKey: true,
      step: 1n,
      auditPosition: first.auditPosition,
      decisionId: first.decisionId,
      startBeforeTime: first.startBeforeTime,
      effectKeyDigest: first.effectKeyDigest,
    });
    expect(Buffer.from(effect.requestDigest)).toEqual(sha256(value));
    const reserved = timestampToMicros(effect.reserveTime ?? { seconds: -1n, nanos: 0 }) ?? 0n;
    const before = timestampToMicros(effect.startBeforeTime ?? { seconds: -1n, nanos: 0 }) ?? 0n;
    expect(before - reserved).toBe(60_000_000n);
    // Nothing of a start is there yet.
    expect(effect).toMatchObject({ attemptId: '', executorRegistrationId: '', reconcilerRegistrationId: '' });
    for (const field of [
      'startTime',
      'sendWindow',
      'unknownTime',
      'settleTime',
      'outputReference',
    ] as const) {
      expect(effect[field]).toBeUndefined();
    }
  });

  test('a reworded request under the same key is refused, with the id of what is in the way', async () => {
    const request = await service.reservation({ effectKey: freshId('key') });
    const { effectId } = await service.call('reserveEffect', PLANNER, request);
    const reworded = { ...request, request: { case: 'requestBody' as const, value: new Uint8Array([1]) } };
    expect(await refusalOf(service.call('reserveEffect', PLANNER, reworded))).toMatchObject({
      reason: 'EFFECT_KEY_BUSY',
      metadata: { state: 'PREPARED', effect_id: effectId },
    });
  });
});

describe('a life, over the handlers', () => {
  test.each(['SUCCEEDED', 'FAILED', 'CANCELLED'] as const)('start, acknowledge %s, repeat', async (to) => {
    const effect = await service.reserve();
    const start = await startRequest(executor, effect);
    const started = await service.call('startExecution', executor, start);
    expect(started).toMatchObject({
      result: {
        effectId: effect.effectId,
        state: EffectState.EXECUTING,
        stateSource: StateSource.EXECUTOR,
        fence: effect.fence,
        attemptId: `attempt-of-${effect.effectId}`,
        duplicate: false,
        step: 2n,
      },
      sendWindow: { seconds: 60n, nanos: 0 },
    });
    expect(started.executionDeadlineTime).toBeDefined();
    expect(started.result?.outputReference).toBeUndefined();
    const again = await service.call('startExecution', executor, start);
    // Of the window only what is left.
    const { sendWindow } = again;
    expect(sendWindow?.seconds).toBeLessThan(60n);
    expect(again).toEqual({ ...started, sendWindow, result: { ...started.result, duplicate: true } });

    const executing = await service.show(effect.effectId);
    expect(executing).toMatchObject({
      executorRegistrationId: executor.registration.registrationId,
      executionDeadlineTime: started.executionDeadlineTime,
      sendWindow: { seconds: 60n, nanos: 0 },
      startTime: started.result?.transitionTime,
    });
    const acknowledge = await acknowledgeRequest(executor, executing, to);
    const { result } = await service.call('acknowledgeTerminal', executor, acknowledge);
    expect(result).toMatchObject({ state: EffectState[to], duplicate: false, step: 3n });
    expect(result?.outputReference).toMatchObject({
      domainId: DOMAIN,
      objectId: `effect-output:${effect.effectId}`,
      version: 1n,
    });
    expect(Buffer.from(result?.outputReference?.contentDigest ?? [])).toEqual(sha256('receipt'));
    const { result: repeated } = await service.call('acknowledgeTerminal', executor, acknowledge);
    expect(repeated).toEqual({ ...result, duplicate: true });

    const settled = await service.show(effect.effectId);
    expect(settled).toMatchObject({
      state: EffectState[to],
      stateSource: StateSource.EXECUTOR,
      outputReference: result?.outputReference,
      settleTime: result?.transitionTime,
      holdsKey: to === 'SUCCEEDED',
      auditPosition: result?.auditPosition,
      step: 3n,
    });
    const advice = to === 'SUCCEEDED' ? RetryAdvice.DONE : RetryAdvice.NEW_EVENT;
    const { effectId } = effect;
    expect(await service.call('checkRetry', PLANNER, { effectId })).toMatchObject({
      advice,
      state: settled.state,
    });
  });

  test('a lost answer is settled by a reconciler, and by nobody else', async () => {
    const unknown = await service.lose(executor);
    const { effectId } = unknown;
    expect(unknown).toMatchObject({ state: EffectState.UNKNOWN, stateSource: StateSource.EXECUTOR });
    expect(unknown.unknownTime).toBeDefined();
    expect(await service.call('checkRetry', PLANNER, { effectId })).toMatchObject({
      advice: RetryAdvice.RECONCILE,
    });
    const from = { fromState: 'EXECUTING' } as const;
    const blind = await acknowledgeRequest(executor, unknown, 'SUCCEEDED', { statement: from });
    expect(await refusalOf(service.call('acknowledgeTerminal', executor, blind))).toMatchObject({
      reason: 'EFFECT_MUST_RECONCILE',
      metadata: { state: 'UNKNOWN', late_evidence: 'kept' },
    });
    const early = await reconcileRequest(reconciler, unknown, 'FAILED');
    const tooEarly = await refusalOf(service.call('reconcile', reconciler, early));
    expect(tooEarly.reason).toBe('RECONCILE_TOO_EARLY');
    expect(tooEarly.retryAfter).toBeGreaterThan(100_000_000n);
    const request = await reconcileRequest(reconciler, unknown, 'SUCCEEDED');
    const { result } = await service.call('reconcile', reconciler, request);
    expect(result).toMatchObject({
      state: EffectState.SUCCEEDED,
      stateSource: StateSource.RECONCILER,
      duplicate: false,
      step: 5n,
    });
    const { result: repeated } = await service.call('reconcile', reconciler, request);
    expect(repeated).toEqual({ ...result, duplicate: true });
    expect(await service.show(effectId)).toMatchObject({
      lateEvidenceCount: 1,
      disputed: false,
      reconcilerRegistrationId: reconciler.registration.registrationId,
      outputReference: result?.outputReference,
    });
  });
});

describe('what a transition carries', () => {
  test('every field that breaks a rule is told at once, by its path', async () => {
    const effect = await service.reserve();
    const { evidence } = await startRequest(executor, effect, { evidence: { attemptId: 'short' } });
    const call = service.call('startExecution', executor, { effectId: '', evidence });
    expect(await violationsOf(call)).toEqual(['effect_id', 'evidence.attempt_id', 'proof']);
    const empty = service.call('startExecution', executor, {
      ...(await startRequest(executor, effect)),
      evidence: new Uint8Array(4097),
    });
    expect(await violationsOf(empty)).toEqual(['evidence']);
  });

  test('a statement that breaks a rule of its form is told by its path, once its signature verified', async () => {
    const effect = await service.reserve();
    const request = await startRequest(executor, effect);
    const { encoding } = request.proof;
    if (encoding.case !== 'jws') throw new Error('no JWS');
    const payload = Buffer.from(encoding.value.split('.')[1] ?? '', 'base64url');
    const statement = { ...fromBinary(TransitionStatementSchema, payload), nonce: 'short', fence: 0n };
    const bytes = toBinary(TransitionStatementSchema, statement);
    const value = await signBytes('transition', bytes, executor.key);
    const signed = { ...request, proof: { encoding: { case: 'jws' as const, value } } };
    expect(await violationsOf(service.call('startExecution', executor, signed))).toEqual([
      'proof.fence',
      'proof.nonce',
    ]);
    const [head, , signature] = value.split('.');
    const changed = [head, payload.toString('base64url'), signature].join('.');
    const forged = { ...request, proof: { encoding: { case: 'jws' as const, value: changed } } };
    expect(await refusalOf(service.call('startExecution', executor, forged))).toMatchObject({
      reason: 'PROOF_SIGNATURE_INVALID',
      metadata: { rule: 'signature', field: 'proof.jws' },
    });
  });

  test('a signature of another key, and one that nobody has registered, prove nothing', async () => {
    const effect = await service.reserve();
    const stranger = await startRequest(executor, effect, { key: createSigningKey() });
    expect(await refusalOf(service.call('startExecution', executor, stranger))).toMatchObject({
      reason: 'PROOF_SIGNATURE_INVALID',
      metadata: { rule: 'key', field: 'proof.jws' },
    });
    const other = await service.workload(EXECUTOR_B);
    const foreign = await startRequest(executor, effect, { key: other.key });
    expect(await refusalOf(service.call('startExecution', executor, foreign))).toMatchObject({
      reason: 'PROOF_BINDING_MISMATCH',
      metadata: { field: 'kid' },
    });
    expect(await service.show(effect.effectId)).toMatchObject({ state: EffectState.PREPARED });
  });

  test('a DSSE envelope is as good as a JWS', async () => {
    const effect = await service.reserve();
    const request = await startRequest(executor, effect, { encoding: 'dsse' });
    const { result } = await service.call('startExecution', executor, request);
    expect(result).toMatchObject({ state: EffectState.EXECUTING, duplicate: false });
    const { encoding } = request.proof;
    if (encoding.case !== 'dsse') throw new Error('not DSSE');
    encoding.value.signature = Uint8Array.from([...encoding.value.signature.slice(0, -1), 0]);
    const refused = await refusalOf(service.call('startExecution', executor, request));
    expect(refused).toMatchObject({ reason: 'PROOF_SIGNATURE_INVALID', metadata: { field: 'proof.dsse' } });
  });

  test('a spent nonce in another statement is a replay, and spends nothing', async () => {
    const nonce = freshId('nonce');
    const first = await service.start(executor, await service.reserve());
    await service.call(
      'acknowledgeTerminal',
      executor,
      await acknowledgeRequest(executor, first, 'SUCCEEDED', { statement: { nonce } }),
    );
    const second = await service.start(executor, await service.reserve());
    const replay = await unknownRequest(executor, second, { statement: { nonce } });
    expect(await refusalOf(service.call('markUnknown', executor, replay))).toMatchObject({
      reason: 'PROOF_REPLAYED',
    });
    expect(await service.show(second.effectId)).toMatchObject({ state: EffectState.EXECUTING, step: 2n });
  });

  test('a stored key that is not the one of its name is named, and verifies nothing', async () => {
    const workload = await service.workload(EXECUTOR_A);
    const { proofKeyThumbprint } = workload.registration;
    await service.tamper('UPDATE proof_keys SET public_jwk = $1 WHERE thumbprint = $2', [
      createSigningKey().publicKey.jwk,
      proofKeyThumbprint,
    ]);
    const request = await startRequest(workload, await service.reserve());
    expect(await refusalOf(service.call('startExecution', workload, request))).toMatchObject({
      reason: 'DATA_CORRUPT',
      metadata: { record: `proof_key/${proofKeyThumbprint}` },
    });
  });
});

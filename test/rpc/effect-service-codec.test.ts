import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { EffectState, StateSource } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { ReserveEffectRequestSchema } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { Refused } from '../../src/ledger/run-decision.js';
import type { StateSource as Source } from '../../src/ledger/types.js';
import {
  wireEffect,
  wireReservation,
  wireStart,
  wireTransition,
} from '../../src/rpc/effect/encode-effect.js';
import { readReservation } from '../../src/rpc/effect/reserve-request.js';
import { callerOf } from '../support/effect-world.js';
import { contextOf } from '../support/handlers.js';

const FENCE = 2n ** 53n + 1n;

/** A guest's effect, started and not yet settled; each number is another one. */
const ROW: EffectRow = {
  effectId: 'eff-1',
  identityDigest: sha256('identity'),
  eventId: 'event-1',
  sink: 'bank',
  requestDigest: sha256('request'),
  actorKind: 'guest',
  actorId: 'gus',
  harnessId: 'planner',
  assurance: 'attested',
  credentialEpoch: 1n,
  grantId: 'grant-1',
  action: 'refund',
  resource: 'order-1184',
  inputSource: 'crm',
  dataClass: 3,
  effectKey: '',
  keyDigest: sha256('key'),
  holdsKey: true,
  repeatable: true,
  reservationTtl: null,
  executionDeadline: null,
  startBefore: 2_000_000_000_123_456n,
  policyRevision: 7n,
  decisionId: 'dec-1',
  fence: FENCE,
  state: 'EXECUTING',
  stateSource: 'executor',
  reservedAt: 1_000_000_000_000_001n,
  reserveSeq: 11n,
  reserveLeaf: sha256('reserved'),
  attemptId: 'attempt-1',
  executorRegistrationId: 'reg-1',
  executorSessionId: 'session-1',
  executorProcessId: '4711',
  executorProcessStart: 5n,
  startedAt: 1_000_000_001_000_000n,
  lostAt: 1_000_000_901_000_000n,
  sendWindow: 1_500_001n,
  unknownAt: null,
  settledAt: null,
  reconcilerRegistrationId: null,
  evidenceDigest: sha256('evidence'),
  stateAt: 1_000_000_001_000_000n,
  outputDigest: null,
  disputed: false,
  lateEvidenceCount: 0,
  step: 3n,
  lastSeq: 14n,
  stateStep: 2n,
  stateSeq: 13n,
  stateLeaf: sha256('state'),
};

describe('an effect on the wire', () => {
  test('keeps every microsecond, every digit of a fence, and says whose it is', () => {
    const effect = wireEffect('acme.test', ROW, undefined);
    expect(effect).toMatchObject({
      domainId: 'acme.test',
      fence: FENCE,
      principalId: '',
      guestId: 'gus',
      dataClass: 3,
      repeatable: true,
      reserveTime: { seconds: 1_000_000_000n, nanos: 1_000 },
      startBeforeTime: { seconds: 2_000_000_000n, nanos: 123_456_000 },
      startTime: { seconds: 1_000_000_001n, nanos: 0 },
      executionDeadlineTime: { seconds: 1_000_000_901n, nanos: 0 },
      sendWindow: { seconds: 1n, nanos: 500_001_000 },
      reconcilerRegistrationId: '',
      step: 3n,
      auditPosition: 14n,
    });
    expect(effect).not.toHaveProperty('unknownTime');
    expect(effect).not.toHaveProperty('settleTime');
    expect(effect).not.toHaveProperty('outputReference');
  });

  test("a transition's result is of the step that led to the state, not of later evidence", () => {
    expect(wireTransition('acme.test', { effect: ROW, duplicate: true })).toMatchObject({
      step: 2n,
      auditPosition: 13n,
      auditLeaf: Uint8Array.from(ROW.stateLeaf),
      duplicate: true,
    });
    const start = { effect: ROW, duplicate: true };
    expect(wireStart('acme.test', { ...start, sendWindow: 1_200_001n })).toMatchObject({
      sendWindow: { seconds: 1n, nanos: 200_001_000 },
      executionDeadlineTime: { seconds: 1_000_000_901n, nanos: 0 },
    });
    // Nothing may be sent any more: told, not left out.
    expect(wireStart('acme.test', { ...start, sendWindow: 0n })).toMatchObject({
      sendWindow: { seconds: 0n, nanos: 0 },
    });
  });

  test("a reservation's reply is of its own entry, with the state that the effect is in now", () => {
    expect(wireReservation({ effect: ROW, duplicate: true, currentState: 'EXECUTING' })).toMatchObject({
      auditPosition: 11n,
      auditLeaf: Uint8Array.from(ROW.reserveLeaf),
      currentState: EffectState.EXECUTING,
    });
  });

  test.each<[Source, StateSource]>([
    ['reservation', StateSource.RESERVATION],
    ['executor', StateSource.EXECUTOR],
    ['reconciler', StateSource.RECONCILER],
    ['actor', StateSource.ACTOR],
    ['expiry', StateSource.EXPIRY],
    ['executor_lost', StateSource.EXECUTOR_LOST],
    ['restore', StateSource.RESTORE],
  ])('source %s', (stateSource, expected) => {
    expect(wireEffect('acme.test', { ...ROW, stateSource }, undefined).stateSource).toBe(expected);
  });
});

describe('a request to reserve', () => {
  type Init = MessageInitShape<typeof ReserveEffectRequestSchema>;
  const GOOD: Init = {
    eventId: 'e',
    grantId: 'g',
    action: 'a',
    resource: 'r',
    inputSource: 'i',
    outputSink: 's',
    dataClass: 1,
    request: { case: 'requestDigest', value: new Uint8Array(32) },
  };

  /** What is read, or the fields that break rules. */
  function read(over: Init) {
    const ids: string[] = [];
    const tools = { newId: (prefix: string) => `${prefix}_${ids.push(prefix)}` };
    const context = contextOf(callerOf('spiffe://acme.test/harness/planner'), 'harness');
    try {
      return readReservation(
        tools,
        create(ReserveEffectRequestSchema, { ...GOOD, ...over } as Init),
        context,
      );
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return error.refusal.violations?.map(({ field }) => field);
    }
  }

  test('mints the ids, and leaves out what was not said', () => {
    expect(read({})).toMatchObject({
      domainId: 'acme.test',
      effectId: 'eff_1',
      decisionId: 'dec_2',
      effectKey: '',
      repeatable: false,
      reservationTtl: null,
      executionDeadline: null,
    });
  });

  test.each<[keyof Init & string, string, number]>([
    ['eventId', 'event_id', 256],
    ['grantId', 'grant_id', 256],
    ['action', 'action', 256],
    ['resource', 'resource', 512],
    ['inputSource', 'input_source', 256],
    ['outputSink', 'output_sink', 256],
    ['effectKey', 'effect_key', 256],
  ])('%s is at most so many octets of UTF-8', (name, path, most) => {
    expect(read({ [name]: 'ä'.repeat(most / 2) })).toHaveProperty('effectId');
    expect(read({ [name]: `${'ä'.repeat(most / 2)}x` })).toEqual([path]);
    expect(read({ [name]: 'a\u2029b' })).toEqual([path]);
    expect(read({ [name]: '' })).toEqual(
      name === 'effectKey' ? expect.objectContaining({ effectKey: '' }) : [path],
    );
  });

  test.each<[keyof Init & string, string]>([
    ['reservationTtl', 'reservation_ttl'],
    ['executionDeadline', 'execution_deadline'],
  ])('%s is 1 s to 24 h', (name, path) => {
    const span = (micros: bigint) =>
      read({ [name]: { seconds: micros / 1_000_000n, nanos: Number(micros % 1_000_000n) * 1000 } });
    expect(span(1_000_000n)).toMatchObject({ [name]: 1_000_000n });
    expect(span(86_400_000_000n)).toMatchObject({ [name]: 86_400_000_000n });
    expect(span(999_999n)).toEqual([path]);
    expect(span(86_400_000_001n)).toEqual([path]);
    expect(span(0n)).toEqual([path]);
  });
});

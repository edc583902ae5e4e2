import { create, toBinary } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  ReconciliationEvidenceSchema,
  UncertaintyEvidenceSchema,
} from '../../src/gen/surety/effect/v1/evidence_pb.js';
import { Refused } from '../../src/ledger/run-decision.js';
import { decodeEvidence } from '../../src/rpc/evidence.js';
import { Violations } from '../../src/rpc/validate.js';

// Every rule of a field stands in testvectors/evidence.json, which test/identity/testvectors.test.ts holds.

test('evidence becomes plain fields', () => {
  const bytes = toBinary(
    ReconciliationEvidenceSchema,
    create(ReconciliationEvidenceSchema, {
      attemptId: 'attempt-00000001',
      authoritySystemId: 'bank',
      queryId: 'query-01',
      queryResponseDigest: new Uint8Array(32).fill(9),
      observedTime: { seconds: 1_790_000_050n, nanos: 1_999 },
      terminalState: EffectState.FAILED,
    }),
  );
  expect(decodeEvidence('reconciliation', bytes).fields).toEqual({
    attemptId: 'attempt-00000001',
    authoritySystemId: 'bank',
    queryId: 'query-01',
    queryResponseDigest: Buffer.alloc(32, 9),
    observedAt: 1_790_000_050_000_001n,
    terminalState: 'FAILED',
  });
});

test('what is kept is a copy: bytes that change afterwards change nothing', () => {
  const bytes = toBinary(
    UncertaintyEvidenceSchema,
    create(UncertaintyEvidenceSchema, {
      attemptId: 'attempt-00000001',
      reason: 1,
      observationDigest: new Uint8Array(32).fill(9),
      observedTime: { seconds: 1_790_000_050n },
    }),
  );
  const sent = Buffer.from(bytes);
  const evidence = decodeEvidence('uncertainty', sent);
  sent.fill(0);
  expect(evidence.bytes).toEqual(Buffer.from(bytes));
  expect(evidence.fields.observationDigest).toEqual(Buffer.alloc(32, 9));
  expect(evidence.fields.reason).toBe('TIMEOUT');
});

test('what is wrong with it is told together with what is wrong with the rest of the request', () => {
  const violations = new Violations();
  violations.id('effect_id', '', 1, 256);
  let refused: unknown;
  try {
    decodeEvidence('execution', Buffer.of(0x0a, 1, 0x61), violations);
  } catch (error) {
    refused = error;
  }
  expect(refused).toBeInstanceOf(Refused);
  expect((refused as Refused).refusal.violations?.map(({ field }) => field)).toEqual([
    'effect_id',
    'evidence.attempt_id',
    'evidence.executor_instance_id',
    'evidence.request_digest',
    'evidence.start_time',
  ]);
});

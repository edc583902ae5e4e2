import { fromBinary } from '@bufbuild/protobuf';
import { anyUnpack, type Any } from '@bufbuild/protobuf/wkt';
import { status as grpcCode } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import {
  BadRequestSchema,
  ErrorInfoSchema,
  PreconditionFailureSchema,
  QuotaFailureSchema,
  ResourceInfoSchema,
  RetryInfoSchema,
} from '../../src/gen/google/rpc/error_details_pb.js';
import { Code } from '../../src/gen/google/rpc/code_pb.js';
import { type Status, StatusSchema } from '../../src/gen/google/rpc/status_pb.js';
import { ReasonSchema } from '../../src/gen/surety/error/v1/reason_pb.js';
import { CertificateRejected } from '../../src/identity/certificate-rejected.js';
import { SignedMessageError } from '../../src/identity/signed-message-error.js';
import { type Reason, refusal } from '../../src/ledger/refusal.js';
import { Refused } from '../../src/ledger/run-decision.js';
import {
  CODES,
  grpcStatus,
  internalRefusal,
  refusalOf,
  STATUS_DETAILS_KEY,
  statusOf,
} from '../../src/rpc/status.js';
import { StoreError } from '../../src/store/store-error.js';
import { MAX_DETAILS_BYTES } from '../../src/rpc/status-details.js';

function detail<T extends Parameters<typeof anyUnpack>[1]>(status: Status, schema: T) {
  const found = status.details.find((any: Any) => any.typeUrl.endsWith(`/${schema.typeName}`));
  return found && anyUnpack(found, schema);
}

const errorInfo = (status: Status) => detail(status, ErrorInfoSchema) as { metadata: Record<string, string> };

const REASONS = ReasonSchema.values.filter(({ number }) => number !== 0);

describe('the map of reasons', () => {
  it('has exactly the reasons of the contract', () => {
    const contract = REASONS.map(({ name }) => name.replace(/^REASON_/, '')).sort();
    expect(Object.keys(CODES).sort()).toEqual(contract);
  });

  it('gives each range of the contract one code, and never OK, UNKNOWN or UNIMPLEMENTED', () => {
    const expected = (number: number): Code => {
      if (number < 10) return Code.INVALID_ARGUMENT;
      if (number < 30) return Code.UNAUTHENTICATED;
      if (number < 100) return Code.PERMISSION_DENIED;
      if (number < 140) return Code.ALREADY_EXISTS;
      if (number < 180) return Code.FAILED_PRECONDITION;
      if (number < 200) return Code.ABORTED;
      if (number < 220) return Code.RESOURCE_EXHAUSTED;
      if (number < 224) return Code.UNAVAILABLE;
      if (number === 224) return Code.DEADLINE_EXCEEDED;
      if (number < 240) return Code.UNAVAILABLE;
      return number === 240 ? Code.DATA_LOSS : Code.INTERNAL;
    };
    for (const { name, number } of REASONS) {
      expect(CODES[name.replace(/^REASON_/, '') as Reason], name).toBe(expected(number));
    }
  });

  it('uses the numbers that gRPC uses', () => {
    for (const code of new Set(Object.values(CODES))) expect(grpcCode[code]).toBe(Code[code]);
  });
});

describe('details', () => {
  it('always begin with one ErrorInfo of the domain surety', () => {
    for (const reason of Object.keys(CODES) as Reason[]) {
      const status = statusOf(refusal(reason, 'why', { metadata: { rule: 'x' } }));
      expect(status.code).toBe(CODES[reason]);
      const first = status.details[0] as Any;
      expect(anyUnpack(first, ErrorInfoSchema)).toMatchObject({
        reason,
        domain: 'surety',
        metadata: { rule: 'x' },
      });
    }
  });

  it('name every violation at once', () => {
    const violations = [
      { field: 'event_id', rule: 'must be 1 to 256 octets of UTF-8' },
      { field: 'data_class', rule: 'must be set' },
    ];
    const status = statusOf(refusal('FIELD_INVALID', 'Two fields.', { violations }));
    expect(detail(status, BadRequestSchema)).toMatchObject({
      fieldViolations: violations.map(({ field, rule }) => ({ field, description: rule })),
    });
  });

  it('say when to come back, as given or by default', () => {
    const given = statusOf(refusal('RECONCILE_TOO_EARLY', 'Later.', { retryAfter: 61_500_000n }));
    expect(detail(given, RetryInfoSchema)).toMatchObject({
      retryDelay: { seconds: 61n, nanos: 500_000_000 },
    });
    expect(detail(statusOf(refusal('BACKPRESSURE', 'Full.')), RetryInfoSchema)).toMatchObject({
      retryDelay: { seconds: 1n },
    });
    expect(detail(statusOf(refusal('STORE_REGRESSED', 'Stopped.')), RetryInfoSchema)).toBeUndefined();
    // Promised for the reason, but no waiting helps here.
    const never = statusOf(refusal('QUOTA_EXHAUSTED', 'Too many hops.', { retryAfter: 'never' }));
    expect(detail(never, RetryInfoSchema)).toBeUndefined();
    const past = statusOf(refusal('OUTCOME_UNKNOWN', 'Repeat.', { retryAfter: -5n }));
    expect(detail(past, RetryInfoSchema)).toMatchObject({ retryDelay: { seconds: 0n, nanos: 0 } });
  });

  it('name what is in the way', () => {
    const resource = { type: 'effect', name: 'eff_1' };
    const exists = statusOf(refusal('EFFECT_IDENTITY_CONFLICT', 'Other content.', { resource }));
    expect(detail(exists, ResourceInfoSchema)).toMatchObject({
      resourceType: 'effect',
      resourceName: 'eff_1',
    });
    const state = statusOf(
      refusal('EFFECT_STATE_CONFLICT', 'Not now.', { resource, metadata: { state: 'EXECUTING' } }),
    );
    expect(detail(state, PreconditionFailureSchema)).toMatchObject({
      violations: [{ type: 'EFFECT_STATE_CONFLICT', subject: 'effect/eff_1', description: 'EXECUTING' }],
    });
    const quota = statusOf(
      refusal('QUOTA_EXHAUSTED', 'Used up.', { resource: { type: 'caller', name: 'a' } }),
    );
    expect(detail(quota, QuotaFailureSchema)).toMatchObject({ violations: [{ subject: 'caller/a' }] });
    expect(detail(quota, RetryInfoSchema)).toBeDefined();
  });

  it.each([1, 30, 31, 40, 300])(
    'stay below 4 KiB with %d violations, and say how many were dropped',
    (count) => {
      const violations = Array.from({ length: count }, (_, index) => ({
        field: `recipient_harness_ids[${index}]`,
        rule: 'must be 1 to 256 octets of UTF-8 and must not hold control characters',
      }));
      const status = statusOf(refusal('FIELD_INVALID', 'Many fields.', { violations }));
      const bytes = bytesOf(refusal('FIELD_INVALID', 'Many fields.', { violations }));
      expect(bytes.length).toBeLessThanOrEqual(MAX_DETAILS_BYTES);
      const kept = (detail(status, BadRequestSchema) as { fieldViolations: unknown[] }).fieldViolations
        .length;
      const dropped = errorInfo(status).metadata['violations_dropped'];
      expect(kept + Number(dropped ?? 0)).toBe(count);
      // One more would not have fitted.
      if (dropped !== undefined) expect(bytes.length).toBeGreaterThan(MAX_DETAILS_BYTES - 400);
    },
  );

  it('stay below 4 KiB whatever is in them, with ErrorInfo last to go', () => {
    const long = 'ü'.repeat(5_000);
    const metadata = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`key${index}`, long]));
    const refused = refusal('EFFECT_STATE_CONFLICT', long, {
      metadata,
      resource: { type: long, name: long },
      violations: [{ field: long, rule: long }],
      retryAfter: 1n,
    });
    expect(bytesOf(refused).length).toBeLessThanOrEqual(MAX_DETAILS_BYTES);
    expect(errorInfo(statusOf(refused)).metadata['key0']).toMatch(/^ü+…$/);
  });

  it('replace what grpc-js cannot send', () => {
    const { details } = grpcStatus(refusal('NOT_VISIBLE', 'a\ud800b'));
    expect(details).toBe('a\ufffdb');
    expect(() => encodeURI(details)).not.toThrow();
  });
});

describe('thrown errors', () => {
  it('are refusals where they are ours', () => {
    const inner = refusal('FROZEN', 'Frozen.');
    expect(refusalOf(new Refused(inner))).toBe(inner);
    expect(refusalOf(new CertificateRejected('REVOKED'))).toMatchObject({
      reason: 'CERTIFICATE_REJECTED',
      metadata: { rule: 'REVOKED' },
    });
    expect(
      refusalOf(SignedMessageError.unverified('PROOF_SIGNATURE_INVALID', 'header', 'Other typ.')),
    ).toMatchObject({
      reason: 'PROOF_SIGNATURE_INVALID',
      metadata: { rule: 'header' },
    });
    expect(refusalOf(new StoreError('not_done', true, '57P01'))?.reason).toBe('STORE_UNAVAILABLE');
    const violations = [{ field: 'proof.nonce', rule: 'must be set' }];
    expect(refusalOf(SignedMessageError.invalid(violations))).toMatchObject({
      reason: 'FIELD_INVALID',
      violations,
    });
  });

  it('are bugs otherwise, and tell nothing but an id', () => {
    expect(refusalOf(new Error('password authentication failed for user "surety"'))).toBeUndefined();
    expect(refusalOf(new StoreError('not_done', false, '42703'))).toBeUndefined();
    expect(refusalOf('text')).toBeUndefined();
    const status = statusOf(internalRefusal('req_abc'));
    expect(status.code).toBe(Code.INTERNAL);
    expect(errorInfo(status).metadata).toEqual({ id: 'req_abc' });
  });
});

function bytesOf(refused: Parameters<typeof grpcStatus>[0]): Buffer {
  const [bytes] = grpcStatus(refused).metadata?.get(STATUS_DETAILS_KEY) ?? [];
  expect(fromBinary(StatusSchema, bytes as Buffer).code).toBe(CODES[refused.reason]);
  return bytes as Buffer;
}

import { create, type DescMessage, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { type Any, anyPack, type Duration, DurationSchema } from '@bufbuild/protobuf/wkt';
import { Code } from '../gen/google/rpc/code_pb.js';
import {
  BadRequestSchema,
  ErrorInfoSchema,
  PreconditionFailureSchema,
  QuotaFailureSchema,
  ResourceInfoSchema,
  RetryInfoSchema,
} from '../gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../gen/google/rpc/status_pb.js';
import type { FieldViolation, Reason, Refusal } from '../ledger/refusal.js';

/** `ErrorInfo.domain` of every error. */
export const ERROR_DOMAIN = 'surety';

/** More than 8 KB of metadata turn INVALID_ARGUMENT into RESOURCE_EXHAUSTED in Python, and base64 adds a third. */
export const MAX_DETAILS_BYTES = 4096;

/** An id is at most this long, a rule or a path far shorter; more of it would push out other details. */
const MAX_TEXT_OCTETS = 256;

/** The most that any reason documents is two; with the text limit ErrorInfo alone always fits. */
const MAX_METADATA = 8;

/** When to come back, where a reason asks for it and the refusal does not say: longer than a batch, short for people. */
const DEFAULT_RETRY_MICROS = 1_000_000n;

/** The reasons whose contract promises RetryInfo (reason.proto). */
const ALWAYS_RETRY: ReadonlySet<Reason> = new Set<Reason>([
  'BACKPRESSURE',
  'QUOTA_EXHAUSTED',
  'FAIRNESS_HOLD',
  'UNKNOWN_CEILING',
  'STORE_UNAVAILABLE',
  'OUTCOME_UNKNOWN',
  'DRAINING',
  'CIRCUIT_OPEN',
]);

/** The reasons whose contract promises QuotaFailure. */
const QUOTA_REASONS: ReadonlySet<Reason> = new Set<Reason>([
  'QUOTA_EXHAUSTED',
  'FAIRNESS_HOLD',
  'UNKNOWN_CEILING',
]);

/** What goes into the details of an error. */
export interface ErrorDetails {
  readonly reason: Reason;
  readonly metadata: Readonly<Record<string, string>>;
  /** RetryInfo, ResourceInfo, PreconditionFailure, QuotaFailure. */
  readonly others: readonly Any[];
  readonly violations: readonly FieldViolation[];
}

/** What a refusal has to tell besides its code and message (api.md, Errors). */
export function errorDetails(refused: Refusal, code: Code): ErrorDetails {
  const metadata = Object.entries(refused.metadata ?? {}).slice(0, MAX_METADATA);
  return {
    reason: refused.reason,
    metadata: Object.fromEntries(metadata.map(([key, value]) => [key, clean(value)])),
    others: [...retryInfo(refused), ...resourceInfo(refused, code), ...failures(refused, code)],
    violations: (refused.violations ?? []).map(({ field, rule }) => ({
      field: clean(field),
      rule: clean(rule),
    })),
  };
}

/**
 * The details that fit {@link MAX_DETAILS_BYTES} together with the message. ErrorInfo is always there; violations that
 * do not fit are dropped, and its metadata `violations_dropped` says how many.
 */
export function fitDetails(message: string, details: ErrorDetails): Any[] {
  const fits = (count: number): boolean => sizeOf(message, packed(details, count)) <= MAX_DETAILS_BYTES;
  const { length } = details.violations;
  if (fits(length)) return packed(details, length);
  if (!fits(0)) return [errorInfo(details, length)];
  let [enough, tooMany] = [0, length];
  while (tooMany - enough > 1) {
    const middle = Math.floor((enough + tooMany) / 2);
    if (fits(middle)) enough = middle;
    else tooMany = middle;
  }
  return packed(details, enough);
}

/** Replaces lone surrogates, which grpc-js cannot encode: it would throw out of the call. */
export function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd');
}

/** Cuts a text to a number of octets of UTF-8, at a character, with an ellipsis. */
export function shorten(text: string, maxOctets: number): string {
  if (Buffer.byteLength(text) <= maxOctets) return text;
  const ellipsis = '…';
  const cut = Buffer.from(text).subarray(0, maxOctets - Buffer.byteLength(ellipsis));
  return `${cut.toString('utf8').replace(/\ufffd+$/, '')}${ellipsis}`;
}

function clean(text: string): string {
  return shorten(wellFormed(text), MAX_TEXT_OCTETS);
}

function packed(details: ErrorDetails, violationCount: number): Any[] {
  const fieldViolations = details.violations
    .slice(0, violationCount)
    .map(({ field, rule }) => ({ field, description: rule }));
  const dropped = details.violations.length - violationCount;
  const badRequest = fieldViolations.length === 0 ? [] : [pack(BadRequestSchema, { fieldViolations })];
  return [errorInfo(details, dropped), ...details.others, ...badRequest];
}

function errorInfo({ reason, metadata }: ErrorDetails, dropped: number): Any {
  const all = dropped === 0 ? metadata : { ...metadata, violations_dropped: String(dropped) };
  return pack(ErrorInfoSchema, { reason, domain: ERROR_DOMAIN, metadata: all });
}

function retryInfo({ reason, retryAfter }: Refusal): Any[] {
  if (retryAfter === 'never') return [];
  const micros = retryAfter ?? (ALWAYS_RETRY.has(reason) ? DEFAULT_RETRY_MICROS : undefined);
  return micros === undefined
    ? []
    : [pack(RetryInfoSchema, { retryDelay: durationOf(micros < 0n ? 0n : micros) })];
}

function resourceInfo({ resource, message }: Refusal, code: Code): Any[] {
  if (resource === undefined || code !== Code.ALREADY_EXISTS) return [];
  const { type, name } = resource;
  return [
    pack(ResourceInfoSchema, {
      resourceType: clean(type),
      resourceName: clean(name),
      description: clean(message),
    }),
  ];
}

function failures({ reason, message, resource, metadata }: Refusal, code: Code): Any[] {
  const subject = resource === undefined ? '' : clean(`${resource.type}/${resource.name}`);
  if (code === Code.FAILED_PRECONDITION) {
    // The state found is what a caller acts on; the message is for people.
    const description = clean(metadata?.['state'] ?? message);
    return [pack(PreconditionFailureSchema, { violations: [{ type: reason, subject, description }] })];
  }
  if (QUOTA_REASONS.has(reason)) {
    return [pack(QuotaFailureSchema, { violations: [{ subject, description: clean(message) }] })];
  }
  return [];
}

function durationOf(micros: bigint): Duration {
  const seconds = micros / 1_000_000n;
  return create(DurationSchema, { seconds, nanos: Number(micros % 1_000_000n) * 1000 });
}

function pack<Schema extends DescMessage>(schema: Schema, init: MessageInitShape<Schema>): Any {
  return anyPack(schema, create(schema, init));
}

function sizeOf(message: string, details: Any[]): number {
  // The code is one byte and its tag another, whichever it is.
  return toBinary(StatusSchema, create(StatusSchema, { code: Code.INTERNAL, message, details })).length;
}

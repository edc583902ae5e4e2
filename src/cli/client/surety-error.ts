import { fromBinary } from '@bufbuild/protobuf';
import { anyUnpack } from '@bufbuild/protobuf/wkt';
import { type ServiceError, status } from '@grpc/grpc-js';
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from '../../gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../gen/google/rpc/status_pb.js';
import { noAnswerSentence } from './no-answer.js';

/** An error of the service as a program reads it: by its reason, not by its text. */
export class SuretyError extends Error {
  override readonly name = 'SuretyError';

  constructor(
    /** The gRPC code's name, for example `FAILED_PRECONDITION`. */
    readonly code: string,
    /** The reason of `google.rpc.ErrorInfo`, for example `EFFECT_KEY_BUSY`; empty where the service did not answer. */
    readonly reason: string,
    message: string,
    readonly metadata: Readonly<Record<string, string>>,
    /** Violations of FIELD_INVALID. */
    readonly violations: readonly { readonly field: string; readonly description: string }[],
    /** When to come back, in milliseconds, where the service says so. */
    readonly retryAfterMs: number | undefined,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/**
 * Reads the details of a failed call; one that the service did not answer gets a sentence of ours.
 *
 * @param target `host:port` that was called
 */
export function suretyError(error: ServiceError, target = 'the service'): SuretyError {
  const code = status[error.code] ?? 'UNKNOWN';
  const bytes = error.metadata?.get('grpc-status-details-bin')[0];
  const details = Buffer.isBuffer(bytes) ? fromBinary(StatusSchema, bytes).details : [];
  let reason = '';
  let metadata: Record<string, string> = {};
  let violations: { field: string; description: string }[] = [];
  let retryAfterMs: number | undefined;
  for (const any of details) {
    const info = anyUnpack(any, ErrorInfoSchema);
    if (info) ({ reason, metadata } = info);
    const bad = anyUnpack(any, BadRequestSchema);
    if (bad) violations = bad.fieldViolations.map(({ field, description }) => ({ field, description }));
    const delay = anyUnpack(any, RetryInfoSchema)?.retryDelay;
    if (delay) retryAfterMs = Number(delay.seconds) * 1000 + delay.nanos / 1_000_000;
  }
  const message =
    (details.length === 0 ? noAnswerSentence(code, error.details, target) : undefined) ?? error.details;
  return new SuretyError(code, reason, message, metadata, violations, retryAfterMs, { cause: error });
}

import type { Micros } from '../ledger/types.js';

/** 9999-12-31T23:59:59Z: the last second that `google.protobuf.Timestamp` allows. */
const MAX_SECONDS = 253_402_300_799n;
const MAX_NANOS = 999_999_999;

/** The two fields of `google.protobuf.Timestamp`. */
export interface TimestampFields {
  readonly seconds: bigint;
  readonly nanos: number;
}

/**
 * Turns a `google.protobuf.Timestamp` into microseconds since the epoch.
 *
 * Go and Java clocks give nanoseconds, so digits below a microsecond are cut off, not refused; whoever compares two
 * times compares the cut ones. The signed bytes keep them.
 *
 * @returns undefined outside of 1970-01-01T00:00:00Z to 9999-12-31T23:59:59.999999999Z, or with nanos outside of a second
 */
export function timestampToMicros(timestamp: TimestampFields): Micros | undefined {
  const { seconds, nanos } = timestamp;
  if (seconds < 0n || seconds > MAX_SECONDS || nanos < 0 || nanos > MAX_NANOS) return undefined;
  return seconds * 1_000_000n + BigInt(Math.trunc(nanos / 1000));
}

/**
 * Turns microseconds since the epoch into the fields of a `google.protobuf.Timestamp`.
 *
 * @throws {RangeError} outside of the range that {@link timestampToMicros} takes
 */
export function microsToTimestamp(micros: Micros): TimestampFields {
  const seconds = micros / 1_000_000n;
  if (micros < 0n || seconds > MAX_SECONDS) throw new RangeError('time outside of 1970 to 9999');
  return { seconds, nanos: Number(micros % 1_000_000n) * 1000 };
}

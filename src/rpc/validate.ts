import { DataClass as WireDataClass } from '../gen/surety/provenance/v1/record_pb.js';
import { timestampToMicros } from '../identity/timestamp.js';
import { type FieldViolation, refusal } from '../ledger/refusal.js';
import { Refused } from '../ledger/run-decision.js';
import { checkIdText, describeTextFault } from '../ledger/text.js';
import { type DataClass, type Digest, type Micros, SECOND } from '../ledger/types.js';

/** A page holds at most so many records: an old snapshot slows the domain's row for everybody (architecture.md). */
export const MAX_PAGE_SIZE = 1000;
/** What a page size of 0 means. */
export const DEFAULT_PAGE_SIZE = 100;

const DIGEST_BYTES = 32;
const NO_DIGEST: Digest = Buffer.alloc(DIGEST_BYTES);
/** A request that is wrong everywhere would otherwise be answered with more than a client takes (architecture.md, grpc-js). */
const MAX_VIOLATIONS = 32;
const NANOS_PER_MICRO = 1000;
const MAX_NANOS = 999_999_999;

/** The two fields of `google.protobuf.Timestamp` and `google.protobuf.Duration`. */
export interface TimeFields {
  readonly seconds: bigint;
  readonly nanos: number;
}

/**
 * Reads the fields of one request and gathers every rule that they break, so that a caller learns all of them at once
 * (api.md, Errors). A value that breaks a rule reads as an empty one of its type: use what was read only behind
 * `throwIfAny`. Optional fields are absent where they have their default.
 */
export class Violations {
  private readonly found: FieldViolation[];

  /** @param prefix path of the message within the request; empty for the request itself */
  constructor(
    private readonly prefix = '',
    found: FieldViolation[] = [],
  ) {
    this.found = found;
  }

  /** The same collection, for a message within this one. */
  at(field: string): Violations {
    return new Violations(this.path(field), this.found);
  }

  /** What was found so far. */
  get all(): readonly FieldViolation[] {
    return this.found;
  }

  /** Notes that a field breaks a rule; `rule` is a sentence without the value. */
  refuse(field: string, rule: string): void {
    if (this.found.length < MAX_VIOLATIONS) this.found.push({ field: this.path(field), rule });
  }

  /** One-line text of `min` to `max` octets of UTF-8 without control characters, surrogates or line separators. */
  id(field: string, value: string, min: number, max: number): string {
    const fault = checkIdText(value, min, max);
    if (fault !== undefined) this.refuse(field, describeTextFault(fault, min, max));
    return value;
  }

  /** The same, but it may be left empty: undefined then. */
  optionalId(field: string, value: string, min: number, max: number): string | undefined {
    return value === '' ? undefined : this.id(field, value, min, max);
  }

  /** A SHA-256. */
  digest(field: string, value: Uint8Array): Digest {
    if (value.length === DIGEST_BYTES) return Buffer.from(value);
    this.refuse(field, `must be ${DIGEST_BYTES} bytes`);
    return NO_DIGEST;
  }

  /** A SHA-256 that may be left empty: undefined then. */
  optionalDigest(field: string, value: Uint8Array): Digest | undefined {
    return value.length === 0 ? undefined : this.digest(field, value);
  }

  /** A time from 1970 to 9999; digits below a microsecond are cut off. */
  time(field: string, value: TimeFields | undefined): Micros {
    if (value === undefined) {
      this.refuse(field, 'is required');
      return 0n;
    }
    const micros = timestampToMicros(value);
    if (micros === undefined) this.refuse(field, 'must lie in 1970 to 9999, nanos within a second');
    return micros ?? 0n;
  }

  /** A time that may be absent. */
  optionalTime(field: string, value: TimeFields | undefined): Micros | undefined {
    return value === undefined ? undefined : this.time(field, value);
  }

  /** A span of `min` to `max` microseconds; digits below a microsecond are cut off. */
  duration(field: string, value: TimeFields | undefined, min: Micros, max: Micros): Micros {
    if (value === undefined) {
      this.refuse(field, 'is required');
      return min;
    }
    const { seconds, nanos } = value;
    const micros = seconds * SECOND + BigInt(Math.trunc(nanos / NANOS_PER_MICRO));
    const wellFormed =
      Math.abs(nanos) <= MAX_NANOS && (seconds === 0n || nanos === 0 || seconds < 0n === nanos < 0);
    if (wellFormed && micros >= min && micros <= max) return micros;
    this.refuse(field, `must be ${wholeSeconds(min)} s to ${wholeSeconds(max)} s`);
    return min;
  }

  /** A span that may be absent. */
  optionalDuration(
    field: string,
    value: TimeFields | undefined,
    min: Micros,
    max: Micros,
  ): Micros | undefined {
    return value === undefined ? undefined : this.duration(field, value, min, max);
  }

  /** An integer of `min` to `max`. */
  integer(field: string, value: bigint, min: bigint, max: bigint): bigint {
    if (value < min || value > max) this.refuse(field, `must be ${min} to ${max}`);
    return value;
  }

  /** An integer from 1 that may be left out as 0: undefined then. */
  optionalPositive(field: string, value: bigint): bigint | undefined {
    if (value === 0n) return undefined;
    if (value < 0n) this.refuse(field, 'must be positive');
    return value;
  }

  /**
   * An enum's value by its number; `names` holds those that are allowed, as the contract names them in whatever letters.
   * A class of data is its number.
   */
  choice<Name extends string | DataClass>(
    field: string,
    value: number,
    names: Readonly<Record<number, Name>>,
  ): Name {
    const name = names[value];
    if (name === undefined) {
      const allowed = Object.values(names).map((one) =>
        typeof one === 'number' ? WireDataClass[one] : one.toUpperCase(),
      );
      this.refuse(field, `must be one of ${allowed.join(', ')}`);
    }
    return name ?? (Object.values(names)[0] as Name);
  }

  /** A list of `min` to `max` items, each read by `item`, which gets the item's own path. */
  list<Value, Read>(
    field: string,
    values: readonly Value[],
    min: number,
    max: number,
    item: (path: string, value: Value) => Read,
  ): Read[] {
    if (values.length < min || values.length > max) {
      this.refuse(field, min === 0 ? `must have at most ${max} items` : `must have ${min} to ${max} items`);
      return [];
    }
    return values.map((value, index) => item(`${field}[${index}]`, value));
  }

  /** A set of texts: a list in which none stands twice. */
  textSet(
    field: string,
    values: readonly string[],
    limits: {
      readonly min: number;
      readonly max: number;
      readonly minOctets: number;
      readonly maxOctets: number;
    },
  ): string[] {
    const { min, max, minOctets, maxOctets } = limits;
    const read = this.list(field, values, min, max, (path, value) =>
      this.id(path, value, minOctets, maxOctets),
    );
    if (new Set(read).size !== read.length) this.refuse(field, 'must not hold a value twice');
    return read;
  }

  /** A page size: 0 stands for the default. */
  pageSize(field: string, value: number): number {
    if (value < 0 || value > MAX_PAGE_SIZE) this.refuse(field, `must be 0 to ${MAX_PAGE_SIZE}`);
    return value === 0 ? DEFAULT_PAGE_SIZE : value;
  }

  /** @throws {Refused} FIELD_INVALID with every violation, where there is one */
  throwIfAny(): void {
    if (this.found.length > 0) throw this.refusal();
  }

  /** What `throwIfAny` throws. */
  refusal(): Refused {
    return fieldsInvalid(this.found);
  }

  private path(field: string): string {
    return [this.prefix, field].filter((part) => part !== '').join('.');
  }
}

/** The refusal for fields that break rules. */
export function fieldsInvalid(violations: readonly FieldViolation[]): Refused {
  return new Refused(refusal('FIELD_INVALID', 'Fields of the request break rules.', { violations }));
}

function wholeSeconds(micros: Micros): bigint {
  return micros / SECOND;
}

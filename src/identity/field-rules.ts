import type { FieldViolation } from '../ledger/refusal.js';
import { checkIdText, describeTextFault } from '../ledger/text.js';
import type { Digest, Micros } from '../ledger/types.js';
import { type TimestampFields, timestampToMicros } from './timestamp.js';

const DIGEST_BYTES = 32;
const NO_DIGEST: Digest = Buffer.alloc(DIGEST_BYTES);

/**
 * Reads the fields of one decoded message and gathers every rule that they break, so that a caller learns all of them at
 * once (api.md, Errors). A value that breaks a rule is replaced by an empty one of its type: take what was read only
 * where {@link violations} is empty.
 */
export class FieldRules {
  readonly violations: FieldViolation[] = [];

  /** @param prefix path of the message, for example `evidence` */
  constructor(private readonly prefix: string) {}

  /** Notes that a field breaks a rule; `rule` is a sentence without the value. */
  refuse(field: string, rule: string): void {
    this.violations.push({ field: `${this.prefix}.${field}`, rule });
  }

  /** An id of `min` to `max` octets without control characters, surrogates or line separators. */
  id(field: string, value: string, min: number, max: number): string {
    const fault = checkIdText(value, min, max);
    if (fault !== undefined) this.refuse(field, describeTextFault(fault, min, max));
    return value;
  }

  /** An integer from 1; 0 is what an absent one reads as. */
  positive(field: string, value: bigint): bigint {
    if (value < 1n) this.refuse(field, 'must be positive');
    return value;
  }

  /** A SHA-256. */
  digest(field: string, value: Uint8Array): Digest {
    if (value.length !== DIGEST_BYTES) {
      this.refuse(field, `must be ${DIGEST_BYTES} bytes`);
      return NO_DIGEST;
    }
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  }

  /** A time that is there and between 1970 and 9999. */
  time(field: string, value: TimestampFields | undefined): Micros {
    const micros = value === undefined ? undefined : timestampToMicros(value);
    if (micros === undefined) {
      this.refuse(
        field,
        value === undefined ? 'is required' : 'must lie in 1970 to 9999, nanos within a second',
      );
      return 0n;
    }
    return micros;
  }

  /** An enum's value by its number; `names` holds those that are allowed, as the contract names them in whatever letters. */
  choice<Name extends string>(field: string, value: number, names: Readonly<Record<number, Name>>): Name {
    const name = names[value];
    if (name === undefined) {
      const allowed = Object.values(names).map((one) => one.toUpperCase());
      this.refuse(field, `must be one of ${allowed.join(', ')}`);
    }
    return name as Name;
  }
}

import { type DescField, type DescMessage, ScalarType } from '@bufbuild/protobuf';
import { decodeUtf8 } from '../identity/utf8.js';
import type { FieldViolation } from '../ledger/refusal.js';
import { packedFits, WIRE, wireTypesOf } from './wire-form.js';

const MAX_VARINT_BYTES = 10;

/** Deeper than any request of ours; a sender must not choose how deep we recurse. */
const MAX_DEPTH = 16;

/**
 * The first place in the bytes of a request where they stop being an encoding of its message, by the field's path in
 * proto names (`proof.jws`, `recipient_harness_ids[2]`). Only for telling: it runs after a decoder has given up.
 *
 * @returns undefined where nothing is wrong that this search knows of
 */
export function findFault(schema: DescMessage, bytes: Uint8Array): FieldViolation | undefined {
  const search = new FaultSearch(bytes);
  try {
    search.message(schema, bytes.length);
    return undefined;
  } catch (error) {
    if (error instanceof Fault) return { field: search.field, rule: error.rule };
    throw error;
  }
}

class Fault extends Error {
  constructor(readonly rule: string) {
    super(rule);
  }
}

class FaultSearch {
  #position = 0;
  readonly #path: string[] = [];

  constructor(private readonly bytes: Uint8Array) {}

  get field(): string {
    return this.#path.join('').replace(/^\./, '');
  }

  message(schema: DescMessage, end: number): void {
    if (this.#path.length > MAX_DEPTH) throw new Fault('must not be nested this deep');
    const seen = new Map<number, number>();
    while (this.#position < end) {
      const tag = this.#varint(end);
      const number = Math.floor(tag / 8);
      const field = schema.fields.find((candidate) => candidate.number === number);
      const index = seen.get(number) ?? 0;
      seen.set(number, index + 1);
      this.#path.push(
        field === undefined ? '' : `.${field.name}${field.fieldKind === 'list' ? `[${index}]` : ''}`,
      );
      this.#value(field, tag % 8, end);
      this.#path.pop();
    }
  }

  #value(field: DescField | undefined, wireType: number, end: number): void {
    if (field !== undefined && ((wireTypesOf(field) >> wireType) & 1) === 0) {
      throw new Fault('must have the wire type of its field');
    }
    if (wireType === WIRE.varint) this.#varint(end);
    else if (wireType === WIRE.fixed64) this.#skip(8, end);
    else if (wireType === WIRE.fixed32) this.#skip(4, end);
    else if (wireType === WIRE.bytes) this.#delimited(field, end);
    else throw new Fault('must have a wire type that proto3 has');
  }

  #delimited(field: DescField | undefined, end: number): void {
    const length = this.#varint(end);
    if (length > end - this.#position) throw new Fault('must not be cut off');
    const stop = this.#position + length;
    if (field?.fieldKind === 'message' || (field?.fieldKind === 'list' && field.listKind === 'message')) {
      this.message(field.message, stop);
    } else if (field !== undefined && 'scalar' in field && field.scalar === ScalarType.STRING) {
      if (decodeUtf8(this.bytes.subarray(this.#position, stop)) === undefined)
        throw new Fault('must be valid UTF-8');
    } else if (field !== undefined && !packedFits(field, this.bytes, this.#position, stop)) {
      throw new Fault('must not be cut off');
    }
    this.#position = stop;
  }

  #varint(end: number): number {
    let value = 0;
    for (let group = 0; group < MAX_VARINT_BYTES; group += 1) {
      if (this.#position >= end) throw new Fault('must not be cut off');
      const byte = this.bytes[this.#position] as number;
      this.#position += 1;
      // Exact for tags and lengths, which have 32 bits; the values of larger ones are not looked at.
      value += (byte & 0x7f) * 2 ** (7 * group);
      if (byte < 0x80) return value;
    }
    throw new Fault('must be written with at most ten bytes');
  }

  #skip(length: number, end: number): void {
    if (length > end - this.#position) throw new Fault('must not be cut off');
    this.#position += length;
  }
}

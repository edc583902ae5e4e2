import { type DescField, type DescMessage, type MessageShape, ScalarType, create } from '@bufbuild/protobuf';
import { StrictReader } from './strict-reader.js';

// No signed message nests deeper than six; a schema that contains itself would otherwise let a sender choose.
const MAX_DEPTH = 16;
// FieldDescriptor presence: a field that knows no difference between its default and its absence.
const PRESENCE_IMPLICIT = 2;
const WIRE_VARINT = 0;
const WIRE_BYTES = 2;

/** Bytes that are not the one encoding of a message. */
export class StrictProtobufError extends Error {
  override readonly name = 'StrictProtobufError';
  constructor(
    /** Path of the field in proto names, for example `registration.sinks[2]`; empty for the message itself. */
    readonly field: string,
    /** The rule that it breaks, as a sentence without a value. */
    readonly rule: string,
  ) {
    super(`${field === '' ? 'message' : field} ${rule}`);
  }
}

type ValueKind = 'string' | 'bytes' | 'bool' | 'int32' | 'int64' | 'enum' | 'message';
type Repetition = 'single' | 'packed' | 'expanded';

interface FieldPlan {
  /** What it adds to a path. */
  readonly step: string;
  readonly localName: string;
  /** The member of the message that the value goes into, where it is one of several. */
  readonly oneof: string | undefined;
  readonly kind: ValueKind;
  readonly repetition: Repetition;
  readonly wireType: number;
  /** Whether the default stands for absence, and is never written. */
  readonly implicit: boolean;
  readonly enumNumbers: ReadonlySet<number> | undefined;
  readonly message: DescMessage | undefined;
}

const SCALAR_KINDS: ReadonlyMap<ScalarType, ValueKind> = new Map([
  [ScalarType.STRING, 'string'],
  [ScalarType.BYTES, 'bytes'],
  [ScalarType.BOOL, 'bool'],
  [ScalarType.INT32, 'int32'],
  [ScalarType.INT64, 'int64'],
]);

type FieldPlans = ReadonlyMap<number, FieldPlan>;

const plans = new WeakMap<DescMessage, FieldPlans>();

/**
 * Decodes a message from the only bytes that it can have: what a serializer writes that writes fields in ascending order,
 * leaves defaults out and packs what can be packed (identity.md, Transition proof: "must equal their own re-encoding"). So
 * two programs that read the same bytes read the same message, and one message has one digest.
 *
 * Refused are fields and enum values that the schema does not have, fields out of order, a singular field or a oneof
 * twice, a written default, a varint longer than needed, another wire type, invalid UTF-8 (lone surrogates with it), cut
 * or surplus bytes; in nested messages likewise. A byte order mark is a character like others, and stays.
 *
 * @returns a message of the schema; its `bytes` are copies
 * @throws {StrictProtobufError} at the first place that breaks a rule
 * @throws {TypeError} if the schema has a kind of field that no signed message uses (maps, floats, groups, unsigned)
 */
export function decodeStrictly<Schema extends DescMessage>(
  schema: Schema,
  bytes: Uint8Array,
): MessageShape<Schema> {
  return new StrictDecoder(bytes).decode(schema) as MessageShape<Schema>;
}

type FieldValues = Record<string, unknown>;

class StrictDecoder {
  private readonly reader: StrictReader;
  private readonly path: string[] = [];

  constructor(bytes: Uint8Array) {
    this.reader = new StrictReader(bytes, (rule) => this.refuse(rule));
  }

  decode(schema: DescMessage): unknown {
    return this.message(schema, this.reader.length);
  }

  private refuse(rule: string): never {
    throw new StrictProtobufError(this.path.join('').replace(/^\./, ''), rule);
  }

  private message(schema: DescMessage, end: number): unknown {
    if (this.path.length > MAX_DEPTH) this.refuse('is nested too deep');
    const fields = plansOf(schema);
    const message = create(schema);
    const values = message as unknown as FieldValues;
    let last = 0;
    while (this.reader.position < end) {
      const tag = this.reader.uint32(end);
      const number = tag >>> 3;
      const field = fields.get(number);
      if (field === undefined) this.refuse(`must not hold the unknown field ${number}`);
      this.path.push(field.step);
      if (number < last) this.refuse('must stand in ascending order of field numbers');
      if (number === last && field.repetition !== 'expanded') this.refuse('must not be written twice');
      if ((tag & 7) !== field.wireType) this.refuse('must have the wire type of its field');
      last = number;
      this.field(field, values, end);
      this.path.pop();
    }
    return message;
  }

  private field(field: FieldPlan, values: FieldValues, end: number): void {
    if (field.repetition === 'single') {
      this.store(field, values, this.value(field, end, field.implicit));
    } else if (field.repetition === 'packed') {
      this.packed(field, values[field.localName] as unknown[], end);
    } else {
      const list = values[field.localName] as unknown[];
      this.path.push(`[${list.length}]`);
      list.push(this.value(field, end, false));
      this.path.pop();
    }
  }

  private store(field: FieldPlan, values: FieldValues, value: unknown): void {
    if (field.oneof === undefined) {
      values[field.localName] = value;
      return;
    }
    const chosen = values[field.oneof] as { case: string | undefined };
    if (chosen.case !== undefined) this.refuse('must not stand beside another member of its oneof');
    values[field.oneof] = { case: field.localName, value };
  }

  private packed(field: FieldPlan, list: unknown[], end: number): void {
    const packedEnd = this.reader.delimited(end);
    if (packedEnd === this.reader.position) this.refuse('must be left out when it is empty');
    while (this.reader.position < packedEnd) list.push(this.value(field, packedEnd, false));
  }

  private value(field: FieldPlan, end: number, refuseDefault: boolean): unknown {
    switch (field.kind) {
      case 'string': {
        const text = this.reader.text(end);
        return refuseDefault && text === '' ? this.refuseDefault() : text;
      }
      case 'bytes': {
        const bytes = this.reader.bytes(end);
        return refuseDefault && bytes.length === 0 ? this.refuseDefault() : bytes;
      }
      case 'int64': {
        const integer = this.reader.int64(end);
        return refuseDefault && integer === 0n ? this.refuseDefault() : integer;
      }
      case 'bool': {
        const integer = this.reader.int64(end);
        if (integer !== 0n && integer !== 1n) this.refuse('must be 0 or 1');
        return refuseDefault && integer === 0n ? this.refuseDefault() : integer === 1n;
      }
      case 'int32':
      case 'enum': {
        const integer = this.reader.int32(end);
        if (refuseDefault && integer === 0) this.refuseDefault();
        if (field.enumNumbers?.has(integer) === false) this.refuse('must be a value of its enum');
        return integer;
      }
      case 'message':
        return this.message(field.message as DescMessage, this.reader.delimited(end));
    }
  }

  private refuseDefault(): never {
    this.refuse('must be left out where it has its default');
  }
}

function plansOf(schema: DescMessage): FieldPlans {
  let fields = plans.get(schema);
  if (fields === undefined) {
    fields = new Map(schema.fields.map((field) => [field.number, planField(field)]));
    plans.set(schema, fields);
  }
  return fields;
}

function planField(field: DescField): FieldPlan {
  const kind = valueKindOf(field);
  const lengthDelimited = kind === 'string' || kind === 'bytes' || kind === 'message';
  const packed = field.fieldKind === 'list' && field.packed;
  if (field.fieldKind === 'list' && !packed && !lengthDelimited) throw unsupported(field);
  return {
    step: `.${field.name}`,
    localName: field.localName,
    oneof: field.oneof?.localName,
    kind,
    repetition: packed ? 'packed' : field.fieldKind === 'list' ? 'expanded' : 'single',
    wireType: packed || lengthDelimited ? WIRE_BYTES : WIRE_VARINT,
    implicit: field.presence === PRESENCE_IMPLICIT,
    enumNumbers:
      field.enum === undefined ? undefined : new Set(field.enum.values.map((value) => value.number)),
    message: field.message,
  };
}

function valueKindOf(field: DescField): ValueKind {
  if (field.fieldKind === 'map') throw unsupported(field);
  if (field.message !== undefined) {
    if ('delimitedEncoding' in field && field.delimitedEncoding) throw unsupported(field);
    return 'message';
  }
  if (field.enum !== undefined) return 'enum';
  const kind = SCALAR_KINDS.get(field.scalar);
  if (kind === undefined) throw unsupported(field);
  return kind;
}

function unsupported(field: DescField): TypeError {
  return new TypeError(`strict decoding has no rule for ${field.toString()}`);
}

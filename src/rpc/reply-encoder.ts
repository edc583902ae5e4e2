import {
  create,
  type DescField,
  type DescMessage,
  type MessageInitShape,
  ScalarType,
  toBinary,
} from '@bufbuild/protobuf';
import { isWrapperDesc } from '@bufbuild/protobuf/wkt';
import { MessageWriter } from '../lane/message-writer.js';

/** Encodes what a handler answered: a message, or what one is made of. */
export type ReplyEncoder = (reply: MessageInitShape<DescMessage>) => Buffer;

// FeatureSet.FieldPresence and the edition of proto3, by their numbers in descriptor.proto.
const PRESENCE_IMPLICIT = 2;
const EDITION_PROTO3 = 999;
const INT32_LIMIT = 2 ** 31;

/** A writer keeps the room of the largest message that it wrote; that of a long page is given back. */
const MAX_KEPT_BYTES = 64 * 1024;

type Values = Readonly<Record<string, unknown>>;
type WriteField = (writer: MessageWriter, values: Values) => void;
type WriteValue = (writer: MessageWriter, value: unknown) => void;

let writer = new MessageWriter();

/**
 * Prepares the encoding of replies of one message: the same bytes as the library's `toBinary(schema, create(schema, reply))`,
 * by a plan that is made once, without a message and a reflection of it for each reply. The library itself encodes
 * messages with a kind of field that no frequent reply has, and those that carry fields unknown to us.
 */
export function replyEncoder(schema: DescMessage): ReplyEncoder {
  if (!isPlannable(schema, new Set())) return (reply) => byLibrary(schema, reply);
  const write = messageWriter(schema, new Map());
  return (reply) => {
    try {
      write(writer.begin(), reply);
    } catch (error) {
      if (error instanceof HoldsUnknownFields) return byLibrary(schema, reply);
      throw error;
    }
    const bytes = writer.finish();
    if (bytes.length > MAX_KEPT_BYTES) writer = new MessageWriter();
    return bytes;
  };
}

class HoldsUnknownFields extends Error {}

function byLibrary(schema: DescMessage, reply: MessageInitShape<DescMessage>): Buffer {
  const bytes = toBinary(schema, create(schema, reply));
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const PLANNABLE_SCALARS: ReadonlySet<ScalarType> = new Set([
  ScalarType.STRING,
  ScalarType.BYTES,
  ScalarType.BOOL,
  ScalarType.INT32,
  ScalarType.INT64,
]);

function isPlannable(schema: DescMessage, seen: Set<DescMessage>): boolean {
  if (seen.has(schema)) return true;
  seen.add(schema);
  // Of these the library takes something else than their fields.
  if (schema.file.edition !== EDITION_PROTO3 || isWrapperDesc(schema)) return false;
  if (schema.typeName === 'google.protobuf.Struct') return false;
  return schema.fields.every((field) => {
    if (field.fieldKind === 'map' || (field.fieldKind === 'list' && field.packed)) return false;
    if (field.message !== undefined) return !isGroup(field) && isPlannable(field.message, seen);
    return field.enum !== undefined || PLANNABLE_SCALARS.has(field.scalar);
  });
}

function isGroup(field: DescField): boolean {
  return 'delimitedEncoding' in field && field.delimitedEncoding;
}

/** Takes the messages that are planned already, since one may hold itself. */
function messageWriter(schema: DescMessage, planned: Map<DescMessage, WriteField>): WriteField {
  const known = planned.get(schema);
  if (known !== undefined) return known;
  const fields: WriteField[] = [];
  const write: WriteField = (to, values) => {
    for (const field of fields) field(to, values);
    if (values['$unknown'] !== undefined) throw new HoldsUnknownFields();
  };
  planned.set(schema, write);
  const ascending = [...schema.fields].sort((a, b) => a.number - b.number);
  fields.push(...ascending.map((field) => fieldWriter(field, planned)));
  return write;
}

function fieldWriter(field: DescField, planned: Map<DescMessage, WriteField>): WriteField {
  const { localName } = field;
  const write = valueWriter(field, planned);
  if (field.fieldKind === 'list') {
    return (to, values) => {
      const list = values[localName] as readonly unknown[] | undefined;
      if (list !== undefined) for (const item of list) write(to, item);
    };
  }
  if (field.oneof === undefined) return (to, values) => write(to, values[localName]);
  const oneof = field.oneof.localName;
  return (to, values) => {
    const chosen = values[oneof] as { readonly case?: string; readonly value?: unknown } | undefined;
    if (chosen?.case === localName) write(to, chosen.value);
  };
}

/** Writes one value with its tag; nothing where it is absent, or the default of a field without presence. */
function valueWriter(field: DescField, planned: Map<DescMessage, WriteField>): WriteValue {
  const { number } = field;
  if (field.message !== undefined) {
    const write = messageWriter(field.message, planned);
    return (to, value) => void to.message(number, (value ?? undefined) as Values | undefined, write);
  }
  const hasPresence = field.fieldKind === 'list' || field.presence !== PRESENCE_IMPLICIT;
  const write = scalarWriter(field);
  if (!hasPresence) {
    return (to, value) => {
      if (value !== undefined && value !== null) write(to, value);
    };
  }
  const writeDefault = defaultWriter(field);
  return (to, value) => {
    if (value === undefined || value === null) return;
    if (isDefault(value)) writeDefault(to);
    else write(to, value);
  };
}

function isDefault(value: unknown): boolean {
  return value === '' || value === 0 || value === 0n || value === false || (value as Uint8Array).length === 0;
}

function nothing(): void {}

/** A default that is written all the same: no octets, or a zero. */
function defaultWriter({ number, scalar }: DescField): (to: MessageWriter) => void {
  if (scalar === ScalarType.STRING || scalar === ScalarType.BYTES) {
    return (to) => void to.message(number, {}, nothing);
  }
  return (to) => void to.answer(number, false);
}

function scalarWriter({ number, scalar }: DescField): WriteValue {
  switch (scalar) {
    case ScalarType.STRING:
      return (to, value) => void to.text(number, value as string);
    case ScalarType.BYTES:
      return (to, value) => void to.octets(number, value as Uint8Array);
    case ScalarType.BOOL:
      return (to, value) => void to.flag(number, value as boolean);
    case ScalarType.INT64:
      return (to, value) => void to.integer(number, int64(value as bigint));
    default:
      return (to, value) => {
        const integer = int32(value as number);
        if (integer < 0) to.integer(number, BigInt(integer));
        else to.number(number, integer);
      };
  }
}

function int32(value: number): number {
  if (Number.isInteger(value) && value >= -INT32_LIMIT && value < INT32_LIMIT) return value;
  throw new RangeError('a reply holds an integer that is none of 32 bits');
}

function int64(value: bigint): bigint {
  if (BigInt.asIntN(64, value) === value) return value;
  throw new RangeError('a reply holds an integer that is none of 64 bits');
}

import { type DescEnum, type DescField, type DescMessage, type Message, toJson } from '@bufbuild/protobuf';
import { DurationSchema, TimestampSchema } from '@bufbuild/protobuf/wkt';
import { JwkInvalid, parsePublicJwk } from '../../identity/jwk.js';
import type { Fields } from '../client/message-fields.js';
import { printable } from './terminal.js';

/**
 * A message as lines for people: each field's path in the contract's names, and its value as it is given on the command
 * line. What is empty is left out; whole messages that repeat are told apart by their first field.
 */
export function flatFields(schema: DescMessage, message: Message): Map<string, string> {
  const found = new Map<string, string>();
  collect(found, '', schema, message);
  return found;
}

function collect(found: Map<string, string>, prefix: string, schema: DescMessage, message: Fields): void {
  for (const field of schema.fields) {
    const value = message[field.localName];
    const path = `${prefix}${field.name}`;
    if (field.fieldKind === 'list') {
      collectList(found, path, field, value as readonly unknown[]);
    } else if (field.message && !isWellKnown(field.message) && value !== undefined) {
      collect(found, `${path}.`, field.message, value as Fields);
    } else {
      const text = shown(field, value);
      if (text !== '') found.set(path, text);
    }
  }
}

function collectList(
  found: Map<string, string>,
  path: string,
  field: DescField,
  values: readonly unknown[],
): void {
  if (field.message && !isWellKnown(field.message)) {
    for (const [index, value] of values.entries()) {
      const key = (value as Fields)[field.message.fields[0]?.localName ?? ''];
      const name = typeof key === 'string' ? printable(key) : String(index);
      collect(found, `${path}[${name}].`, field.message, value as Fields);
    }
  } else if (values.length > 0) {
    found.set(path, values.map((value) => shown(field, value)).join(', '));
  }
}

function isWellKnown(desc: DescMessage): boolean {
  return desc.typeName === TimestampSchema.typeName || desc.typeName === DurationSchema.typeName;
}

/** One value; empty where there is none. */
function shown(field: DescField, value: unknown): string {
  if (value === undefined) return '';
  if (field.enum) return value === 0 ? '' : enumName(field.enum, value as number);
  if (field.message) return toJson(field.message, value as Message) as string;
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  const text = typeof value === 'string' ? value : (value as bigint | number | boolean).toString();
  return field.name.endsWith('_jwk') ? keyName(text) : printable(text);
}

function enumName(desc: DescEnum, value: number): string {
  return desc.value[value]?.localName ?? String(value);
}

/** A key by its thumbprint, which is what signatures name it by. */
function keyName(jwk: string): string {
  if (jwk === '') return '';
  try {
    return `P-256 ${parsePublicJwk(jwk).thumbprint}`;
  } catch (error) {
    if (error instanceof JwkInvalid) return printable(jwk);
    throw error;
  }
}

import {
  clone,
  create,
  type DescField,
  type DescMessage,
  type Message,
  ScalarType,
} from '@bufbuild/protobuf';
import { UsageError } from '../failure.js';
import type { Fields } from '../client/message-fields.js';
import { isFlagField, readFieldValue } from './field-value.js';

/** A message that is being filled in. */
type Filling = Record<string, unknown>;

/** One field of a message as an option of the command line. */
export interface FieldFlag {
  /** Without its dashes, for example `send-window`. */
  readonly name: string;
  /** The fields that lead to it, itself the last. */
  readonly path: readonly [DescField, ...DescField[]];
  readonly field: DescField;
  readonly repeated: boolean;
  /** A switch with `--no-…` as its other side. */
  readonly boolean: boolean;
}

/** What `parseArgs` found for the options of fields. */
export type FlagValues = Readonly<Record<string, unknown>>;

/**
 * An option for each field that can be written on a command line; those of messages within have their name in front.
 * Lists of messages cannot: they are given with `--json`.
 *
 * @param omitted names of fields that are the service's to set
 */
export function fieldFlags(schema: DescMessage, omitted: ReadonlySet<string>): FieldFlag[] {
  return schema.fields.flatMap((field) => flagsOf(field, omitted));
}

function flagsOf(field: DescField, omitted: ReadonlySet<string>): FieldFlag[] {
  if (omitted.has(field.name)) return [];
  const name = field.name.replaceAll('_', '-');
  if (isFlagField(field)) {
    const repeated = field.fieldKind === 'list';
    const boolean = field.fieldKind === 'scalar' && field.scalar === ScalarType.BOOL;
    return [{ name, path: [field], field, repeated, boolean }];
  }
  if (field.fieldKind !== 'message') return [];
  return fieldFlags(field.message, omitted).map((flag) => ({
    ...flag,
    name: `${name}-${flag.name}`,
    path: [field, ...flag.path],
  }));
}

/** How `parseArgs` is told of them. */
export function parseOptionsOf(
  flags: readonly FieldFlag[],
): Record<string, { type: 'boolean' } | { type: 'string'; multiple: boolean }> {
  return Object.fromEntries(
    flags.map(({ name, boolean, repeated }) => [
      name,
      boolean ? { type: 'boolean' as const } : { type: 'string' as const, multiple: repeated },
    ]),
  );
}

/**
 * Fills a message in: from the record that is there, where there is one, with what is given on top of it.
 *
 * @param before the present record: of the same message, or of one whose fields have the same names
 * @param nowMs the store's clock, in milliseconds
 * @throws {UsageError}
 */
export function fillMessage(
  schema: DescMessage,
  flags: readonly FieldFlag[],
  given: FlagValues,
  { before, nowMs }: { readonly before?: Message | undefined; readonly nowMs: number },
): Message {
  const message = startingFrom(schema, flags, before);
  for (const flag of flags) {
    const value = given[flag.name];
    if (value !== undefined) put(message, flag.path, read(flag, value, nowMs));
  }
  return message;
}

function startingFrom(
  schema: DescMessage,
  flags: readonly FieldFlag[],
  before: Message | undefined,
): Message {
  if (before?.$typeName === schema.typeName) {
    const copy = clone(schema, before);
    const kept = new Set(flags.map(({ path }) => path[0]));
    // What no option can name stays only where it is a list of messages: everything else is the service's to set.
    for (const field of schema.fields) {
      const unnamed = !kept.has(field) && !(field.fieldKind === 'list' && field.listKind === 'message');
      if (unnamed) (copy as unknown as Filling)[field.localName] = emptyOf(schema, field);
    }
    return copy;
  }
  const message = create(schema);
  for (const { path } of flags) {
    const value = before && valueAt(before, path);
    if (value !== undefined) put(message, path, value);
  }
  return message;
}

function emptyOf(schema: DescMessage, field: DescField): unknown {
  return (create(schema) as unknown as Fields)[field.localName];
}

function valueAt(message: Fields, path: readonly DescField[]): unknown {
  let value: unknown = message;
  for (const { localName } of path) value = (value as Fields | undefined)?.[localName];
  return value;
}

function put(message: Filling, [field, ...rest]: readonly DescField[], value: unknown): void {
  if (!field) return;
  const [next] = rest;
  if (!next) message[field.localName] = value;
  else put((message[field.localName] ??= create(field.message as DescMessage)) as Filling, rest, value);
}

function read(flag: FieldFlag, value: unknown, nowMs: number): unknown {
  if (flag.boolean) return value;
  const name = `--${flag.name}`;
  if (!flag.repeated) {
    // An empty text takes away what is there.
    if (value === '' && flag.field.fieldKind === 'message') return undefined;
    return readFieldValue(name, flag.field, value as string, nowMs);
  }
  const values = value as readonly string[];
  if (values.length === 1 && values[0] === '') return [];
  if (values.includes('')) throw new UsageError(`${name}: an empty value stands alone, for an empty list`);
  return values.map((one) => readFieldValue(name, flag.field, one, nowMs));
}

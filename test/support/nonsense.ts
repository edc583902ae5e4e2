import { create, type DescField, type DescMessage, type Message, ScalarType } from '@bufbuild/protobuf';

/** What a field of each type gets. */
export interface Nonsense {
  readonly text: string;
  readonly bytes: Uint8Array;
  readonly integer: bigint;
  readonly enumeration: number;
  /** How many elements a repeated field gets; one within another gets one. */
  readonly elements: number;
}

const LARGE = 32_768;

/** Requests that are well-formed and mean nothing. */
export const NONSENSE: Readonly<Record<string, Nonsense>> = {
  'control characters and the largest numbers': {
    text: '\0\u001b[2J\n',
    bytes: Uint8Array.of(0),
    integer: 2n ** 63n - 1n,
    enumeration: 99,
    elements: 2,
  },
  'quotes, directions and the smallest numbers': {
    text: `'; DROP TABLE effects; --"\u202e\u{1f4a3}\ufffe`,
    bytes: new Uint8Array(31),
    integer: -(2n ** 63n),
    enumeration: -1,
    elements: 1,
  },
  'values far too long': {
    text: 'é'.repeat(LARGE / 2),
    bytes: new Uint8Array(LARGE),
    integer: -1n,
    enumeration: 1,
    elements: 2,
  },
  'lists far too long': {
    text: 'x',
    bytes: new Uint8Array(32),
    integer: 1n,
    enumeration: 1,
    elements: 4_000,
  },
  'values that could be right': {
    text: 'abcdefghijklmnopqrstuvwxyz',
    bytes: new Uint8Array(32).fill(7),
    integer: 1n,
    enumeration: 1,
    elements: 1,
  },
  'tokens, of a kind': {
    text: 'eyJhbGciOiJFUzI1NiJ9.AAAA.'.padEnd(26 + 86, 'A'),
    bytes: new Uint8Array(32),
    integer: 2n ** 53n + 1n,
    enumeration: 2,
    elements: 1,
  },
};

/** Every field of a message at once, of a oneof the first; `domain_id` is given, since without it little is looked at. */
export function nonsenseOf(schema: DescMessage, what: Nonsense, domainId: string): Message {
  const fields: Record<string, unknown> = {};
  for (const member of schema.members) {
    if (member.kind === 'oneof') {
      const [first] = member.fields;
      if (first) fields[member.localName] = { case: first.localName, value: valueOf(first, what, domainId) };
    } else {
      fields[member.localName] = valueOf(member, what, domainId);
    }
  }
  return create(schema, fields as never);
}

function valueOf(field: DescField, what: Nonsense, domainId: string): unknown {
  if (field.name === 'domain_id') return domainId;
  switch (field.fieldKind) {
    case 'list': {
      const element =
        field.listKind === 'message'
          ? nonsenseOf(field.message, { ...what, elements: 1 }, domainId)
          : field.listKind === 'enum'
            ? what.enumeration
            : scalarOf(field.scalar, what);
      return Array.from({ length: what.elements }, () => element);
    }
    case 'message':
      return nonsenseOf(field.message, what, domainId);
    case 'enum':
      return what.enumeration;
    case 'scalar':
      return scalarOf(field.scalar, what);
    case 'map':
      return {};
  }
}

function scalarOf(type: ScalarType, what: Nonsense): unknown {
  switch (type) {
    case ScalarType.STRING:
      return what.text;
    case ScalarType.BYTES:
      return what.bytes;
    case ScalarType.BOOL:
      return true;
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return what.integer;
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return BigInt.asUintN(64, what.integer);
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return Number(BigInt.asUintN(32, what.integer));
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return Number(what.integer);
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
      return Number(BigInt.asIntN(32, what.integer));
  }
}

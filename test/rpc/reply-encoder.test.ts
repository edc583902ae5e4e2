import {
  create,
  type DescField,
  type DescMessage,
  type MessageInitShape,
  ScalarType,
  toBinary,
} from '@bufbuild/protobuf';
import { EmptySchema } from '@bufbuild/protobuf/wkt';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import { TransitionResultSchema } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { CONTRACT_SERVICES } from '../../src/rpc/contract.js';
import { replyEncoder } from '../../src/rpc/reply-encoder.js';

const MAX_DEPTH = 3;
const OUTPUTS = new Map(
  CONTRACT_SERVICES.flatMap(({ methods }) => methods.map(({ output }) => [output.typeName, output] as const)),
);

const text = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.string({ unit: 'binary', maxLength: 200 }),
  // A lone surrogate: replaced by either.
  fc.constantFrom('', '\ud800', '\ufeffx'),
);

function scalars(scalar: ScalarType): fc.Arbitrary<unknown> {
  switch (scalar) {
    case ScalarType.STRING:
      return text;
    case ScalarType.BYTES:
      return fc.uint8Array({ maxLength: 200 }).map((bytes) => Uint8Array.from(bytes));
    case ScalarType.BOOL:
      return fc.boolean();
    case ScalarType.INT64:
      return fc.oneof(fc.constantFrom(0n, 1n, -1n, 2n ** 53n), fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n));
    case ScalarType.UINT64:
      return fc.bigInt(0n, 2n ** 64n - 1n);
    case ScalarType.DOUBLE:
      return fc.double();
    default:
      return fc.oneof(fc.constantFrom(0, 1, -1, 127, 128), fc.integer());
  }
}

function valuesOf(field: DescField, depth: number): fc.Arbitrary<unknown> {
  if (field.message !== undefined) return initsOf(field.message, depth + 1);
  if (field.enum !== undefined) return fc.constantFrom(...field.enum.values.map((value) => value.number));
  return scalars(field.scalar);
}

function membersOf(field: DescField, depth: number): fc.Arbitrary<unknown> {
  const one = valuesOf(field, depth);
  if (field.fieldKind === 'list') return fc.array(one, { maxLength: 3 });
  if (field.fieldKind === 'map') return fc.dictionary(fc.string({ maxLength: 5 }), one, { maxKeys: 2 });
  return one;
}

/** What messages of a schema can be made of. */
function initsOf(schema: DescMessage, depth = 0): fc.Arbitrary<Record<string, unknown>> {
  if (depth > MAX_DEPTH) return fc.constant({});
  const members: Record<string, fc.Arbitrary<unknown>> = {};
  for (const member of schema.members) {
    members[member.localName] =
      member.kind === 'oneof'
        ? fc.oneof(
            fc.constant({ case: undefined }),
            ...member.fields.map((field) =>
              valuesOf(field, depth).map((value) => ({ case: field.localName, value })),
            ),
          )
        : membersOf(member, depth);
  }
  return fc.record(members, { requiredKeys: [] });
}

function byLibrary(schema: DescMessage, init: MessageInitShape<DescMessage>): string {
  return Buffer.from(toBinary(schema, create(schema, init))).toString('hex');
}

describe('a reply is encoded as the library does', () => {
  it.each([...OUTPUTS.values()])('$typeName', (schema) => {
    const encode = replyEncoder(schema);
    fc.assert(
      fc.property(initsOf(schema), (init) => {
        expect(encode(init).toString('hex')).toBe(byLibrary(schema, init));
        expect(encode(create(schema, init)).toString('hex')).toBe(byLibrary(schema, init));
      }),
      { numRuns: 60 },
    );
  });

  it('with fields that only a newer program knows', () => {
    const message = create(TransitionResultSchema, { effectId: 'e', state: EffectState.EXECUTING });
    message.$unknown = [{ no: 1000, wireType: 0, data: Uint8Array.of(7) }];
    const bytes = replyEncoder(TransitionResultSchema)(message).toString('hex');
    expect(bytes).toBe(byLibrary(TransitionResultSchema, message));
    expect(bytes.endsWith('c03e07')).toBe(true);
  });

  it('however long it is, and the next one after it', () => {
    const encode = replyEncoder(TransitionResultSchema);
    const long = { effectId: '\u00e9'.repeat(500_000), attemptId: 'a' };
    expect(encode(long).toString('hex')).toBe(byLibrary(TransitionResultSchema, long));
    expect(encode({ attemptId: 'a' }).toString('hex')).toBe(
      byLibrary(TransitionResultSchema, { attemptId: 'a' }),
    );
    expect(replyEncoder(EmptySchema)({})).toHaveLength(0);
  });

  it('and an integer that does not fit is an error, never another integer', () => {
    const encode = replyEncoder(TransitionResultSchema);
    expect(() => encode({ fence: 2n ** 63n })).toThrow(RangeError);
    expect(() => encode({ state: 2 ** 31 })).toThrow(RangeError);
    expect(() => encode({ state: 0.5 })).toThrow(RangeError);
  });
});

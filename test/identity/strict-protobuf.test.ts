import { create, type DescMessage, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { configureTextEncoding, getTextEncoding } from '@bufbuild/protobuf/wire';
import { StructSchema, TimestampSchema } from '@bufbuild/protobuf/wkt';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { EffectAuditSchema } from '../../src/gen/surety/audit/v1/entry_pb.js';
import { AdminCommandSchema } from '../../src/gen/surety/authority/v1/command_pb.js';
import { DataClass } from '../../src/gen/surety/provenance/v1/record_pb.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import * as evidencePb from '../../src/gen/surety/effect/v1/evidence_pb.js';
import { PossessionStatementSchema } from '../../src/gen/surety/identity/v1/workload_pb.js';
import { SIGNED_MESSAGES } from '../../src/identity/signed-messages.js';
import { decodeStrictly, StrictProtobufError } from '../../src/identity/strict-protobuf.js';
import { encodeTransitionStatement } from '../../src/identity/transition-statement.js';
import { STATEMENT } from './signed-message-samples.js';

// As the service does: the library would otherwise drop a byte order mark, and write other bytes again.
configureTextEncoding({
  ...getTextEncoding(),
  decodeUtf8: (bytes) => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes),
});

const GRANT = create(AdminCommandSchema, {
  header: {
    audience: 'spiffe://surety.test/surety',
    incarnation: 3n,
    reason: 'r\u00e9ason',
    expireTime: { seconds: 9n },
  },
  mutation: {
    case: 'createGrant',
    value: {
      grant: {
        grantId: 'g',
        actions: ['a', '', 'c'],
        dataClasses: [DataClass.C0_PUBLIC, DataClass.C3_SEALED],
        maxUses: -1n,
        repeatable: true,
      },
    },
  },
});
const grantBytes = toBinary(AdminCommandSchema, GRANT);
const statementBytes = encodeTransitionStatement(STATEMENT);

type Verdict = { message: unknown } | { field: string; rule: string };

function judge(schema: DescMessage, bytes: Uint8Array): Verdict {
  try {
    return { message: decodeStrictly(schema, bytes) };
  } catch (error) {
    if (!(error instanceof StrictProtobufError)) throw error;
    return { field: error.field, rule: error.rule };
  }
}

/** What the rule says: the library reads it, and writes the same bytes again. */
function canonicalByLibrary<Schema extends DescMessage>(
  schema: Schema,
  bytes: Uint8Array,
): MessageShape<Schema> | undefined {
  try {
    // A plain array: of a Buffer the library's `bytes` would be Buffers, which compare as something else.
    const message = fromBinary(schema, Uint8Array.from(bytes), { readUnknownFields: false });
    return Buffer.from(toBinary(schema, message)).equals(bytes) ? message : undefined;
  } catch {
    return undefined;
  }
}

function holdsUnknownEnum(bytes: Uint8Array, schema: DescMessage): boolean {
  const verdict = judge(schema, bytes);
  return 'rule' in verdict && verdict.rule === 'must be a value of its enum';
}

/** Bytes near to a good message: a few of them replaced, put in, taken out or repeated. */
function near(bytes: Uint8Array): fc.Arbitrary<Buffer> {
  const small = fc.oneof(fc.constantFrom(0, 1, 2, 8, 10, 0x7f, 0x80, 0xff), fc.nat(255));
  const edit = fc.tuple(fc.nat(bytes.length), fc.nat(4), fc.array(small, { maxLength: 4 }), fc.boolean());
  return fc.array(edit, { minLength: 1, maxLength: 3 }).map((edits) =>
    edits.reduce((result, [at, cut, put, repeat]) => {
      const kept = repeat ? result.subarray(at, at + cut) : Buffer.alloc(0);
      return Buffer.concat([
        result.subarray(0, at),
        Buffer.from(put),
        kept,
        result.subarray(repeat ? at : at + cut),
      ]);
    }, Buffer.from(bytes)),
  );
}

describe('strict decoding is the re-encoding rule', () => {
  const samples: [string, DescMessage, Uint8Array][] = [
    ['a statement', SIGNED_MESSAGES.transition.schema, statementBytes],
    ['a grant', AdminCommandSchema, grantBytes],
    [
      'a timestamp',
      TimestampSchema,
      toBinary(TimestampSchema, create(TimestampSchema, { seconds: -5n, nanos: -7 })),
    ],
    [
      'an audited step',
      EffectAuditSchema,
      toBinary(
        EffectAuditSchema,
        create(EffectAuditSchema, {
          effectId: 'e',
          step: 2n ** 60n,
          fromState: EffectState.PREPARED,
          evidenceDigest: Uint8Array.of(1),
          grantCurrent: false,
          disputed: true,
        }),
      ),
    ],
  ];

  test.each(samples)('%s: good bytes are read as the library reads them', (_name, schema, bytes) => {
    expect(judge(schema, bytes)).toEqual({ message: fromBinary(schema, bytes) });
  });

  test.each(samples)(
    '%s: bytes near to it are taken exactly where the library writes them again',
    (_n, schema, bytes) => {
      let taken = 0;
      fc.assert(
        fc.property(near(bytes), (candidate) => {
          const expected = canonicalByLibrary(schema, candidate);
          const verdict = judge(schema, candidate);
          if (expected !== undefined && !holdsUnknownEnum(candidate, schema)) {
            taken += 1;
            expect(verdict).toEqual({ message: expected });
          } else {
            expect(verdict).toHaveProperty('rule');
          }
        }),
        { numRuns: 5000 },
      );
      // The property would say nothing if no edit left the bytes canonical.
      expect(taken).toBeGreaterThan(50);
    },
  );

  test('random bytes: likewise', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 24 }), (candidate) => {
        const expected = canonicalByLibrary(TimestampSchema, candidate);
        const verdict = judge(TimestampSchema, candidate);
        if (expected === undefined) expect(verdict).toHaveProperty('rule');
        else expect(verdict).toEqual({ message: expected });
      }),
      { numRuns: 5000 },
    );
  });
});

describe('errors name the field', () => {
  const find = (needle: string) => Buffer.from(grantBytes).indexOf(needle);

  test('nested, and in lists', () => {
    const bytes = Buffer.from(grantBytes);
    // The third of `actions`: its one octet becomes one that UTF-8 does not have.
    bytes[bytes.lastIndexOf(Buffer.of(1, 0x63)) + 1] = 0xff;
    expect(judge(AdminCommandSchema, bytes)).toEqual({
      field: 'create_grant.grant.actions[2]',
      rule: 'must be valid UTF-8',
    });
  });

  test('in the header', () => {
    const bytes = Buffer.from(grantBytes);
    bytes[find('r\u00e9ason') + 1] = 0xff;
    expect(judge(AdminCommandSchema, bytes)).toMatchObject({ field: 'header.reason' });
  });

  test('and never quote a value', () => {
    const bytes = Buffer.concat([statementBytes, Buffer.from('secret')]);
    expect(JSON.stringify(judge(SIGNED_MESSAGES.transition.schema, bytes))).not.toContain('secret');
  });
});

test('packed lists: an empty one, and one in two pieces, are refused', () => {
  const grant = (dataClasses: Buffer) => {
    const inner = Buffer.concat([Buffer.of(0x0a, 1, 0x67), dataClasses]);
    const outer = Buffer.concat([Buffer.of(0x0a, inner.length), inner]);
    return Buffer.concat([Buffer.of(0xe2, 0x01, outer.length), outer]);
  };
  expect(judge(AdminCommandSchema, grant(Buffer.of(0x4a, 2, 1, 2)))).toHaveProperty('message');
  const refused = [
    Buffer.of(0x4a, 0),
    Buffer.of(0x4a, 1, 1, 0x4a, 1, 2),
    Buffer.of(0x48, 1, 0x48, 2),
    Buffer.of(0x4a, 2, 1),
  ];
  for (const bytes of refused) expect(judge(AdminCommandSchema, grant(bytes))).toHaveProperty('rule');
});

describe('one spelling for each value', () => {
  const refused: [string, number[], string, string][] = [
    ['a written empty text', [0x0a, 0], 'effect_id', 'must be left out where it has its default'],
    ['written empty bytes', [0x42, 0], 'evidence_digest', 'must be left out where it has its default'],
    ['a written 0', [0x10, 0], 'step', 'must be left out where it has its default'],
    ['a written false', [0x78, 0], 'disputed', 'must be left out where it has its default'],
    ['a written UNSPECIFIED', [0x18, 0], 'from_state', 'must be left out where it has its default'],
    ['an unknown enum value', [0x18, 0x63], 'from_state', 'must be a value of its enum'],
    [
      'a tag of 33 bits',
      [0x8a, 0x80, 0x80, 0x80, 0x10, 1, 0x65],
      '',
      'must be written with the shortest varint',
    ],
    [
      'a varint of eight bytes where seven do',
      [0x10, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0],
      'step',
      'must be written with the shortest varint',
    ],
  ];
  test.each(refused)('%s', (_name, bytes, field, rule) => {
    expect(judge(EffectAuditSchema, Buffer.from(bytes))).toEqual({ field, rule });
  });

  test('but a default with presence of its own may be written', () => {
    // grant_current is `optional`: there and false is not the same as absent.
    expect(judge(EffectAuditSchema, Buffer.of(0x58, 0))).toMatchObject({ message: { grantCurrent: false } });
  });
});

test('bytes are copied out of what came in', () => {
  const source = Buffer.from(statementBytes);
  const { evidenceDigest } = decodeStrictly(SIGNED_MESSAGES.transition.schema, source);
  source.fill(0);
  expect(Buffer.from(evidenceDigest)).toEqual(STATEMENT.evidenceDigest);
});

test('every signed message and all evidence has only kinds of fields that strict decoding knows', () => {
  const schemas: DescMessage[] = [
    ...Object.values(SIGNED_MESSAGES).map(({ schema }) => schema),
    evidencePb.ExecutionEvidenceSchema,
    evidencePb.UncertaintyEvidenceSchema,
    evidencePb.TerminalEvidenceSchema,
    evidencePb.ReconciliationEvidenceSchema,
  ];
  const seen = new Set<DescMessage>();
  const visit = (schema: DescMessage) => {
    if (seen.has(schema)) return;
    seen.add(schema);
    expect(judge(schema, Buffer.alloc(0))).toHaveProperty('message');
    for (const field of schema.fields) if (field.message !== undefined) visit(field.message);
  };
  for (const schema of schemas) visit(schema);
  expect(seen).toContain(PossessionStatementSchema);
  expect(seen.size).toBeGreaterThan(30);
});

test('a schema with maps is refused, not half understood', () => {
  expect(() => decodeStrictly(StructSchema, Buffer.of(0x0a, 0))).toThrow(TypeError);
});

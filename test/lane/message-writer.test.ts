import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MessageWriter } from '../../src/lane/message-writer.js';

// The protobuf encoding guide, as the library keeps it: what is written by hand is what the library writes.

type Field =
  | { readonly text: string }
  | { readonly octets: Uint8Array }
  | { readonly number: number }
  | { readonly integer: bigint }
  | { readonly flag: boolean }
  | { readonly answer: boolean }
  | { readonly within: readonly Field[] };

const { fields } = fc.letrec<{ fields: Field[]; field: Field }>((tie) => ({
  fields: fc.array(tie('field'), { maxLength: 6 }),
  field: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    // Around one octet of length, of which the room is guessed by the units of the text.
    fc.record({ text: fc.string({ unit: 'binary', minLength: 0, maxLength: 140, size: 'max' }) }),
    fc.record({
      text: fc.constantFrom('', 'ä'.repeat(63), 'ä'.repeat(64), '€'.repeat(5_500), '𝄞'.repeat(40)),
    }),
    fc.record({ octets: fc.uint8Array({ maxLength: 300, size: 'max' }) }),
    fc.record({ number: fc.oneof(fc.nat(), fc.constantFrom(0, 1, 127, 128, 2 ** 31 - 1)) }),
    fc.record({ integer: fc.oneof(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), fc.constantFrom(0n, 2n ** 53n)) }),
    fc.record({ flag: fc.boolean() }),
    fc.record({ answer: fc.boolean() }),
    fc.record({ within: tie('fields') }),
  ),
}));

function write(to: MessageWriter, all: readonly Field[]): void {
  for (const [i, field] of all.entries()) {
    // One and two octets of tag.
    const number = 3 * i + 12;
    if ('text' in field) to.text(number, field.text);
    else if ('octets' in field) to.octets(number, field.octets);
    else if ('number' in field) to.number(number, field.number);
    else if ('integer' in field) to.integer(number, field.integer);
    else if ('flag' in field) to.flag(number, field.flag);
    else if ('answer' in field) to.answer(number, field.answer);
    else to.message(number, field.within, write);
  }
}

function isDefault(field: Field): boolean {
  const [value] = Object.values(field);
  return !value || value.length === 0;
}

function expected(to: BinaryWriter, all: readonly Field[]): BinaryWriter {
  for (const [i, field] of all.entries()) {
    const number = 3 * i + 12;
    const tag = (type: WireType) => to.tag(number, type);
    if ('within' in field) expected(tag(WireType.LengthDelimited).fork(), field.within).join();
    else if ('answer' in field) tag(WireType.Varint).bool(field.answer);
    else if (isDefault(field)) continue;
    else if ('text' in field) tag(WireType.LengthDelimited).string(field.text);
    else if ('octets' in field) tag(WireType.LengthDelimited).bytes(field.octets);
    else if ('number' in field) tag(WireType.Varint).int32(field.number);
    else if ('integer' in field) tag(WireType.Varint).int64(field.integer);
    else tag(WireType.Varint).bool(true);
  }
  return to;
}

test('what is written by hand is what the library writes', () => {
  const writer = new MessageWriter();
  fc.assert(
    fc.property(fields, (all) => {
      write(writer.begin(), all);
      expect(writer.finish().toString('hex')).toBe(
        Buffer.from(expected(new BinaryWriter(), all).finish()).toString('hex'),
      );
    }),
    { numRuns: 500 },
  );
});

test('what is absent is left out, and a finished message stays as it is', () => {
  const writer = new MessageWriter();
  writer.begin().text(1, undefined).octets(2, undefined).number(3, undefined).integer(4, undefined);
  writer.flag(5, undefined).answer(6, undefined).message(7, undefined, write);
  expect(writer.finish()).toHaveLength(0);
  const first = writer.begin().text(1, 'first').finish();
  writer.begin().text(1, 'other');
  expect(first.toString('latin1')).toBe('\x0a\x05first');
});

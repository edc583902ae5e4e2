import { create, type DescField, type DescMessage, toBinary } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { LeaseNextRequestSchema } from '../../src/gen/surety/action/v1/action_service_pb.js';
import { ListEntriesRequestSchema } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { ReserveEffectRequestSchema } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { PublishEventRequestSchema } from '../../src/gen/surety/event/v1/event_service_pb.js';
import { CONTRACT_SERVICES } from '../../src/rpc/contract.js';
import { decodeRequest } from '../../src/rpc/decode-request.js';
import { WIRE, wireTypesOf } from '../../src/rpc/wire-form.js';

/** Every message that a request may be or hold. */
function requestMessages(): DescMessage[] {
  const found = new Set<DescMessage>();
  const add = (message: DescMessage): void => {
    if (found.has(message)) return;
    found.add(message);
    for (const field of message.fields) if (field.message) add(field.message);
  };
  for (const service of CONTRACT_SERVICES) for (const { input } of service.methods) add(input);
  return [...found];
}

/** A value of each wire type: of an integer, of a text or message of nothing, of four and of eight bytes. */
const VALUES: readonly (readonly [wireType: number, value: readonly number[]])[] = [
  [WIRE.varint, [0]],
  [WIRE.fixed64, [0, 0, 0, 0, 0, 0, 0, 0]],
  [WIRE.bytes, [0]],
  [WIRE.fixed32, [0, 0, 0, 0]],
];

function field({ number }: Pick<DescField, 'number'>, wireType: number, value: readonly number[]): Buffer {
  const tag = number * 8 + wireType;
  return Buffer.from([...(tag < 128 ? [tag] : [(tag & 127) | 128, tag >> 7]), ...value]);
}

function violationOf(schema: DescMessage, bytes: Buffer) {
  const decoded = decodeRequest(schema, bytes);
  return 'violation' in decoded ? decoded.violation : undefined;
}

const OTHER_TYPE = 'must have the wire type of its field';

describe('the wire type of a field', () => {
  it('is its own for every field that a request may have, or the request is refused', () => {
    for (const message of requestMessages()) {
      for (const one of message.fields) {
        for (const [wireType, value] of VALUES) {
          const own = ((wireTypesOf(one) >> wireType) & 1) === 1;
          const violation = violationOf(message, field(one, wireType, value));
          const path = one.fieldKind === 'list' ? `${one.name}[0]` : one.name;
          const told = `${message.typeName} ${path} ${wireType}`;
          expect(violation, told).toEqual(own ? undefined : { field: path, rule: OTHER_TYPE });
        }
      }
    }
  });

  it('is not what a decoder makes of it: an integer is no text', () => {
    const bytes = Buffer.concat([Buffer.from([0x08, 0x09]), Buffer.from('acme.test')]);
    expect(violationOf(ListEntriesRequestSchema, bytes)).toEqual({ field: 'domain_id', rule: OTHER_TYPE });
  });

  it('is told with the path where a message is nested', () => {
    // origin.source_id (2) as an integer.
    expect(violationOf(PublishEventRequestSchema, Buffer.from([0x42, 0x02, 0x10, 0x00]))).toEqual({
      field: 'origin.source_id',
      rule: OTHER_TYPE,
    });
  });

  it('may be either of two for numbers that repeat', () => {
    const { states } = LeaseNextRequestSchema.field;
    const packed = field(states, WIRE.bytes, [2, 1, 2]);
    const single = Buffer.concat([field(states, WIRE.varint, [1]), field(states, WIRE.varint, [2])]);
    for (const bytes of [packed, single]) {
      const decoded = decodeRequest(LeaseNextRequestSchema, bytes);
      expect('request' in decoded && decoded.request.states).toEqual([1, 2]);
    }
  });
});

describe('what a field holds', () => {
  it('ends where what holds it ends', () => {
    // The nested message has two bytes; the text in it says five, which lie behind.
    const text = Buffer.from([0x42, 0x02, 0x12, 0x05, ...Buffer.from('abcde')]);
    expect(violationOf(PublishEventRequestSchema, text)).toEqual({
      field: 'origin.source_id',
      rule: 'must not be cut off',
    });
    const packed = Buffer.concat([field(LeaseNextRequestSchema.field.states, WIRE.bytes, [1, 0x81, 0])]);
    expect(violationOf(LeaseNextRequestSchema, packed)).toEqual({
      field: 'states[0]',
      rule: 'must not be cut off',
    });
  });

  it('is skipped where the number is not ours, a group whole', () => {
    const known = toBinary(
      ReserveEffectRequestSchema,
      create(ReserveEffectRequestSchema, { eventId: 'evt' }),
    );
    // In a group that is not ours the numbers are not ours either, nor in a group within it.
    const group = [0x0b, 0x08, 0x01, 0x13, 0x0a, 0x01, 0x61, 0x14, 0x0d, 0, 0, 0, 0, 0x0c];
    const unknown = [
      [0xf8, 0x7f, 0x01],
      [0xfa, 0x7f, 0x02, 0x08, 0x09],
      [0xf9, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0],
      [0xfd, 0x7f, 0, 0, 0, 0],
      [0xfb, 0x7f, ...group, 0xfc, 0x7f],
      // A tag with more bytes than it needs.
      [0xf8, 0xff, 0x80, 0x00, 0x01],
    ];
    for (const bytes of unknown) {
      const decoded = decodeRequest(ReserveEffectRequestSchema, Buffer.from([...bytes, ...known]));
      expect('request' in decoded && decoded.request.eventId, Buffer.from(bytes).toString('hex')).toBe('evt');
    }
  });
});

import { readFileSync } from 'node:fs';
import { create, toBinary } from '@bufbuild/protobuf';
import { DurationSchema } from '@bufbuild/protobuf/wkt';
import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type SuretyError, suretyError } from '../../src/cli/client/surety-error.js';
import {
  EffectService,
  ReserveEffectRequestSchema,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { type E2eWorld, HARNESS, openE2eWorld, refusedWith } from '../support/e2e-world.js';
import { type ReserveRequest, publishAs, reservation, reserveAs, traces } from '../support/e2e-parties.js';

type Exact = NonNullable<ReserveRequest['request']>;

const span = (seconds: bigint, nanos = 0) => create(DurationSchema, { seconds, nanos });
const bytes = (length: number): Exact => ({
  case: 'requestDigest',
  value: new Uint8Array(length),
});
const body = (length: number): Exact => ({
  case: 'requestBody',
  value: new Uint8Array(length),
});

/** The names of the request that are texts, with their limits in octets of UTF-8. */
const TEXTS = [
  ['event_id', 'eventId', 256],
  ['grant_id', 'grantId', 256],
  ['action', 'action', 256],
  ['resource', 'resource', 512],
  ['input_source', 'inputSource', 256],
  ['output_sink', 'outputSink', 256],
  ['effect_key', 'effectKey', 256],
] as const;

describe('effects.md, Reserve: the request', () => {
  let world: E2eWorld;
  let good: ReserveRequest;

  beforeAll(async () => {
    world = await openE2eWorld();
    good = await reservation(world);
  });
  afterAll(() => world.close());

  async function expectInvalid(change: ReserveRequest, ...fields: string[]): Promise<SuretyError> {
    const before = await traces(world);
    const error = await refusedWith(reserveAs(world, HARNESS, { ...good, ...change }));
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', reason: 'FIELD_INVALID' });
    expect(error.violations.map(({ field }) => field)).toEqual(fields);
    expect(await traces(world)).toEqual(before);
    return error;
  }

  /** Nothing is wrong with the form: the rules behind it decide. */
  async function expectWellFormed(change: ReserveRequest): Promise<void> {
    const outcome = await reserveAs(world, HARNESS, { ...good, effectKey: 'form', ...change }).then(
      () => 'RESERVED',
      (error: SuretyError) => error.reason,
    );
    expect(outcome).toMatch(/^(RESERVED|EVENT_NOT_VISIBLE|GRANT_(MISSING|\w+_NOT_COVERED)|EFFECT_\w+)$/);
  }

  describe('each text has its limits in octets of UTF-8', () => {
    test.each(TEXTS)('%s', async (field, name, max) => {
      await expectWellFormed({ [name]: 'x' });
      await expectWellFormed({ [name]: 'x'.repeat(max) });
      await expectWellFormed({ [name]: 'é'.repeat(max / 2) });
      await expectInvalid({ [name]: 'x'.repeat(max + 1) }, field);
      // As many characters as octets are allowed, and one octet too many.
      await expectInvalid({ [name]: `${'x'.repeat(max - 1)}é` }, field);
      if (field !== 'effect_key') await expectInvalid({ [name]: '' }, field);
    });
  });

  describe('no text has what could be shown as something else', () => {
    const characters = ['\0', '\t', '\n', '\u001f', '\u007f', '\u0080', '\u009f', '\u2028', '\u2029'];

    test.each(TEXTS)('%s', async (field, name) => {
      for (const character of characters) await expectInvalid({ [name]: `a${character}b` }, field);
    });

    test.each(TEXTS)('%s: invalid UTF-8, a lone surrogate among it', async (field, name) => {
      const mark = 'MARK-THE-SPOT';
      const template = Buffer.from(
        toBinary(ReserveEffectRequestSchema, create(ReserveEffectRequestSchema, { ...good, [name]: mark })),
      );
      const at = template.indexOf(mark);
      const surrogate = [0xed, 0xa0, 0x80];
      for (const wrong of [surrogate, [0xed, 0xbf, 0xbf], [0xc0, 0x80], [0xff], [0xe2, 0x82]]) {
        const sent = Buffer.from(template);
        sent.set(wrong, at + mark.length - wrong.length);
        const error = await refusedWith(sendBytes(sent));
        expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', reason: 'FIELD_INVALID' });
        expect(error.violations.map((violation) => violation.field)).toEqual([field]);
      }
    });

    /** What no generated client sends. */
    function sendBytes(message: Buffer): Promise<void> {
      const files = world.layout.callers[HARNESS];
      const client = new Client(
        world.service.target,
        credentials.createSsl(
          readFileSync(world.layout.serviceBundle),
          readFileSync(files?.key ?? ''),
          readFileSync(files?.cert ?? ''),
        ),
      );
      return new Promise<void>((resolve, reject) => {
        client.makeUnaryRequest(
          `/${EffectService.typeName}/${EffectService.method.reserveEffect.name}`,
          (sent: Buffer) => sent,
          (received: Buffer) => received,
          message,
          (error: ServiceError | null) => (error ? reject(suretyError(error)) : resolve()),
        );
      }).finally(() => client.close());
    }
  });

  test('NFC and NFD are two ids, and so are texts that differ by a mark that nobody sees', async () => {
    const forms = ['caf\u00e9', 'cafe\u0301', '\ufeffcaf\u00e9', 'caf\u00e9\u200b', 'CAF\u00c9'];
    const suffix = `-${Date.now()}`;
    const events = forms.map((form) => form + suffix);
    for (const eventId of events) await publishAs(world, HARNESS, { eventId });
    const replies = [];
    for (const eventId of events) {
      replies.push(
        await reserveAs(world, HARNESS, await reservation(world, { eventId, effectKey: eventId })),
      );
    }
    expect(new Set(replies.map(({ effectId }) => effectId)).size).toBe(forms.length);
    expect(replies.every(({ duplicate }) => !duplicate)).toBe(true);
    // A grant for one form covers no other.
    const grantId = await world.grant({ resources: ['caf\u00e9'] });
    const other = await reservation(world, { grantId, resource: 'cafe\u0301' });
    expect(await refusedWith(reserveAs(world, HARNESS, other))).toMatchObject({
      reason: 'GRANT_RESOURCE_NOT_COVERED',
    });
    await reserveAs(world, HARNESS, { ...other, resource: 'caf\u00e9' });
  });

  describe('the exact request', () => {
    test('a digest has 32 bytes', async () => {
      for (const length of [0, 31, 33]) await expectInvalid({ request: bytes(length) }, 'request_digest');
      await expectWellFormed({ request: bytes(32) });
    });

    test('a body has at most 512 KiB; one of nothing is a request too', async () => {
      await expectWellFormed({ request: body(0) });
      await expectWellFormed({ request: body(512 * 1024) });
      await expectInvalid({ request: body(512 * 1024 + 1) }, 'request_body');
    });

    test('one of the two is required', async () => {
      const { request: _, ...neither } = good;
      const error = await refusedWith(reserveAs(world, HARNESS, neither));
      expect(error.violations).toEqual([
        { field: 'request_digest', description: 'is required where request_body is absent' },
      ]);
    });
  });

  test.each(['reservation_ttl', 'execution_deadline'])('%s is 1 s to 24 h', async (field) => {
    const name = field === 'reservation_ttl' ? 'reservationTtl' : 'executionDeadline';
    await expectWellFormed({ [name]: span(1n) });
    await expectWellFormed({ [name]: span(86_400n) });
    for (const wrong of [
      span(0n),
      span(0n, 999_999_000),
      span(86_400n, 1_000),
      span(-1n),
      span(2n ** 63n - 1n),
      span(1n, 1_000_000_000),
      span(1n, -1),
    ]) {
      await expectInvalid({ [name]: wrong }, field);
    }
  });

  test.each([0, 5, -1, 2 ** 31 - 1])('data_class %i is none of the four', async (dataClass) => {
    await expectInvalid({ dataClass }, 'data_class');
  });

  test('a request that is wrong everywhere is told all of it at once', async () => {
    const error = await expectInvalid(
      {
        eventId: '',
        grantId: 'a\nb',
        action: 'x'.repeat(257),
        resource: '\u2028',
        inputSource: '\0',
        outputSink: '',
        dataClass: 9 as never,
        request: bytes(31),
        effectKey: 'x'.repeat(257),
        reservationTtl: span(0n),
        executionDeadline: span(86_401n),
      },
      'event_id',
      'grant_id',
      'action',
      'resource',
      'input_source',
      'output_sink',
      'data_class',
      'request_digest',
      'effect_key',
      'reservation_ttl',
      'execution_deadline',
    );
    // The rule is told, and never the value: it may be anything.
    expect(error.violations.map(({ description }) => description)).not.toContain('xxx');
    expect(error.violations.every(({ description }) => /^(must|is) /.test(description))).toBe(true);
  });
});

import { once } from 'node:events';
import type { IncomingHttpHeaders } from 'node:http2';
import { fromBinary } from '@bufbuild/protobuf';
import { anyUnpack } from '@bufbuild/protobuf/wkt';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BadRequestSchema, ErrorInfoSchema } from '../../src/gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../src/gen/google/rpc/status_pb.js';
import { callLimits } from '../../src/server/call-limits.js';
import { MAX_MESSAGE_BYTES } from '../../src/server/limits.js';
import { frame, type Harness, RawCaller, startHarness } from './harness.js';

let harness: Harness;
let raw: RawCaller;

beforeAll(async () => {
  const timeouts = { requestTimeoutMs: 300, deadlineCeilingMs: 400 };
  harness = await startHarness({ interceptors: [callLimits(timeouts)] });
  raw = new RawCaller(harness);
});
afterAll(async () => {
  raw.close();
  await harness.stop();
});

interface Sent {
  readonly method?: Parameters<RawCaller['open']>[0];
  readonly body: Buffer;
  readonly headers?: Record<string, string>;
  /** The request stays open where it is true. */
  readonly open?: boolean;
}

/** What a client reads of how its call ended. */
async function ending({ method = 'Size', body, headers = {}, open = false }: Sent) {
  const stream = raw.open(method, headers);
  const told: IncomingHttpHeaders = {};
  stream.on('response', (response) => Object.assign(told, response));
  stream.on('trailers', (trailers) => Object.assign(told, trailers));
  stream.resume();
  stream.write(body);
  if (!open) stream.end();
  await once(stream, 'close');
  const details = fromBinary(
    StatusSchema,
    Buffer.from(String(told['grpc-status-details-bin'] ?? ''), 'base64'),
  );
  const infos = details.details.flatMap((any) => anyUnpack(any, ErrorInfoSchema) ?? []);
  const rules = details.details.flatMap((any) => anyUnpack(any, BadRequestSchema)?.fieldViolations ?? []);
  return {
    code: status[Number(told['grpc-status'])],
    sameCode: details.code === Number(told['grpc-status']),
    sameText: details.message === decodeURI(String(told['grpc-message'])),
    text: details.message,
    reasons: infos.map(({ reason, domain }) => `${domain} ${reason}`),
    rules: rules.map(({ description }) => description),
  };
}

const whole = frame(Buffer.alloc(3));
const cases: [string, Sent, code: string, reason: string, text: RegExp][] = [
  [
    'a call that takes longer than any may',
    { method: 'Hang', body: whole },
    'DEADLINE_EXCEEDED',
    'OUTCOME_UNKNOWN',
    /not known whether/,
  ],
  [
    'a request that is not sent in time',
    { body: whole.subarray(0, 6), open: true },
    'DEADLINE_EXCEEDED',
    'DEADLINE_PASSED',
    /not sent in time/,
  ],
  [
    "a caller's deadline",
    { method: 'Hang', body: whole, headers: { 'grpc-timeout': '50m' } },
    'DEADLINE_EXCEEDED',
    'OUTCOME_UNKNOWN',
    /not known whether/,
  ],
  [
    'a second message',
    { body: Buffer.concat([whole, whole]) },
    'RESOURCE_EXHAUSTED',
    'FIELD_INVALID',
    /more than one/,
  ],
  [
    'a message that is too large',
    { body: Buffer.from([0, 0xff, 0xff, 0xff, 0xff, 1]), open: true },
    'RESOURCE_EXHAUSTED',
    'FIELD_INVALID',
    /larger than/,
  ],
  [
    'what is no gzip',
    { body: frame(Buffer.from('no gzip'), true), headers: { 'grpc-encoding': 'gzip' } },
    'INTERNAL',
    'FIELD_INVALID',
    /decompressed/,
  ],
  [
    'an unknown encoding',
    { body: frame(Buffer.from('x'), true), headers: { 'grpc-encoding': 'br' } },
    'UNIMPLEMENTED',
    'FIELD_INVALID',
    /encoding/,
  ],
  [
    'half a message',
    { body: Buffer.from([0, 0, 0, 0, 9, 1]) },
    'UNIMPLEMENTED',
    'FIELD_INVALID',
    /whole message/,
  ],
  ['no message', { body: Buffer.alloc(0) }, 'UNIMPLEMENTED', 'FIELD_INVALID', /whole message/],
  [
    'a timeout that is none',
    { body: whole, headers: { 'grpc-timeout': 'soon' } },
    'INTERNAL',
    'FIELD_INVALID',
    /deadline/,
  ],
];

describe('what ends a call before or beside its handler has a reason', () => {
  it.each(cases)('%s', async (_, sent, code, reason, text) => {
    const told = await ending(sent);
    expect(told).toMatchObject({ code, sameCode: true, sameText: true, reasons: [`surety ${reason}`] });
    expect(told.text).toMatch(text);
    expect(told.rules).toHaveLength(reason === 'FIELD_INVALID' ? 1 : 0);
  });

  it('names the limit, not what was sent', async () => {
    const { text, rules } = await ending({ body: Buffer.from([0, 0xff, 0xff, 0xff, 0xff, 1]), open: true });
    expect(`${text} ${rules.join()}`).not.toContain('4294967295');
    expect(rules).toEqual([`must be at most ${MAX_MESSAGE_BYTES} bytes, decompressed`]);
  });

  it('leaves alone what has metadata of its own, and what is well', async () => {
    expect(await raw.send('Size', whole)).toEqual({ code: 'OK', text: '3' });
  });
});

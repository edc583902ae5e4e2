import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import { fromBinary } from '@bufbuild/protobuf';
import { anyUnpack } from '@bufbuild/protobuf/wkt';
import { type Client, Code, ConnectError, createClient, type Transport } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { digest, type WorkloadSession } from '../../src/cli/client/workload-session.js';
import {
  DEMO_ACTION,
  DEMO_DATA_CLASS,
  DEMO_INPUT_SOURCE,
  DEMO_SINK,
} from '../../src/cli/demo/set-up-domain.js';
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from '../../src/gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../src/gen/google/rpc/status_pb.js';
import {
  Health,
  HealthCheckResponse_ServingStatus as Serving,
} from '../../src/gen/grpc/health/v1/health_pb.js';
import { AuditService, WatchEntriesResponseSchema } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { EffectState } from '../../src/gen/surety/effect/v1/effect_pb.js';
import {
  EffectService,
  ReserveEffectResponseSchema,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { CallerKind } from '../../src/gen/surety/identity/v1/workload_pb.js';
import {
  WhoAmIResponseSchema,
  WorkloadService,
} from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import {
  ACME,
  AUDIENCE,
  AUDITOR,
  type E2eWorld,
  EXECUTOR_A,
  HARNESS,
  openE2eWorld,
} from '../support/e2e-world.js';

// The service speaks gRPC, not the dialect of one library: everything else here is tested through grpc-js, this through
// connect-node and through bytes that were framed by hand (gRPC over HTTP/2, and the protobuf wire format).

let world: E2eWorld;
let executor: WorkloadSession;
beforeAll(async () => {
  world = await openE2eWorld();
  executor = await world.executor();
});
afterAll(() => world.close());

function tlsOf(spiffeId: string): { ca: Buffer; cert: Buffer; key: Buffer } {
  const files = world.layout.callers[spiffeId];
  if (!files) throw new Error(`no certificate of ${spiffeId}`);
  return {
    ca: readFileSync(world.layout.serviceBundle),
    cert: readFileSync(files.cert),
    key: readFileSync(files.key),
  };
}

function origin(): string {
  return `https://localhost:${world.service.target.split(':')[1]}`;
}

/** A whole request to reserve, under an event and a grant of its own. */
async function reservation() {
  const eventId = await world.publish();
  return {
    eventId,
    grantId: await world.grant(),
    action: DEMO_ACTION,
    resource: 'order-1184',
    inputSource: DEMO_INPUT_SOURCE,
    outputSink: DEMO_SINK,
    dataClass: DEMO_DATA_CLASS,
    request: { case: 'requestDigest' as const, value: digest(eventId) },
  };
}

describe('connect-node', () => {
  const transport = (spiffeId: string): Transport =>
    createGrpcTransport({ baseUrl: origin(), nodeOptions: tlsOf(spiffeId) });

  async function failure(call: Promise<unknown>): Promise<ConnectError> {
    return call.then(
      () => expect.fail('the call was not refused'),
      (error: unknown) => ConnectError.from(error),
    );
  }

  let effects: Client<typeof EffectService>;
  beforeAll(() => {
    effects = createClient(EffectService, transport(HARNESS));
  });

  test('learns who it is', async () => {
    const me = await createClient(WorkloadService, transport(HARNESS)).whoAmI({});
    expect(me).toMatchObject({
      spiffeId: HARNESS,
      kind: CallerKind.HARNESS,
      domainId: ACME,
      audience: AUDIENCE,
      incarnation: 1n,
    });
    expect(me.certificateDigest).toHaveLength(32);
  });

  test('reserves, is answered the same again, and executes to the end', async () => {
    const request = await reservation();
    const first = await effects.reserveEffect(request);
    expect(first).toMatchObject({ duplicate: false, currentState: EffectState.PREPARED });
    // Beyond 2^40: the incarnation is in it. No digit is lost on the way.
    expect(first.fence).toBeGreaterThan(2n ** 40n);
    const { rows } = await world.sql.query('SELECT fence::text FROM effects WHERE effect_id = $1', [
      first.effectId,
    ]);
    expect(first.fence.toString()).toBe(rows[0].fence);
    expect(await effects.reserveEffect(request)).toEqual({ ...first, duplicate: true });

    const mine = createClient(EffectService, transport(EXECUTOR_A));
    const attemptId = `attempt-${randomUUID()}`;
    const effect = await executor.look(first.effectId);
    const started = await mine.startExecution(await executor.start(effect, attemptId));
    expect(started.result).toMatchObject({ state: EffectState.EXECUTING, duplicate: false });
    expect(started.sendWindow).toMatchObject({ seconds: 60n });
    const done = await mine.acknowledgeTerminal(
      await executor.acknowledge(effect, EffectState.FAILED, {
        attemptId,
        receiptId: 'receipt-1',
        receipt: 'no',
      }),
    );
    expect(done.result).toMatchObject({ state: EffectState.FAILED, step: 3n });
  });

  test('reads why it was refused, and every field that was wrong', async () => {
    const wrong = await failure(effects.reserveEffect({ resource: 'a\u0000b' }));
    expect(wrong.code).toBe(Code.InvalidArgument);
    const [info] = wrong.findDetails(ErrorInfoSchema);
    expect(info).toMatchObject({ reason: 'FIELD_INVALID', domain: 'surety' });
    const fields = wrong.findDetails(BadRequestSchema).flatMap(({ fieldViolations }) => fieldViolations);
    expect(fields.map(({ field }) => field)).toEqual(
      expect.arrayContaining(['event_id', 'grant_id', 'action', 'resource', 'output_sink', 'data_class']),
    );

    const request = await reservation();
    await effects.reserveEffect({ ...request, effectKey: `key-${request.eventId}` });
    const busy = await failure(
      effects.reserveEffect({ ...(await reservation()), effectKey: `key-${request.eventId}` }),
    );
    expect(busy.code).toBe(Code.FailedPrecondition);
    expect(busy.findDetails(ErrorInfoSchema)[0]).toMatchObject({
      reason: 'EFFECT_KEY_BUSY',
      metadata: { effect_id: expect.stringMatching(/.+/) },
    });
    const forbidden = await failure(effects.reconcile({ effectId: 'any' }));
    expect(forbidden.code).toBe(Code.PermissionDenied);
    expect(forbidden.findDetails(ErrorInfoSchema)[0]).toMatchObject({ reason: 'METHOD_NOT_ALLOWED' });
    // Text that is not ASCII comes through percent-encoding and back.
    expect(forbidden.rawMessage).not.toMatch(/%[0-9A-F]{2}/);
  });

  test('reads when to come back', async () => {
    const { effect, attemptId } = await world.effectIn(EffectState.UNKNOWN, executor);
    const reconciler = await world.reconciler();
    const request = await reconciler.reconcile(effect, EffectState.FAILED, {
      attemptId,
      authoritySystemId: 'bank-ledger',
      queryId: 'query-too-early',
      response: 'nothing yet',
    });
    const client = createClient(EffectService, transport(reconciler.registration.spiffeId));
    const early = await failure(client.reconcile(request));
    expect(early.findDetails(ErrorInfoSchema)[0]).toMatchObject({ reason: 'RECONCILE_TOO_EARLY' });
    const [retry] = early.findDetails(RetryInfoSchema);
    expect(Number(retry?.retryDelay?.seconds)).toBeGreaterThan(60);
    expect(Number(retry?.retryDelay?.seconds)).toBeLessThanOrEqual(121);
  });

  test('follows the log, from a position on, until it has had enough', async () => {
    const audit = createClient(AuditService, transport(AUDITOR));
    const { headSeq } = await audit.listEntries({ domainId: ACME, pageSize: 1 });
    const enough = new AbortController();
    const stream = audit.watchEntries({ domainId: ACME, afterSeq: headSeq - 2n }, { signal: enough.signal });
    const seen: bigint[] = [];
    const watching = (async () => {
      for await (const { entry } of stream) {
        if (entry === undefined) continue;
        seen.push(entry.seq);
        // What is there, and then what comes.
        if (seen.length === 2) void world.publish();
        if (seen.length === 4) enough.abort();
      }
    })();
    expect((await failure(watching)).code).toBe(Code.Canceled);
    expect(seen).toEqual([headSeq - 1n, headSeq, headSeq + 1n, headSeq + 2n]);
    const health = createClient(Health, transport(AUDITOR));
    for await (const { status } of health.watch({})) {
      expect(status).toBe(Serving.SERVING);
      break;
    }
  });

  test('is refused in a stream as in a call, and told how long it may take', async () => {
    const refused = (async () => {
      for await (const _ of createClient(AuditService, transport(HARNESS)).watchEntries({ domainId: ACME }));
    })();
    expect((await failure(refused)).findDetails(ErrorInfoSchema)[0]).toMatchObject({
      reason: 'METHOD_NOT_ALLOWED',
    });
    const bored = (async () => {
      const audit = createClient(AuditService, transport(AUDITOR));
      for await (const _ of audit.watchEntries({ domainId: ACME }, { timeoutMs: 700 }));
    })();
    expect((await failure(bored)).code).toBe(Code.DeadlineExceeded);
  });
});

describe('bytes by hand, over node:http2', () => {
  let session: ClientHttp2Session;
  beforeAll(async () => {
    session = connect(origin(), { ...tlsOf(HARNESS), ALPNProtocols: ['h2'] });
    await once(session, 'connect');
  });
  afterAll(() => session.close());

  interface Reply {
    readonly status: string;
    readonly contentType: string;
    readonly messages: readonly Buffer[];
    readonly trailers: Readonly<Record<string, string>>;
  }

  function open(
    method: string,
    message: Uint8Array,
    headers: Readonly<Record<string, string>> = {},
  ): ClientHttp2Stream {
    const stream = session.request({
      ':method': 'POST',
      ':path': method,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    const frame = Buffer.alloc(5 + message.length);
    frame.writeUInt32BE(message.length, 1);
    frame.set(message, 5);
    stream.end(frame);
    return stream;
  }

  async function call(...args: Parameters<typeof open>): Promise<Reply> {
    const stream = open(...args);
    const chunks: Buffer[] = [];
    const trailers: Record<string, string> = {};
    const keep = (headers: object): void => void Object.assign(trailers, headers);
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('trailers', keep);
    const [head] = (await once(stream, 'response')) as [Record<string, string>];
    await once(stream, 'close');
    // An answer without a message may put everything into its head.
    if (head['grpc-status'] !== undefined) keep(head);
    return {
      status: String(head[':status']),
      contentType: head['content-type'] ?? '',
      messages: framesOf(Buffer.concat(chunks)),
      trailers,
    };
  }

  test('WhoAmI', async () => {
    // Field 1, length-delimited.
    const request = field(1, Buffer.from(ACME));
    const reply = await call('/surety.identity.v1.WorkloadService/WhoAmI', request, { 'grpc-timeout': '5S' });
    expect(reply).toMatchObject({ status: '200', trailers: { 'grpc-status': '0' } });
    expect(reply.contentType).toMatch(/^application\/grpc/);
    expect(reply.messages).toHaveLength(1);
    const me = fromBinary(WhoAmIResponseSchema, reply.messages[0] ?? Buffer.alloc(0));
    expect(me).toMatchObject({ spiffeId: HARNESS, domainId: ACME });
  });

  test('ReserveEffect, with fields in any order and a body that is hashed as it is', async () => {
    const eventId = await world.publish();
    const grantId = await world.grant();
    const texts = [eventId, grantId, DEMO_ACTION, 'order-1184', DEMO_INPUT_SOURCE, DEMO_SINK];
    const body = Buffer.from([0, 255, 10, 13]);
    const fields = [
      field(9, body),
      Buffer.from([(7 << 3) | 0, DEMO_DATA_CLASS]),
      ...texts.map((text, i) => field(i + 1, Buffer.from(text))).reverse(),
    ];
    const reply = await call('/surety.effect.v1.EffectService/ReserveEffect', Buffer.concat(fields));
    expect(reply.trailers['grpc-status']).toBe('0');
    const reserved = fromBinary(ReserveEffectResponseSchema, reply.messages[0] ?? Buffer.alloc(0));
    expect(reserved.duplicate).toBe(false);
    const { rows } = await world.sql.query('SELECT request_digest FROM effects WHERE effect_id = $1', [
      reserved.effectId,
    ]);
    expect(rows[0].request_digest).toEqual(Buffer.from(digest(body)));
  });

  test('a refusal with its details', async () => {
    const reply = await call('/surety.effect.v1.EffectService/ReserveEffect', Buffer.alloc(0));
    expect(reply).toMatchObject({ status: '200', messages: [], trailers: { 'grpc-status': '3' } });
    const details = reply.trailers['grpc-status-details-bin'] ?? '';
    const status = fromBinary(StatusSchema, Buffer.from(details, 'base64'));
    expect(status.code).toBe(3);
    expect(decodeURIComponent(reply.trailers['grpc-message'] ?? '')).toBe(status.message);
    const reasons = status.details.map((any) => anyUnpack(any, ErrorInfoSchema)?.reason);
    expect(reasons).toContain('FIELD_INVALID');
    const fields = status.details.flatMap((any) => anyUnpack(any, BadRequestSchema)?.fieldViolations ?? []);
    expect(fields.map((each) => each.field)).toContain('event_id');
  });

  test('a method that there is not, and a service that there is not', async () => {
    for (const path of [
      '/surety.effect.v1.EffectService/Undo',
      '/surety.effect.v2.EffectService/GetEffect',
    ]) {
      const reply = await call(path, Buffer.alloc(0));
      expect(reply.trailers['grpc-status']).toBe('12');
    }
  });

  test('a stream, message by message, until it is reset', async () => {
    const auditor = connect(origin(), { ...tlsOf(AUDITOR), ALPNProtocols: ['h2'] });
    const before = session;
    session = auditor;
    try {
      const stream = open('/surety.audit.v1.AuditService/WatchEntries', field(1, Buffer.from(ACME)));
      let received = Buffer.alloc(0);
      stream.on('data', (chunk: Buffer) => (received = Buffer.concat([received, chunk])));
      await expect.poll(() => framesOf(received).length).toBeGreaterThan(7);
      // Heartbeats, the first at once, hold no entry.
      const replies = framesOf(received).map((bytes) => fromBinary(WatchEntriesResponseSchema, bytes));
      const positions = replies.flatMap(({ entry }) => (entry === undefined ? [] : [entry.seq]));
      expect(positions.slice(0, 5)).toEqual([1n, 2n, 3n, 4n, 5n]);
      stream.close(8);
      await once(stream, 'close');
    } finally {
      session = before;
      auditor.close();
    }
  });
});

/** A length-delimited field shorter than 128 octets. */
function field(number: number, content: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([(number << 3) | 2, content.length]), content]);
}

/** The messages of a gRPC body, as far as they are there whole; none is compressed unless it was asked for. */
function framesOf(body: Buffer): Buffer[] {
  const messages: Buffer[] = [];
  for (let at = 0; at + 5 <= body.length; ) {
    expect(body[at]).toBe(0);
    const end = at + 5 + body.readUInt32BE(at + 1);
    if (end > body.length) break;
    messages.push(body.subarray(at + 5, end));
    at = end;
  }
  return messages;
}

import { create, type DescMessage, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { afterEach, describe, expect, it } from 'vitest';
import { AdminCommandSchema } from '../../src/gen/surety/authority/v1/command_pb.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import {
  AuditService,
  WatchEntriesRequestSchema,
  WatchEntriesResponseSchema,
} from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import {
  EffectService,
  StartExecutionRequestSchema,
} from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { EventService, PublishEventRequestSchema } from '../../src/gen/surety/event/v1/event_service_pb.js';
import {
  WhoAmIResponseSchema,
  WorkloadService,
} from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { ProvenanceService } from '../../src/gen/surety/provenance/v1/provenance_service_pb.js';
import { refusal } from '../../src/ledger/refusal.js';
import { Refused } from '../../src/ledger/run-decision.js';
import type { CallContext, ServiceBinding } from '../../src/rpc/handler.js';
import { StoreError } from '../../src/store/store-error.js';
import type { Authority } from '../support/pki.js';
import {
  CALLERS,
  readAll,
  type RpcHarness,
  type RpcHarnessOptions,
  slowReader,
  startRpc,
  TestClient,
  until,
} from './harness.js';

type Service = ServiceBinding['service'];
type Handler = (request: never, context: CallContext) => unknown;

/** A binding whose other methods answer nothing. */
function fake(service: unknown, handlers: Record<string, Handler>): ServiceBinding {
  const all = (service as Service).methods.map(({ localName }) => [
    localName,
    handlers[localName] ?? (async () => ({})),
  ]);
  return { service, handlers: Object.fromEntries(all) } as ServiceBinding;
}

let harness: RpcHarness | undefined;
const start = async (bindings: readonly ServiceBinding[], options?: RpcHarnessOptions): Promise<RpcHarness> =>
  (harness = await startRpc(bindings, options));

afterEach(async () => {
  await harness?.stop();
  harness = undefined;
});

const whoAmI = WorkloadService.method.whoAmI;
const watch = AuditService.method.watchEntries;

describe('a unary call', () => {
  it('reaches its handler with the caller, the kind, the domain, a request id and the deadline', async () => {
    const seen: CallContext[] = [];
    const rpc = await start([
      fake(WorkloadService, {
        whoAmI: async (_, context) => {
          seen.push(context);
          return { spiffeId: context.caller.spiffeId, incarnation: 2n ** 62n };
        },
      }),
    ]);
    const result = await rpc.client(CALLERS.executor).call(whoAmI, {}, { timeoutMs: 5_000 });
    expect(result.code).toBe('OK');
    expect(fromBinary(WhoAmIResponseSchema, result.reply as Buffer)).toMatchObject({
      spiffeId: CALLERS.executor,
      incarnation: 2n ** 62n,
    });
    const [context] = seen as [CallContext];
    expect(context).toMatchObject({ kind: 'executor', domainId: 'acme.test' });
    expect(context.caller).toMatchObject({ spiffeId: CALLERS.executor, trustDomain: 'acme.test' });
    expect(context.caller.leafDigest.equals(rpc.certificate(CALLERS.executor).sha256)).toBe(true);
    expect(context.requestId).toMatch(/^req_[a-z2-7]{26}$/);
    const left = (context.deadline ?? 0) - performance.now();
    expect(left).toBeGreaterThan(2_000);
    expect(left).toBeLessThanOrEqual(5_000);
  });

  it('has a deadline also where the client sets none', async () => {
    let deadline: number | undefined;
    const rpc = await start(
      [
        fake(WorkloadService, {
          whoAmI: async (_, context) => {
            deadline = context.deadline;
            return {};
          },
        }),
      ],
      { callTimeouts: { requestTimeoutMs: 5_000, deadlineCeilingMs: 3_000 } },
    );
    await rpc.client(CALLERS.executor).call(whoAmI, {}, { timeoutMs: 60_000 });
    expect((deadline ?? Infinity) - performance.now()).toBeLessThanOrEqual(3_000);
  });

  it('is refused with the code, the reason and the request id', async () => {
    const rpc = await start([
      fake(EffectService, {
        startExecution: async () => {
          throw new Refused(refusal('START_TOO_LATE', 'Too late.', { metadata: { x: 'y' } }));
        },
      }),
    ]);
    const result = await rpc.client(CALLERS.executor).call(EffectService.method.startExecution);
    expect(result).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'START_TOO_LATE',
      metadata: { x: 'y' },
    });
    expect(result.trailers.get('x-request-id')).toEqual([rpc.ended[0]?.requestId]);
    expect(rpc.ended[0]).toMatchObject({ reason: 'START_TOO_LATE', kind: 'executor', domainId: 'acme.test' });
  });

  it('that meets a bug tells an id, and the log has the same id and the text', async () => {
    const rpc = await start([
      fake(WorkloadService, {
        whoAmI: async () => {
          throw Object.assign(new Error('relation "effects" does not exist'), {
            detail: 'Key (id)=(secret)',
          });
        },
      }),
    ]);
    const result = await rpc.client(CALLERS.executor).call(whoAmI);
    expect(result).toMatchObject({ code: 'INTERNAL', reason: 'INTERNAL' });
    expect(result.details).not.toMatch(/relation|effects/);
    const [logged] = rpc.errors;
    expect(logged?.fields['requestId']).toBe(result.metadata['id']);
    expect(JSON.stringify(logged)).toContain('relation \\"effects\\"');
    expect(JSON.stringify(logged)).not.toContain('secret');
  });

  it('that would answer more than a message may hold says so, by the page size', async () => {
    const rpc = await start(
      [fake(AuditService, { listEntries: async () => ({ entries: [{ entry: new Uint8Array(2_000) }] }) })],
      { adapter: { maxReplyBytes: 1_000 } },
    );
    const result = await rpc
      .client(CALLERS.auditor)
      .call(AuditService.method.listEntries, { domainId: 'surety.test' });
    expect(result).toMatchObject({ code: 'INVALID_ARGUMENT', violations: [{ field: 'page_size' }] });
  });

  it('whose deadline passes is told so by the protocol, and goes on', async () => {
    let release: () => void = () => {};
    const commit = new Promise<void>((resolve) => (release = resolve));
    let committed = false;
    const rpc = await start([
      fake(EffectService, {
        startExecution: async () => {
          await commit;
          committed = true;
          return {};
        },
      }),
    ]);
    const { startExecution } = EffectService.method;
    // Long enough for the handshake on a busy machine: the deadline is to pass in the handler.
    const result = await rpc.client(CALLERS.executor).call(startExecution, {}, { timeoutMs: 1_500 });
    // No reason: nobody knows yet what became of it.
    expect(result).toMatchObject({ code: 'DEADLINE_EXCEEDED', reason: undefined });
    await until(() => rpc.ended.length === 1, 'the end of the call');
    expect(rpc.ended).toMatchObject([{ code: 4 }]);
    expect(rpc.adapter.activeCalls).toBe(1);
    release();
    await until(() => committed && rpc.adapter.activeCalls === 0, 'the end of the command');
  });

  it('goes on when its caller goes away', async () => {
    let begun = false;
    let aborted = false;
    let committed = false;
    let release: () => void = () => {};
    const commit = new Promise<void>((resolve) => (release = resolve));
    const rpc = await start([
      fake(EffectService, {
        startExecution: async (_, { signal }) => {
          signal.addEventListener('abort', () => (aborted = true));
          begun = true;
          await commit;
          committed = true;
          return {};
        },
      }),
    ]);
    const { client } = rpc.client(CALLERS.executor);
    const path = '/surety.effect.v1.EffectService/StartExecution';
    const call = client.makeUnaryRequest(
      path,
      (b: Buffer) => b,
      (b: Buffer) => b,
      Buffer.alloc(0),
      () => {},
    );
    await until(() => begun, 'the call');
    call.cancel();
    await until(() => aborted, 'the signal');
    expect(rpc.adapter.activeCalls).toBe(1);
    release();
    await until(() => committed && rpc.adapter.activeCalls === 0, 'the end of the command');
    expect(rpc.ended).toMatchObject([{ code: 1 }]);
    expect(rpc.errors).toEqual([]);
  });
});

describe('bytes that are no request', () => {
  const bytesOf = <S extends DescMessage>(schema: S, init: MessageInitShape<S>): Buffer =>
    Buffer.from(toBinary(schema, create(schema, init)));
  const publish = EventService.method.publishEvent;

  it.each([
    ['cut off within a text', Buffer.from([0x0a, 0x05, 0x61]), 'event_id', 'must not be cut off'],
    ['cut off within a tag', Buffer.from([0x80]), '', 'must not be cut off'],
    ['a text that is not UTF-8', Buffer.from([0x0a, 0x02, 0xc3, 0x28]), 'event_id', 'must be valid UTF-8'],
    ['a lone surrogate', Buffer.from([0x12, 0x03, 0xed, 0xa0, 0x80]), 'type', 'must be valid UTF-8'],
    [
      'the third recipient is not UTF-8',
      Buffer.from([0x1a, 0x01, 0x61, 0x1a, 0x01, 0x62, 0x1a, 0x01, 0xff]),
      'recipient_harness_ids[2]',
      'must be valid UTF-8',
    ],
    [
      'cut off in a nested message',
      Buffer.from([0x42, 0x03, 0x12, 0x05, 0x61]),
      'origin.source_id',
      undefined,
    ],
  ])('%s: FIELD_INVALID with its path', async (_, bytes, field, rule) => {
    let called = false;
    const rpc = await start([fake(EventService, { publishEvent: async () => ((called = true), {}) })]);
    const result = await rpc.client(CALLERS.harness).call(publish, bytes);
    expect(result).toMatchObject({ code: 'INVALID_ARGUMENT', reason: 'FIELD_INVALID' });
    const [violation] = result.violations;
    if (rule !== undefined) expect(violation).toEqual({ field, description: rule });
    else expect(violation?.field).toMatch(/^origin\./);
    expect(called).toBe(false);
  });

  it('may hold fields that a newer contract has', async () => {
    const rpc = await start([fake(EventService, { publishEvent: async () => ({}) })]);
    const known = bytesOf(PublishEventRequestSchema, { eventId: 'evt' });
    const result = await rpc
      .client(CALLERS.harness)
      .call(publish, Buffer.concat([known, Buffer.from([0xf8, 0x7f, 0x01])]));
    expect(result.code).toBe('OK');
  });

  it('keeps texts that differ in normalization or a byte order mark apart', async () => {
    const seen: string[] = [];
    const rpc = await start([
      fake(EventService, {
        publishEvent: async ({ eventId }: { eventId: string }) => (seen.push(eventId), {}),
      }),
    ]);
    const client = rpc.client(CALLERS.harness);
    for (const eventId of ['é', 'e\u0301', '\ufeffx', 'x']) await client.call(publish, { eventId });
    expect(seen).toEqual(['é', 'e\u0301', '\ufeffx', 'x']);
  });

  it('are told only to a caller that may call the method', async () => {
    const rpc = await start([fake(EventService, {})]);
    const malformed = Buffer.from([0x0a, 0x05]);
    const stranger = await rpc.client('spiffe://acme.test/nobody').call(publish, malformed);
    expect(stranger).toMatchObject({ code: 'UNAUTHENTICATED', reason: 'CALLER_UNKNOWN' });
    const executor = await rpc.client(CALLERS.executor).call(publish, malformed);
    expect(executor).toMatchObject({
      code: 'PERMISSION_DENIED',
      reason: 'METHOD_NOT_ALLOWED',
      metadata: { method: 'surety.event.v1.EventService/PublishEvent', kind: 'executor' },
    });
  });

  it('in nested fields are found by the path of proto names', async () => {
    const rpc = await start([fake(EffectService, {})]);
    const request = bytesOf(StartExecutionRequestSchema, { effectId: 'eff', evidence: new Uint8Array([1]) });
    const proof = Buffer.from([0x1a, 0x03, 0x0a, 0x01, 0xff]);
    const result = await rpc
      .client(CALLERS.executor)
      .call(EffectService.method.startExecution, Buffer.concat([request, proof]));
    expect(result.violations[0]?.field).toMatch(/^proof\.\w+$/);
  });
});

describe('the domain of a call', () => {
  const domains: string[] = [];
  const note: Handler = async (_, { domainId }) => (domains.push(domainId), {});
  const services = (): ServiceBinding[] => [
    fake(EffectService, { getEffect: note, listEffects: note }),
    fake(WorkloadService, { whoAmI: note }),
    fake(AdminService, { executeCommand: note, getDomain: note }),
    fake(ProvenanceService, { verifyReference: note }),
  ];
  const { getEffect } = EffectService.method;

  it('is named by operators and auditors, and is their own for the others', async () => {
    const rpc = await start(services());
    domains.length = 0;
    const operator = rpc.client(CALLERS.operator);
    expect(await operator.call(getEffect, { domainId: 'acme.test' })).toMatchObject({ code: 'OK' });
    expect(await operator.call(getEffect, {})).toMatchObject({
      reason: 'FIELD_INVALID',
      violations: [{ field: 'domain_id' }],
    });
    expect(await operator.call(getEffect, { domainId: 'ACME/../x' })).toMatchObject({
      reason: 'FIELD_INVALID',
    });
    expect(await rpc.client(CALLERS.harness).call(getEffect, {})).toMatchObject({ code: 'OK' });
    // It may be left out where nothing of a domain is asked for.
    expect(await operator.call(whoAmI, {})).toMatchObject({ code: 'OK' });
    expect(domains).toEqual(['acme.test', 'acme.test', 'surety.test']);
  });

  it('that is another one than a harness lives in looks like nothing at all', async () => {
    const rpc = await start(services());
    const client = rpc.client(CALLERS.harness);
    for (const domainId of ['globex.test', 'absent.test']) {
      expect(await client.call(getEffect, { domainId })).toMatchObject({
        code: 'PERMISSION_DENIED',
        reason: 'NOT_VISIBLE',
      });
    }
    // Not even where its name was put into the other domain's registry.
    rpc.registry.kinds.get('globex.test')?.set(CALLERS.reconciler, 'reconciler');
    const reconciler = rpc.client(CALLERS.reconciler);
    expect(await reconciler.call(getEffect, { domainId: 'globex.test' })).toMatchObject({
      reason: 'NOT_VISIBLE',
    });
  });

  it('may be one that is not there, to a platform operator', async () => {
    const rpc = await start(services());
    domains.length = 0;
    const result = await rpc
      .client(CALLERS.operator)
      .call(AdminService.method.getDomain, { domainId: 'absent.test' });
    expect(result.code).toBe('OK');
    expect(domains).toEqual(['absent.test']);
  });

  it('is read from a nested field where the contract has it there', async () => {
    const rpc = await start(services());
    domains.length = 0;
    const { verifyReference } = ProvenanceService.method;
    const client = rpc.client(CALLERS.auditor);
    expect(await client.call(verifyReference, { reference: { domainId: 'globex.test' } })).toMatchObject({
      code: 'OK',
    });
    expect(await client.call(verifyReference, {})).toMatchObject({
      violations: [{ field: 'reference.domain_id' }],
    });
    expect(domains).toEqual(['globex.test']);
  });

  it("is looked up in a signed command's header, and nothing there is believed", async () => {
    const rpc = await start(services());
    domains.length = 0;
    const payload = toBinary(
      AdminCommandSchema,
      create(AdminCommandSchema, { header: { domainId: 'acme.test' } }),
    );
    const commandJws = `e30.${Buffer.from(payload).toString('base64url')}.${'A'.repeat(86)}`;
    const { executeCommand } = AdminService.method;
    const operator = rpc.client(CALLERS.operator);
    expect(await operator.call(executeCommand, { commandJws })).toMatchObject({ code: 'OK' });
    // What cannot be read is for the method to refuse.
    expect(await operator.call(executeCommand, { commandJws: 'x.y.z' })).toMatchObject({ code: 'OK' });
    expect(domains).toEqual(['acme.test', 'surety.test']);
    expect(await rpc.client(CALLERS.harness).call(executeCommand, { commandJws })).toMatchObject({
      reason: 'METHOD_NOT_ALLOWED',
    });
  });
});

describe('the caller', () => {
  it('whose certificate breaks a rule is UNAUTHENTICATED on each call', async () => {
    const rpc = await start([fake(WorkloadService, {})]);
    const acme = rpc.authorities['acme.test'] as Authority;
    const ca = acme.leaf(CALLERS.executor, { basicConstraints: { ca: true } });
    const client = new TestClient(rpc.port, (rpc.authorities['surety.test'] as Authority).pem, ca);
    for (let count = 0; count < 2; count += 1) {
      expect(await client.call(whoAmI)).toMatchObject({
        code: 'UNAUTHENTICATED',
        reason: 'CERTIFICATE_REJECTED',
        metadata: { rule: 'LEAF_IS_CA' },
      });
    }
    client.close();
  });

  it('whose certificate expires while the connection lives is judged by the clock of the store', async () => {
    const rpc = await start([fake(WorkloadService, {})]);
    const client = rpc.client(CALLERS.executor);
    expect((await client.call(whoAmI)).code).toBe('OK');
    rpc.clock.offset = 25n * 3_600_000_000n;
    expect(await client.call(whoAmI)).toMatchObject({
      code: 'UNAUTHENTICATED',
      reason: 'CERTIFICATE_REJECTED',
      metadata: { rule: 'EXPIRED' },
    });
  });

  it('is nobody because of a header', async () => {
    const rpc = await start([fake(WorkloadService, {})]);
    const headers = { 'x-spiffe-id': CALLERS.operator, 'x-forwarded-client-cert': `URI=${CALLERS.operator}` };
    const result = await rpc.client('spiffe://acme.test/nobody').call(whoAmI, {}, { headers });
    expect(result).toMatchObject({ code: 'UNAUTHENTICATED', reason: 'CALLER_UNKNOWN' });
  });

  it('is told that the store is away, and that nothing was done', async () => {
    const rpc = await start([fake(WorkloadService, {})]);
    rpc.registry.failure = new StoreError('not_done', true, 'ECONNREFUSED');
    const client = rpc.client(CALLERS.executor);
    expect(await client.call(whoAmI)).toMatchObject({ code: 'UNAVAILABLE', reason: 'STORE_UNAVAILABLE' });
    rpc.registry.failure = undefined;
    expect(await client.call(whoAmI)).toMatchObject({ code: 'OK' });
  });

  it('names its request only for the log, and only with clean characters', async () => {
    const rpc = await start([fake(WorkloadService, {})]);
    const client = rpc.client(CALLERS.executor);
    await client.call(whoAmI, {}, { headers: { 'x-request-id': 'order-1184' } });
    await client.call(whoAmI, {}, { headers: { 'x-request-id': 'x'.repeat(500) } });
    expect(rpc.ended.map(({ clientRequestId }) => clientRequestId)).toEqual(['order-1184', undefined]);
    expect(rpc.ended.map(({ requestId }) => requestId)).not.toContain('order-1184');
  });

  it('is refused everything but health once the service drains', async () => {
    const rpc = await start([fake(WorkloadService, {})]);
    const client = rpc.client(CALLERS.executor);
    expect((await client.call(whoAmI)).code).toBe('OK');
    rpc.gate.drain();
    expect(await client.call(whoAmI)).toMatchObject({ code: 'UNAVAILABLE', reason: 'DRAINING' });
  });
});

describe('a stream', () => {
  const position = (message: Buffer): number =>
    Number(fromBinary(WatchEntriesResponseSchema, message).position);
  const request = { domainId: 'surety.test' };

  /** Sends positions until its signal aborts. */
  function endless(state: { sent: number; ended: boolean }, entry = new Uint8Array(0)): ServiceBinding {
    return fake(AuditService, {
      watchEntries: async function* (_: never, { signal }: CallContext) {
        try {
          while (!signal.aborted) {
            state.sent += 1;
            yield { position: BigInt(state.sent), entry: { entry } };
            await new Promise((resolve) => setImmediate(resolve));
          }
        } finally {
          state.ended = true;
        }
      },
    });
  }

  it('comes in order and ends', async () => {
    const rpc = await start([
      fake(AuditService, {
        watchEntries: async function* () {
          for (let index = 1n; index <= 500n; index += 1n) yield { position: index };
        },
      }),
    ]);
    const { messages, end } = await readAll(rpc.client(CALLERS.auditor).stream(watch, request));
    expect(end.code).toBe('OK');
    expect(messages.map(position)).toEqual(Array.from({ length: 500 }, (_, index) => index + 1));
    expect(rpc.adapter.activeCalls).toBe(0);
    expect(rpc.ended).toMatchObject([{ code: 0, streams: true }]);
  });

  it('tells a refusal, before and after its first message', async () => {
    let after = 0;
    const rpc = await start([
      fake(AuditService, {
        watchEntries: async function* () {
          for (let index = 0; index < after; index += 1) yield { position: 1n };
          throw new Refused(refusal('DATA_CORRUPT', 'Entry 7.', { metadata: { record: 'audit/7' } }));
        },
      }),
    ]);
    const client = rpc.client(CALLERS.auditor);
    for (after of [0, 3]) {
      const { messages, end } = await readAll(client.stream(watch, request));
      expect(messages.length).toBe(after);
      expect(end).toMatchObject({
        code: 'DATA_LOSS',
        reason: 'DATA_CORRUPT',
        metadata: { record: 'audit/7' },
      });
    }
    expect((await readAll(client.stream(watch, {}))).end).toMatchObject({
      violations: [{ field: 'domain_id' }],
    });
    expect((await readAll(client.stream(watch, Buffer.from([0x0a, 5])))).end).toMatchObject({
      reason: 'FIELD_INVALID',
    });
    const harnessClient = rpc.client(CALLERS.harness);
    expect((await readAll(harnessClient.stream(watch, { domainId: 'acme.test' }))).end).toMatchObject({
      reason: 'METHOD_NOT_ALLOWED',
    });
  });

  const requestBytes = Buffer.from(
    toBinary(WatchEntriesRequestSchema, create(WatchEntriesRequestSchema, request)),
  );

  it('asks its handler for no more than a slow reader takes', async () => {
    const state = { sent: 0, ended: false };
    const rpc = await start([endless(state, new Uint8Array(16 * 1024))]);
    const { session, stream } = slowReader(rpc, CALLERS.auditor, watch, requestBytes);
    await until(() => state.sent > 3, 'the first messages');
    await new Promise((resolve) => setTimeout(resolve, 300));
    const before = state.sent;
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(state.sent).toBe(before);
    // 16 KiB each: what the reader's window holds, and 256 KiB.
    expect(state.sent).toBeLessThan(30);
    stream.resume();
    await until(() => state.sent > before + 100, 'more');
    session.destroy();
    await until(() => state.ended && rpc.adapter.activeCalls === 0, 'the end');
  });

  it('ends for a reader that takes nothing for too long, and lets everything of it go', async () => {
    const state = { sent: 0, ended: false };
    const rpc = await start([endless(state, new Uint8Array(64 * 1024))], { adapter: { stallMs: 200 } });
    const { session, stream } = slowReader(rpc, CALLERS.auditor, watch, requestBytes);
    await until(() => state.ended, 'the end of the handler');
    await until(() => rpc.adapter.activeCalls === 0 && rpc.ended.length === 1, 'the end of the stream');
    expect(rpc.ended[0]).toMatchObject({ reason: 'BACKPRESSURE' });
    await until(() => stream.destroyed, 'the reset');
    expect(session.destroyed).toBe(false);
    session.destroy();
  });

  it('ends its handler when its reader goes', async () => {
    const state = { sent: 0, ended: false };
    const rpc = await start([endless(state)]);
    const stream = rpc.client(CALLERS.auditor).stream(watch, request);
    stream.on('error', () => {});
    stream.on('data', () => {});
    await until(() => state.sent > 5, 'messages');
    stream.cancel();
    await until(() => state.ended && rpc.adapter.activeCalls === 0, 'the end');
    expect(rpc.errors).toEqual([]);
    expect(rpc.ended).toMatchObject([{ code: 1 }]);
  });

  it('ends when its handler waits and never looks at the signal', async () => {
    const rpc = await start([
      fake(AuditService, {
        watchEntries: async function* () {
          yield { position: 1n };
          await new Promise(() => {});
        },
      }),
    ]);
    const client = rpc.client(CALLERS.auditor);
    const stream = client.stream(watch, request);
    stream.on('error', () => {});
    stream.once('data', () => stream.cancel());
    await until(() => rpc.ended.length === 1 && rpc.adapter.activeCalls === 0, 'the end');
  });

  it('ends when the identity of its connection ends', async () => {
    const state = { sent: 0, ended: false };
    const rpc = await start([endless(state)]);
    const reading = readAll(rpc.client(CALLERS.auditor).stream(watch, request));
    await until(() => state.sent > 0, 'messages');
    rpc.listener.endConnections(() => true, 'REVOKED');
    expect((await reading).end).toMatchObject({
      code: 'UNAUTHENTICATED',
      reason: 'CERTIFICATE_REJECTED',
      metadata: { rule: 'REVOKED' },
    });
    expect(state.ended).toBe(true);
  });

  it('ends when its caller is no longer what it was', async () => {
    const state = { sent: 0, ended: false };
    const rpc = await start([endless(state)], { adapter: { readmitMs: 50 } });
    const reading = readAll(rpc.client(CALLERS.auditor).stream(watch, request));
    await until(() => state.sent > 0, 'messages');
    // Later than the registry remembers.
    rpc.registry.operators.clear();
    expect((await reading).end).toMatchObject({ code: 'UNAUTHENTICATED', reason: 'CALLER_UNKNOWN' });
  }, 15_000);

  it('ends when the certificate of its caller expires by the clock of the store', async () => {
    const state = { sent: 0, ended: false };
    const rpc = await start([endless(state)], { adapter: { readmitMs: 50 } });
    const reading = readAll(rpc.client(CALLERS.auditor).stream(watch, request));
    await until(() => state.sent > 0, 'messages');
    rpc.clock.offset = 25n * 3_600_000_000n;
    expect((await reading).end).toMatchObject({
      reason: 'CERTIFICATE_REJECTED',
      metadata: { rule: 'EXPIRED' },
    });
  });

  it('ends when the service drains', async () => {
    const state = { sent: 0, ended: false };
    const rpc = await start([endless(state)]);
    const reading = readAll(rpc.client(CALLERS.auditor).stream(watch, request));
    await until(() => state.sent > 0, 'messages');
    rpc.adapter.endStreams(refusal('DRAINING', 'The service is shutting down.'));
    expect((await reading).end).toMatchObject({ code: 'UNAVAILABLE', reason: 'DRAINING' });
    await until(() => state.ended, 'the end');
  });
});

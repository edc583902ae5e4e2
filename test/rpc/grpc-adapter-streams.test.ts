import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import {
  AuditService,
  WatchEntriesRequestSchema,
  WatchEntriesResponseSchema,
} from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { refusal } from '../../src/ledger/refusal.js';
import { Refused } from '../../src/ledger/run-decision.js';
import type { CallContext, ServiceBinding } from '../../src/rpc/handler.js';
import { fake, start } from './fake-binding.js';
import { CALLERS, readAll, slowReader, until } from './harness.js';

// Streams of replies over the real adapter: their order, their pace and their end.

const watch = AuditService.method.watchEntries;

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

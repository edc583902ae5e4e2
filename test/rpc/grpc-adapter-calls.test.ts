import { fromBinary } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import {
  WhoAmIResponseSchema,
  WorkloadService,
} from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import { refusal } from '../../src/ledger/refusal.js';
import { Refused } from '../../src/ledger/run-decision.js';
import type { CallContext } from '../../src/rpc/handler.js';
import { StoreError } from '../../src/store/store-error.js';
import type { Authority } from '../support/pki.js';
import { fake, start } from './fake-binding.js';
import { CALLERS, TestClient, until } from './harness.js';

// api.md, Errors, over the real adapter: what becomes of a unary call, and for whom.

const whoAmI = WorkloadService.method.whoAmI;

describe('a unary call', () => {
  it('reaches its handler with the caller, the kind, the domain, a request id and the deadline', async () => {
    const seen: CallContext[] = [];
    let handled = 0;
    const rpc = await start([
      fake(WorkloadService, {
        whoAmI: async (_, context) => {
          handled = performance.now();
          seen.push(context);
          return { spiffeId: context.caller.spiffeId, incarnation: 2n ** 62n };
        },
      }),
    ]);
    const client = rpc.client(CALLERS.executor);
    const begun = performance.now();
    const result = await client.call(whoAmI, {}, { timeoutMs: 50_000 });
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
    // What was left of it when it came: both ends count whole milliseconds.
    expect(context.deadline).toBeGreaterThanOrEqual(begun + 49_990);
    expect(context.deadline).toBeLessThanOrEqual(handled + 50_010);
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
    // Whichever comes first: the deadline by the service's clock, or that the caller went away at its own.
    expect([status.DEADLINE_EXCEEDED, status.CANCELLED]).toContain(rpc.ended[0]?.code);
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

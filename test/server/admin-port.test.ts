import { request } from 'node:http';
import { status } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import type { ConnectionPeer } from '../../src/identity/connection-peer.js';
import type { CallRecord } from '../../src/rpc/call-record.js';
import { RequestLog } from '../../src/rpc/request-log.js';
import { type AdminPort, openAdminPort, type Readiness } from '../../src/server/admin-port.js';
import { Metrics } from '../../src/server/metrics.js';

let port: AdminPort | undefined;
afterEach(async () => {
  await port?.close();
  port = undefined;
});

async function open(readiness: () => Readiness, metrics = new Metrics()): Promise<number> {
  port = await openAdminPort({ host: '127.0.0.1', port: 0, registry: metrics.registry, readiness });
  return port.address.port;
}

/** Asks with any headers, which `fetch` would not let us choose. */
function ask(
  at: number,
  path: string,
  options: { method?: string; host?: string } = {},
): Promise<{ code: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const { method = 'GET', host = `127.0.0.1:${at}` } = options;
    const sent = request({ host: '127.0.0.1', port: at, path, method, headers: { host } }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () => resolve({ code: response.statusCode, text }));
    });
    sent.on('error', reject);
    sent.end();
  });
}

const peer: ConnectionPeer = {
  connectionId: 'c1',
  openedAtMicros: 0n,
  closed: new AbortController().signal,
  spiffeId: 'spiffe://acme.test/harness/planner',
  trustDomain: 'acme.test',
  leafSha256: Buffer.alloc(32),
  publicKeySha256: Buffer.alloc(32),
  publicKeyThumbprint: 'key',
  notAfterMicros: 0n,
};

const record = (fields: Partial<CallRecord> = {}): CallRecord => ({
  requestId: 'req_1',
  method: 'surety.effect.v1.EffectService/ReserveEffect',
  streams: false,
  peer,
  startedAtMs: 0,
  cut: () => {},
  ...fields,
});

describe('the admin port', () => {
  it('tells life and readiness apart', async () => {
    let state: Readiness = { ready: true };
    const at = await open(() => state);
    expect(await ask(at, '/readyz')).toEqual({ code: 200, text: 'ready\n' });
    state = { ready: false, why: 'the store does not answer' };
    expect(await ask(at, '/readyz')).toEqual({ code: 503, text: 'not ready: the store does not answer\n' });
    expect(await ask(at, '/livez')).toEqual({ code: 200, text: 'live\n' });
  });

  it('knows nothing else, no other method and no other name', async () => {
    const at = await open(() => ({ ready: true }));
    expect((await ask(at, '/')).code).toBe(404);
    expect((await ask(at, '/livez', { method: 'POST' })).code).toBe(405);
    // The name that a page would have made point to loopback.
    expect((await ask(at, '/metrics', { host: 'evil.example' })).code).toBe(421);
    expect((await ask(at, '/livez', { host: `localhost:${at}` })).code).toBe(200);
    expect((await ask(at, '/livez', { host: `[::1]:${at}` })).code).toBe(200);
  });

  it('counts calls, refusals and durations, and streams only as calls', async () => {
    const metrics = new Metrics();
    const at = await open(() => ({ ready: true }), metrics);
    metrics.ended(record(), status.OK, 12);
    metrics.ended(record({ reason: 'EFFECT_KEY_BUSY' }), status.FAILED_PRECONDITION, 3);
    const watch = { method: 'surety.effect.v1.EffectService/WatchEffects', streams: true };
    metrics.ended(record(watch), status.CANCELLED, 60_000);
    const broken = { reason: 'STORE_UNAVAILABLE' } as const;
    metrics.ended(record(broken), status.UNAVAILABLE, 7_000);
    const lanes = metrics.laneObserver({ regressed: () => {}, breaker: () => {} });
    for (const ms of [0.01, 2, 30]) lanes.commandTaken(ms);
    lanes.batchDone(3, 4);
    lanes.headLocked(0.7);
    metrics.poolWait('lane')(0.05);
    lanes.phases(1, 0.2, 2);
    lanes.commandDone('reserve_effect', 4, { ok: true, reply: {} });
    const { text } = await ask(at, '/metrics');
    const labels =
      'grpc_type="unary",grpc_service="surety.effect.v1.EffectService",grpc_method="ReserveEffect"';
    expect(text).toContain(`grpc_server_handled_total{${labels},grpc_code="OK"} 1`);
    expect(text).toContain(`grpc_server_handling_seconds_count{${labels}} 3`);
    expect(text).toContain('surety_refusals_total{grpc_method="ReserveEffect",reason="EFFECT_KEY_BUSY"} 1');
    expect(text).toMatch(/grpc_server_handled_total\{grpc_type="server_stream".*grpc_code="CANCELLED"\} 1/);
    expect(text).not.toMatch(/grpc_server_handling_seconds_count\{grpc_type="server_stream"/);
    expect(text).toContain('surety_lane_batch_size_sum 3');
    expect(text).toContain('surety_command_seconds_count{command="reserve_effect",outcome="accepted"} 1');
    expect(text).toContain('surety_lane_queue_seconds_bucket{le="0.0001"} 1\n');
    expect(text).toContain('surety_lane_queue_seconds_bucket{le="0.0025"} 2\n');
    expect(text).toContain('surety_lane_queue_seconds_bucket{le="+Inf"} 3\n');
    expect(text).toContain('surety_lane_lock_seconds_count 1\n');
    expect(text).toContain('surety_lane_phase_seconds_sum{phase="decide"} 0.0002\n');
    expect(text).toContain('surety_connection_wait_seconds_count{pool="lane"} 1\n');
    // Nothing that a caller chose becomes a label.
    expect(text).not.toContain('spiffe://');
  });
});

describe("a call's duration", () => {
  it("has the name and the labels of OpenTelemetry's conventions, streams among them", async () => {
    const metrics = new Metrics();
    metrics.ended(record(), status.OK, 12);
    metrics.ended(record(), status.OK, 12_000);
    metrics.ended(record({ reason: 'EFFECT_KEY_BUSY' }), status.FAILED_PRECONDITION, 3);
    metrics.ended(record({ reason: 'STORE_UNAVAILABLE' }), status.UNAVAILABLE, 3);
    const watch = { method: 'surety.effect.v1.EffectService/WatchEffects', streams: true };
    metrics.ended(record(watch), status.CANCELLED, 60_000);
    const text = await metrics.registry.metrics();
    const series = (method: string, code: string): string =>
      `rpc_system_name="grpc",rpc_method="surety.effect.v1.EffectService/${method}",rpc_response_status_code="${code}"`;
    const [name, ok] = ['rpc_server_call_duration_seconds', series('ReserveEffect', 'OK')];
    expect(text).toContain(`# TYPE ${name} histogram\n`);
    expect(text).toContain(`${name}_bucket{le="0.01",${ok}} 0\n`);
    expect(text).toContain(`${name}_bucket{le="0.025",${ok}} 1\n`);
    expect(text).toContain(`${name}_bucket{le="10",${ok}} 1\n`);
    expect(text).toContain(`${name}_bucket{le="+Inf",${ok}} 2\n`);
    expect(text).toContain(`${name}_sum{${ok}} 12.012\n`);
    // What the caller got wrong is no error of the server.
    expect(text).toContain(`${name}_count{${series('ReserveEffect', 'FAILED_PRECONDITION')}} 1\n`);
    expect(text).toContain(
      `${name}_count{${series('ReserveEffect', 'UNAVAILABLE')},error_type="UNAVAILABLE"} 1\n`,
    );
    expect(text).toContain(`${name}_sum{${series('WatchEffects', 'CANCELLED')}} 60\n`);
  });

  it('is counted anew once the registry was reset', async () => {
    const metrics = new Metrics();
    metrics.ended(record(), status.OK, 12);
    metrics.registry.resetMetrics();
    metrics.ended(record(), status.OK, 12);
    expect(await metrics.registry.metrics()).toMatch(/rpc_server_call_duration_seconds_sum\{.*\} 0.012\n/);
  });
});

describe('the request log', () => {
  it('has one line a call, with who, what, what came of it, and nothing of the content', () => {
    const lines: { level: string; fields: object }[] = [];
    const log = new RequestLog({
      isLevelEnabled: () => true,
      info: (fields) => void lines.push({ level: 'info', fields }),
      warn: (fields) => void lines.push({ level: 'warn', fields }),
    });
    log.ended(
      record({ kind: 'harness', domainId: 'acme.test', clientRequestId: 'mine' }),
      status.OK,
      1.23456,
    );
    log.ended(record({ reason: 'STORE_UNAVAILABLE' }), status.UNAVAILABLE, 5);
    const closed = new AbortController().signal;
    const rejected = { connectionId: 'c2', openedAtMicros: 0n, closed, rejected: 'LEAF_IS_CA' } as const;
    log.ended(record({ peer: rejected }), status.UNAUTHENTICATED, 1);
    expect(lines[0]).toEqual({
      level: 'info',
      fields: {
        requestId: 'req_1',
        method: 'surety.effect.v1.EffectService/ReserveEffect',
        caller: 'spiffe://acme.test/harness/planner',
        kind: 'harness',
        domainId: 'acme.test',
        code: 'OK',
        reason: undefined,
        durationMs: 1.235,
        connectionId: 'c1',
        clientRequestId: 'mine',
      },
    });
    expect(lines.map(({ level }) => level)).toEqual(['info', 'warn', 'info']);
    expect(lines[2]?.fields).toMatchObject({ rejected: 'LEAF_IS_CA', code: 'UNAUTHENTICATED' });
    expect(lines[2]?.fields).not.toHaveProperty('caller');
  });
});

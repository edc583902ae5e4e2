import { fromBinary } from '@bufbuild/protobuf';
import { afterEach, describe, expect, it } from 'vitest';
import {
  Health,
  HealthCheckResponse_ServingStatus as ServingStatus,
  HealthCheckResponseSchema,
  HealthListResponseSchema,
} from '../../src/gen/grpc/health/v1/health_pb.js';
import { refusal } from '../../src/ledger/refusal.js';
import { healthService } from '../../src/rpc/health-service.js';
import { HealthState } from '../../src/rpc/health-state.js';
import { CALLERS, type RpcHarness, readAll, SERVICE_ID, startRpc, until } from './harness.js';

const EFFECTS = 'surety.effect.v1.EffectService';
const { check, list, watch } = Health.method;

let harness: RpcHarness | undefined;

async function start(): Promise<{ rpc: RpcHarness; state: HealthState }> {
  const state = new HealthState([EFFECTS]);
  const rpc = await startRpc([healthService(state)]);
  harness = rpc;
  return { rpc, state };
}

afterEach(async () => {
  await harness?.stop();
  harness = undefined;
});

const statusOf = (bytes: Buffer | undefined): string =>
  ServingStatus[fromBinary(HealthCheckResponseSchema, bytes ?? Buffer.alloc(0)).status] ?? '';

describe('health', () => {
  it('is of the whole and of each service, and stands and falls with the store', async () => {
    const { rpc, state } = await start();
    const client = rpc.client(CALLERS.harness);
    const both = async (): Promise<string[]> => [
      statusOf((await client.call(check, {})).reply),
      statusOf((await client.call(check, { service: EFFECTS })).reply),
    ];
    expect(await both()).toEqual(['NOT_SERVING', 'NOT_SERVING']);
    state.setReady(true);
    expect(await both()).toEqual(['SERVING', 'SERVING']);
    const all = fromBinary(HealthListResponseSchema, (await client.call(list)).reply ?? Buffer.alloc(0));
    expect(Object.keys(all.statuses).sort()).toEqual(['', EFFECTS]);
  });

  it('does not know a service that is not there', async () => {
    const { rpc } = await start();
    const client = rpc.client(CALLERS.harness);
    expect(await client.call(check, { service: 'x' })).toMatchObject({
      code: 'NOT_FOUND',
      reason: undefined,
    });
    const stream = client.stream(watch, { service: 'x' });
    const first = await new Promise<Buffer>((resolve) => stream.once('data', resolve).on('error', () => {}));
    expect(statusOf(first)).toBe('SERVICE_UNKNOWN');
    stream.cancel();
  });

  it.each(Object.entries(CALLERS))('is told to every kind: %s', async (_, spiffeId) => {
    const { rpc } = await start();
    expect((await rpc.client(spiffeId).call(check)).code).toBe('OK');
  });

  it('is told to the service itself, without a look into the store, and not to strangers', async () => {
    const { rpc } = await start();
    expect((await rpc.client(SERVICE_ID).call(check)).code).toBe('OK');
    expect(rpc.registry.read).toEqual([]);
    const stranger = await rpc.client('spiffe://surety.test/surety2').call(check);
    expect(stranger).toMatchObject({ code: 'UNAUTHENTICATED', reason: 'CALLER_UNKNOWN' });
  });

  it('is watched: each change once, NOT_SERVING before the end', async () => {
    const { rpc, state } = await start();
    const seen: string[] = [];
    const stream = rpc.client(CALLERS.executor).stream(watch, { service: EFFECTS });
    stream.on('data', (bytes: Buffer) => seen.push(statusOf(bytes)));
    const reading = readAll(stream);
    await until(() => seen.length === 1, 'the first status');
    state.setReady(true);
    await until(() => seen.length === 2, 'the second');
    state.setReady(true);
    state.drain();
    await until(() => seen.length === 3, 'the third');
    state.setReady(false);
    state.setReady(true);
    rpc.gate.drain();
    // Still answered while it drains.
    expect(statusOf((await rpc.client(CALLERS.executor).call(check)).reply)).toBe('NOT_SERVING');
    rpc.adapter.endStreams(refusal('DRAINING', 'The service is shutting down.'));
    expect((await reading).end).toMatchObject({ code: 'UNAVAILABLE', reason: 'DRAINING' });
    expect(seen).toEqual(['NOT_SERVING', 'SERVING', 'NOT_SERVING']);
  });
});

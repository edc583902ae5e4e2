import { afterEach } from 'vitest';
import type { CallContext, ServiceBinding } from '../../src/rpc/handler.js';
import { type RpcHarness, type RpcHarnessOptions, startRpc } from './harness.js';

type Service = ServiceBinding['service'];
export type FakeHandler = (request: never, context: CallContext) => unknown;

/** A binding whose other methods answer nothing. */
export function fake(service: unknown, handlers: Record<string, FakeHandler>): ServiceBinding {
  const all = (service as Service).methods.map(({ localName }) => [
    localName,
    handlers[localName] ?? (async () => ({})),
  ]);
  return { service, handlers: Object.fromEntries(all) } as ServiceBinding;
}

let harness: RpcHarness | undefined;

/** Starts bindings for one test, and stops them behind it. */
export async function start(
  bindings: readonly ServiceBinding[],
  options?: RpcHarnessOptions,
): Promise<RpcHarness> {
  return (harness = await startRpc(bindings, options));
}

afterEach(async () => {
  await harness?.stop();
  harness = undefined;
});

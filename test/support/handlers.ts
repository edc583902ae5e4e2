import type { GenService, GenServiceMethods } from '@bufbuild/protobuf/codegenv2';
import { newId } from '../../src/rpc/new-id.js';
import { proofKeysOf } from '../../src/rpc/proof-keys.js';
import type { CallContext, HandlerTools, ServiceBinding, ServiceHandlers } from '../../src/rpc/handler.js';
import type { Caller, CallerKind } from '../../src/ledger/types.js';
import { Refused } from '../../src/ledger/run-decision.js';
import { DOMAIN, freshId, type Replica } from './effect-world.js';

/** What handlers are built from, on a replica of the world. */
export function toolsOf({ lanes, reader }: Replica): HandlerTools {
  return { commands: lanes, reader, newId, proofKeys: proofKeysOf(reader) };
}

/** The handlers of a binding with the types of their service. */
export function handlersOf<Methods extends GenServiceMethods>(
  _service: GenService<Methods>,
  binding: ServiceBinding,
): ServiceHandlers<Methods> {
  return binding.handlers as unknown as ServiceHandlers<Methods>;
}

/** A call as the adapter would hand it over. */
export function contextOf(caller: Caller, kind: CallerKind, over: Partial<CallContext> = {}): CallContext {
  return {
    caller,
    kind,
    domainId: DOMAIN,
    requestId: freshId('req'),
    signal: new AbortController().signal,
    ...over,
  };
}

/** The reason for which a call was refused; `none` where it was not. */
export async function reasonOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'none';
  } catch (error) {
    if (error instanceof Refused) return error.refusal.reason;
    throw error;
  }
}

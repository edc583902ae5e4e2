import { currentReader, notVisible, type ReaderKind } from '../ledger/audit/current-reader.js';
import { currentActor } from '../ledger/authority/current-actor.js';
import type { Reads } from '../ledger/reads.js';
import { Refused } from '../ledger/run-decision.js';
import { Draft } from '../ledger/working-set.js';
import type { CallContext, HandlerTools } from './handler.js';

/** Operators and auditors: who may read all of a domain. */
export const OVERSEERS: readonly ReaderKind[] = ['operator', 'auditor'];

/** What reading needs of a handler's tools and of its call. */
type ReaderTools = Pick<HandlerTools, 'reader'>;
type ReaderContext = Pick<CallContext, 'caller' | 'kind' | 'domainId'>;

/**
 * Whether the caller is an active operator or auditor of the domain, by the registry's rows at the time of the call.
 *
 * @param kinds what the method is open to
 * @param reads what else is to be read, of the same snapshot
 * @returns the rows that were read
 * @throws Refused NOT_VISIBLE where it is none, or there is no such domain: both look alike; CALLER_UNKNOWN where its
 *   certificate is past its validity
 */
export async function requireReader(
  tools: ReaderTools,
  context: Pick<CallContext, 'caller'>,
  domainId: string,
  kinds: readonly ReaderKind[] = OVERSEERS,
  reads: Reads = {},
): Promise<Draft> {
  const { spiffeId } = context.caller;
  const draft = await gather(tools, domainId, {
    ...reads,
    operators: [...(reads.operators ?? []), spiffeId],
    platformOperators: [...(reads.platformOperators ?? []), spiffeId],
  });
  const result = currentReader(draft, context.caller, kinds);
  if ('refused' in result) throw new Refused(result.refused);
  return draft;
}

/**
 * The same for a method that harnesses may call too: a harness must be current in its own domain.
 *
 * @throws Refused as `requireReader`, or the reasons of `currentActor`
 */
export async function requireHarnessOrReader(
  tools: ReaderTools,
  context: ReaderContext,
  reads: Reads = {},
): Promise<Draft> {
  if (context.kind !== 'harness') return requireReader(tools, context, context.domainId, OVERSEERS, reads);
  const { spiffeId } = context.caller;
  const draft = await gather(tools, context.domainId, {
    ...reads,
    callerHarness: [...(reads.callerHarness ?? []), spiffeId],
  });
  const result = currentActor(draft, context.caller);
  if ('refused' in result) throw new Refused(result.refused);
  return draft;
}

async function gather(tools: ReaderTools, domainId: string, reads: Reads): Promise<Draft> {
  const set = await tools.reader.gather(domainId, reads);
  if (!set) throw new Refused(notVisible());
  return new Draft(set);
}

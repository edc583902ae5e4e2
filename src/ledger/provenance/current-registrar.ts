import { type ActorKey, callerActor, harnessActor } from '../admission/admit-call.js';
import { currentReader, type ReaderKind } from '../audit/current-reader.js';
import { type Actor, currentActor } from '../authority/current-actor.js';
import type { Reads } from '../reads.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Caller } from '../types.js';
import type { Draft } from '../working-set.js';

/** Who records content: a harness, or an operator of the domain (api.md). */
export interface Registrar {
  readonly caller: Caller;
  /** What the method table took the caller for; its rows are read and decide. */
  readonly as: 'harness' | 'operator';
}

const REGISTRARS: readonly ReaderKind[] = ['operator'];

/** The rows that say whether the caller may record. */
export function registrarReads({ caller, as }: Registrar): Reads {
  return as === 'harness'
    ? { callerHarness: [caller.spiffeId] }
    : {
        operators: [caller.spiffeId],
        platformOperators: [caller.spiffeId],
        actorCounters: [callerActor(caller.spiffeId)],
      };
}

/** A harness is current in every respect; an operator is one of this domain, which is active. */
export function currentRegistrar(
  draft: Draft,
  { caller, as }: Registrar,
): { readonly actor: Actor | undefined } | { readonly refused: Refusal } {
  if (as === 'harness') return currentActor(draft, caller);
  const reader = currentReader(draft, caller, REGISTRARS);
  if ('refused' in reader) return reader;
  if (draft.domain.status !== 'active') {
    return { refused: refusal('DOMAIN_INACTIVE', 'The domain is not active.') };
  }
  return { actor: undefined };
}

/** Whose quota the record counts against. */
export function registrarActor({ caller }: Registrar, actor: Actor | undefined): ActorKey {
  return actor ? harnessActor(actor.harness.harnessId) : callerActor(caller.spiffeId);
}

import type { Reason, Refusal } from '../../src/ledger/refusal.js';
import { must } from './store-rule.js';

/** What admission refuses with (authority.md, Admission). */
const HELD = new Set<Reason>(['QUOTA_EXHAUSTED', 'FAIRNESS_HOLD', 'CIRCUIT_OPEN', 'UNKNOWN_CEILING']);
/**
 * The calls that it may refuse; all others of a history are of the safety lane, or sweeps. A decision for a cancel is one where
 * it denies.
 */
const ORDINARY: ReadonlySet<string> = new Set(['effect.reserve', 'effect.start', 'decide']);

/** Which quota a refusal is for, where it is for one. */
export function quotaOf({ resource }: Refusal): string | undefined {
  return resource?.type === 'quota' ? resource.name : undefined;
}

/** A refusal by admission is of an ordinary call, and says when to come back. */
export function judgeHold(kind: string, { reason, retryAfter }: Refusal): void {
  if (!HELD.has(reason)) return;
  must(ORDINARY.has(kind), `${kind} is of the safety lane`);
  must(typeof retryAfter === 'bigint' && retryAfter > 0n, `${reason} says when to come back`);
}

import { type Refusal, refusal } from '../refusal.js';
import type { Micros } from '../types.js';
import type { Draft } from '../working-set.js';
import { fairnessRefusal, serveOnce } from './fairness.js';
import { actorLimit, ordinaryPart, QUOTA_MINUTE } from './limits.js';
import { type ActorCounterRow, newActor } from './records.js';

/** Whose quota a call counts against; the key of its `actor_counters` row. */
export type ActorKey = string & { readonly __actor: true };

/** A harness: the actor of authority.md is (domain, principal or guest, harness), and a harness has one owner for ever. */
export function harnessActor(harnessId: string): ActorKey {
  return `harness:${harnessId}` as ActorKey;
}

/** A caller that is no harness. */
export function callerActor(spiffeId: string): ActorKey {
  return `caller:${spiffeId}` as ActorKey;
}

/**
 * Admits one ordinary call and counts it, or says why not; a refusal leaves every counter as it was (authority.md,
 * Admission). The row `actor_counters` of the actor must have been read.
 */
export function admitCall(draft: Draft, actor: ActorKey): Refusal | undefined {
  const row = currentMinute(draft.get('actor_counters', actor) ?? newActor(actor), draft.now);
  const refused =
    quotaRefusal(draft, 'domain', currentMinute(draft.head.counters, draft.now)) ??
    quotaRefusal(draft, 'actor', row) ??
    fairnessRefusal(draft, row);
  if (refused) return refused;
  draft.setCounters({ ...domainMinute(draft), calls: domainMinute(draft).calls + 1 });
  draft.put('actor_counters', serveOnce(draft, { ...row, calls: row.calls + 1 }));
  return undefined;
}

/**
 * Counts a call of the safety lane, which no quota refuses: what settles or revokes goes on under any load.
 *
 * @param actor undefined: an operator or a workload on its own behalf, counted for the domain only
 */
export function countSafetyCall(draft: Draft, actor: ActorKey | undefined): void {
  draft.setCounters({ ...domainMinute(draft), safetyCalls: domainMinute(draft).safetyCalls + 1 });
  if (actor === undefined) return;
  const row: ActorCounterRow = currentMinute(
    draft.get('actor_counters', actor) ?? newActor(actor),
    draft.now,
  );
  draft.put('actor_counters', { ...row, safetyCalls: row.safetyCalls + 1 });
}

/** What was counted in a minute. */
export interface Minute {
  readonly minuteStart: Micros;
  readonly calls: number;
  readonly safetyCalls: number;
}

/** Counters as of the minute that `now` is in: those of another one are over. */
export function currentMinute<Counters extends Minute>(counters: Counters, now: Micros): Counters {
  const minuteStart = now - (now % QUOTA_MINUTE);
  return counters.minuteStart === minuteStart
    ? counters
    : { ...counters, minuteStart, calls: 0, safetyCalls: 0 };
}

function domainMinute(draft: Draft) {
  return currentMinute(draft.head.counters, draft.now);
}

/** Calls that a domain has let through. */
export interface AdmittedCalls {
  readonly ordinary: number;
  readonly safety: number;
}

/** What was let through between two states of a domain's counters, of which the later one is of one moment. */
export function admittedBetween(before: Minute, after: Minute): AdmittedCalls {
  const same = before.minuteStart === after.minuteStart;
  return {
    ordinary: after.calls - (same ? before.calls : 0),
    safety: after.safetyCalls - (same ? before.safetyCalls : 0),
  };
}

/**
 * How many ordinary calls a quota still lets through in its minute. What the safety lane took does not count: one who cancels
 * without end would else stop everybody.
 */
export function ordinaryLeft({ calls }: Minute, limit: number): number {
  return Math.max(0, ordinaryPart(limit) - calls);
}

function quotaRefusal(draft: Draft, whose: 'domain' | 'actor', minute: Minute): Refusal | undefined {
  const { limits } = draft.domain;
  const limit = whose === 'domain' ? limits.requestsPerMinute : actorLimit(limits);
  if (ordinaryLeft(minute, limit) > 0) return undefined;
  return refusal('QUOTA_EXHAUSTED', `The ${whose} has used up its requests of this minute.`, {
    metadata: { limit: String(limit) },
    resource: { type: 'quota', name: `${whose}_requests_per_minute` },
    retryAfter: minute.minuteStart + QUOTA_MINUTE - draft.now,
  });
}

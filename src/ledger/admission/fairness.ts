import { type Refusal, refusal } from '../refusal.js';
import type { Micros } from '../types.js';
import type { Draft } from '../working-set.js';
import { actorBurst, FAIRNESS_WINDOW } from './limits.js';
import type { ActorCounterRow, DomainCounters, ServedActors } from './records.js';

/**
 * authority.md, Admission: in each window an actor gets at most a burst more calls than the least served active one.
 * Active is who made a call in the window. The domain keeps how many actors made how many calls, so nothing is scanned.
 */
export function fairnessRefusal(draft: Draft, actor: ActorCounterRow): Refusal | undefined {
  const windowStart = windowOf(draft.now);
  const mine = callsIn(actor, windowStart);
  const least = servedIn(draft.head.counters, windowStart)[0]?.calls ?? 0;
  const burst = actorBurst(draft.domain.limits);
  if (mine === 0 || mine + 1 <= least + burst) return undefined;
  return refusal('FAIRNESS_HOLD', 'The actor is ahead of others by more than the burst.', {
    metadata: { limit: String(burst) },
    resource: { type: 'quota', name: 'fairness_burst' },
    retryAfter: windowStart + FAIRNESS_WINDOW - draft.now,
  });
}

/** Counts one more ordinary call of the actor in the window, in its row and in the domain's histogram. */
export function serveOnce(draft: Draft, actor: ActorCounterRow): ActorCounterRow {
  const windowStart = windowOf(draft.now);
  const before = callsIn(actor, windowStart);
  const served = moveUp(servedIn(draft.head.counters, windowStart), before);
  draft.setCounters({ ...draft.head.counters, windowStart, served });
  return { ...actor, windowStart, windowCalls: before + 1 };
}

/** When the window began that `now` is in. */
export function windowOf(now: Micros): Micros {
  return now - (now % FAIRNESS_WINDOW);
}

/** How many calls an actor has made in the window. */
export function callsIn(actor: ActorCounterRow, windowStart: Micros): number {
  return actor.windowStart === windowStart ? actor.windowCalls : 0;
}

/** How the window's calls are spread over the actors. */
export function servedIn(counters: DomainCounters, windowStart: Micros): readonly ServedActors[] {
  return counters.windowStart === windowStart ? counters.served : [];
}

/** One actor goes from `calls` to one more; who had none enters. */
function moveUp(served: readonly ServedActors[], calls: number): readonly ServedActors[] {
  const next: ServedActors[] = [];
  let placed = false;
  for (const entry of served) {
    if (!placed && entry.calls > calls + 1) {
      next.push({ calls: calls + 1, actors: 1 });
      placed = true;
    }
    if (entry.calls === calls + 1) {
      next.push({ ...entry, actors: entry.actors + 1 });
      placed = true;
    } else if (entry.calls === calls && calls > 0) {
      if (entry.actors > 1) next.push({ ...entry, actors: entry.actors - 1 });
    } else {
      next.push(entry);
    }
  }
  if (!placed) next.push({ calls: calls + 1, actors: 1 });
  return next;
}

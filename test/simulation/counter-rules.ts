import { actorLimit, ordinaryPart } from '../../src/ledger/admission/limits.js';
import type { ActorCounterRow, DomainCounters, SinkCounterRow } from '../../src/ledger/admission/records.js';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import type { TableName, Tables } from '../../src/ledger/tables.js';
import type { ChangeLog } from '../../src/ledger/working-set.js';
import type { MemoryStore } from './memory-store.js';
import { must } from './store-rule.js';

/** A counter that goes apart from what it counts, or past its limit: a bug of a decision. No database says so. */
export function checkCounters(store: MemoryStore, batch: ChangeLog): void {
  const { limits } = batch.domain ?? store.domain;
  const before = store.head.counters;
  const after = batch.head?.counters ?? before;
  checkMinute(before, after, limits.requestsPerMinute);
  for (const [old, next] of changed(batch, 'actor_counters')) {
    if (next) checkMinute(old, next, actorLimit(limits));
  }

  const work = changed(batch, 'pending_work').map(
    ([old, next]) => Number(Boolean(next)) - Number(Boolean(old)),
  );
  must(after.pending - before.pending === sum(work), 'pending work is counted with its rows');
  must(after.pending <= Math.max(before.pending, limits.pendingCeiling), 'pending work ends at its ceiling');

  const effects = changed(batch, 'effects');
  for (const { sink } of store.all('sinks')) {
    const [old, next] = changed(batch, 'sink_counters').find(([, row]) => row?.sink === sink) ?? [];
    const doubts = effects.map(([, row]) => row).filter((row) => row?.sink === sink);
    const delta = doubts.map((row) => isUnknown(row) - isUnknown(store.get('effects', row?.effectId ?? '')));
    must((next?.unknown ?? 0) - (old?.unknown ?? 0) === sum(delta), 'UNKNOWN is counted with its effects');
    if (next) checkBreaker(store, batch, next);
  }
}

/** What was counted in a minute is only more, and ordinary calls end at nine tenths of the limit. */
function checkMinute(
  before: DomainCounters | ActorCounterRow | undefined,
  after: DomainCounters | ActorCounterRow,
  limit: number,
): void {
  const same = before?.minuteStart === after.minuteStart;
  const [calls, safety] = same ? [before.calls, before.safetyCalls] : [0, 0];
  must(!before || after.minuteStart >= before.minuteStart, 'no minute comes back');
  must(after.calls >= calls && after.safetyCalls >= safety, 'what was counted stays counted');
  must(after.calls === calls || after.calls <= ordinaryPart(limit), 'ordinary calls end at nine tenths');
}

/** The probe is the one execution that is under way at its sink while the breaker is half-open. */
function checkBreaker(store: MemoryStore, batch: ChangeLog, row: SinkCounterRow): void {
  must((row.breaker === 'closed') === (row.openedAt === null), 'a breaker that is not closed was opened');
  if (row.probeEffectId === null) return;
  must(row.breaker === 'half_open', 'only what is half-open is tried');
  const probe = changed(batch, 'effects').find(([, next]) => next?.effectId === row.probeEffectId)?.[1];
  const effect = probe ?? store.get('effects', row.probeEffectId);
  must(effect?.state === 'EXECUTING' && effect.sink === row.sink, 'a probe is under way');
}

function changed<T extends TableName>(
  batch: ChangeLog,
  name: T,
): (readonly [Tables[T] | undefined, Tables[T] | undefined])[] {
  return batch.rows
    .filter(({ table }) => table === name)
    .map(({ before, after }) => [before as Tables[T] | undefined, after as Tables[T] | undefined]);
}

function isUnknown(row: EffectRow | undefined): number {
  return Number(row?.state === 'UNKNOWN');
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

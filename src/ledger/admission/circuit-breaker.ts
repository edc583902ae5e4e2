import type { SinkRow } from '../authority/records.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Micros } from '../types.js';
import type { SinkCounterRow } from './records.js';

/** How an execution ended, for the sink that it was for. */
export type ExecutionOutcome = 'success' | 'failure' | 'none';

/**
 * authority.md, Admission: whether a sink's breaker lets a call through. It stops reservations while it is open and while
 * a probe is in flight; what a reservation finds half-open only an execution tries out.
 */
export function breakerRefusal(sink: SinkRow, row: SinkCounterRow, now: Micros): Refusal | undefined {
  if (row.breaker === 'closed') return undefined;
  if (row.probeEffectId !== null) {
    return circuitOpen(sink, sink.breakerReset, 'An execution is trying whether the sink works again.');
  }
  const until = tryTime(sink, row) ?? now;
  if (row.breaker === 'half_open' || now >= until) return undefined;
  return circuitOpen(sink, until - now, 'Too many effects in a row failed at the sink.');
}

/** From when on an execution may try whether the sink works again; undefined while the breaker is closed. */
export function tryTime(
  { breakerReset }: Pick<SinkRow, 'breakerReset'>,
  { openedAt }: Pick<SinkCounterRow, 'openedAt'>,
): Micros | undefined {
  return openedAt === null ? undefined : openedAt + breakerReset;
}

/**
 * The sink's row once an execution that the breaker lets through has begun: the first one after the reset time is the
 * probe. Ask `breakerRefusal` before.
 */
export function beginExecution(row: SinkCounterRow, effectId: string): SinkCounterRow {
  if (row.breaker === 'closed') return row;
  return { ...row, breaker: 'half_open', probeEffectId: effectId };
}

/**
 * The sink's row once an execution has ended. Only the probe closes or opens a breaker that is not closed: what others
 * bring was sent before.
 *
 * @param outcome `none`: nothing was sent, or nobody knows whether it was; a probe's place is free again
 */
export function endExecution(
  sink: SinkRow,
  row: SinkCounterRow,
  ended: { readonly effectId: string; readonly outcome: ExecutionOutcome; readonly now: Micros },
): SinkCounterRow {
  const isProbe = row.probeEffectId === ended.effectId;
  if (!isProbe && row.breaker !== 'closed') return row;
  switch (ended.outcome) {
    case 'none':
      return isProbe ? { ...row, probeEffectId: null } : row;
    case 'success':
      return row.failures === 0 && !isProbe ? row : closedBreaker(row);
    case 'failure': {
      const failures = isProbe ? row.failures : row.failures + 1;
      if (!isProbe && failures < sink.breakerThreshold) return { ...row, failures };
      return { ...row, breaker: 'open', failures, openedAt: ended.now, probeEffectId: null };
    }
  }
}

/** A breaker that lets everything through, as after a success or by an operator's word. */
export function closedBreaker(row: SinkCounterRow): SinkCounterRow {
  return { ...row, breaker: 'closed', failures: 0, openedAt: null, probeEffectId: null };
}

function circuitOpen({ sink }: SinkRow, retryAfter: Micros, message: string): Refusal {
  return refusal('CIRCUIT_OPEN', message, { metadata: { sink }, retryAfter });
}

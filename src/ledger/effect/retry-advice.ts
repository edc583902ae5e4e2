import type { EffectRow } from './records.js';

/** What to do about an effect: advice, never permission (effects.md, Effect key). */
export type RetryAdvice = 'NEW_EVENT' | 'RECONCILE' | 'WAIT' | 'DONE';

/**
 * After FAILED and CANCELLED another try takes a new event, unless late evidence says that it happened after all: then a
 * person has to look first. UNKNOWN wants a reconciler. What is disputed is never archived: a tombstone's state says all.
 */
export function retryAdvice({
  state,
  disputed = false,
}: Pick<EffectRow, 'state'> & Partial<Pick<EffectRow, 'disputed'>>): RetryAdvice {
  switch (state) {
    case 'PREPARED':
    case 'EXECUTING':
      return 'WAIT';
    case 'UNKNOWN':
      return 'RECONCILE';
    case 'SUCCEEDED':
      return 'DONE';
    case 'FAILED':
    case 'CANCELLED':
      return disputed ? 'WAIT' : 'NEW_EVENT';
  }
}

import type { EffectState } from '../types.js';

/** What to do about an effect: advice, never permission (effects.md, Effect key). */
export type RetryAdvice = 'NEW_EVENT' | 'RECONCILE' | 'WAIT' | 'DONE';

/** After FAILED and CANCELLED another try takes a new event; UNKNOWN wants a reconciler. */
export function retryAdvice(state: EffectState): RetryAdvice {
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
      return 'NEW_EVENT';
  }
}

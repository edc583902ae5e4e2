import type { Micros } from '../types.js';
import { DEFAULT_SEND_WINDOW } from './limits.js';
import type { EffectRow } from './records.js';

/**
 * When the last send may come that a start gave leave for (effects.md, "When may it be sent"): its window begins with the
 * first call, whatever is asked again later.
 */
export function sendUntil({ startedAt, stateAt, sendWindow }: EffectRow): Micros {
  return (startedAt ?? stateAt) + (sendWindow ?? DEFAULT_SEND_WINDOW);
}

/** What is left of the send window for a call that is answered now; 0 where nothing may be sent any more. */
export function sendWindowLeft(effect: EffectRow, now: Micros): Micros {
  const left = sendUntil(effect) - now;
  return left > 0n ? left : 0n;
}

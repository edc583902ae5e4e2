import { type Refusal, refusal } from '../../refusal.js';
import type { TransitionCase } from '../transition-command.js';

/**
 * Transition rule 8 (effects.md): after the start, only the registration that started. A restarted process that renewed
 * the same registration may mark unknown or acknowledge.
 */
export function executorIdentityRefusal({ kind, effect, registration }: TransitionCase): Refusal | undefined {
  if (kind.rpc !== 'mark_unknown' && kind.rpc !== 'acknowledge') return undefined;
  return effect.executorRegistrationId === registration.registrationId
    ? undefined
    : refusal('EFFECT_EXECUTOR_MISMATCH', 'Another registration started the effect.');
}

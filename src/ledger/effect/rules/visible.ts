import type { RegistrationRow } from '../../identity/records.js';
import type { WorkloadRole } from '../../types.js';
import type { EffectRow } from '../records.js';

/** As much of an effect as it takes to say who may see it. */
export type EffectPlace = Pick<
  EffectRow,
  'eventId' | 'grantId' | 'sink' | 'harnessId' | 'executorRegistrationId' | 'reconcilerRegistrationId'
>;

/**
 * Transition rule 1 and "Visible" (effects.md): whether a workload's registration may see an effect of its domain: role
 * and scope fit, and it is bound to the effect's event and grant, or standing for its sink, or the effect was started or
 * settled under it.
 */
export function isVisibleToWorkload(
  registration: RegistrationRow,
  role: WorkloadRole,
  effect: EffectPlace,
): boolean {
  if (registration.role !== role || !coversScope(registration, effect)) return false;
  return (
    isBoundTo(registration, effect) ||
    (role === 'effect_executor' && effect.executorRegistrationId === registration.registrationId) ||
    (role === 'effect_reconciler' && effect.reconcilerRegistrationId === registration.registrationId)
  );
}

/** Whether the registration's recipient scope is everyone or the reserving harness. */
export function coversScope(registration: RegistrationRow, effect: EffectPlace): boolean {
  return registration.recipientScope === '*' || registration.recipientScope === effect.harnessId;
}

/** Whether the registration is for this event and grant, or stands for the sink (identity.md, Bound and standing). */
export function isBoundTo(registration: RegistrationRow, effect: EffectPlace): boolean {
  if (registration.parentEventId === null) return registration.sinks.includes(effect.sink);
  return registration.parentEventId === effect.eventId && registration.grantId === effect.grantId;
}

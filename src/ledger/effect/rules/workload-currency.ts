import { type Refusal, refusal } from '../../refusal.js';
import type { Draft } from '../../working-set.js';
import type { TransitionCase } from '../transition-command.js';
import { coversScope, type EffectPlace, isBoundTo } from './visible.js';

/**
 * Transition rule 2 (effects.md): the registration is in force, and the domain with it.
 *
 * @param allowExpired for late evidence, which an expired registration may bring and a revoked one may not
 */
export function workloadCurrencyRefusal(
  draft: Draft,
  {
    kind,
    effect,
    registration,
  }: Pick<TransitionCase, 'kind' | 'registration'> & { readonly effect: EffectPlace },
  allowExpired: boolean,
): Refusal | undefined {
  const { domain, now } = draft;
  if (registration.status !== 'active') return notCurrent('status');
  if (registration.issuedAt > now + MAX_ISSUE_AHEAD) return notCurrent('issue_time');
  if (registration.expiresAt <= now && !allowExpired) return notCurrent('expiry');
  if (registration.role !== kind.role) return notCurrent('role');
  if (!isBoundTo(registration, effect)) return notCurrent('binding');
  if (registration.parentEventId === null && !domain.allowStanding) return notCurrent('standing');
  if (!coversScope(registration, effect)) return notCurrent('scope');
  if (domain.status !== 'active') return notCurrent('domain');
  if (registration.revocationEpoch !== domain.revocationEpoch) return notCurrent('revocation_epoch');
  return undefined;
}

/** A registration says when it was issued by the clock of whoever made it. */
const MAX_ISSUE_AHEAD = 60_000_000n;

function notCurrent(rule: string): Refusal {
  return refusal('WORKLOAD_NOT_CURRENT', 'The registration is not in force for this effect.', {
    metadata: { rule },
  });
}

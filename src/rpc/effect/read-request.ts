import type { ViewerRequest } from '../../ledger/effect/visible-effect.js';
import type { CallContext } from '../handler.js';
import type { Violations } from '../validate.js';

/** Ids of effects are ours and far shorter; whoever sends a longer one is told so. */
export const MAX_EFFECT_ID_OCTETS = 256;
const MAX_REGISTRATION_ID_OCTETS = 256;
/** Fences, steps and positions of the log have 63 bits. */
export const MAX_POSITION = 2n ** 63n - 1n;

/** Who asks, and under which of its registrations. */
export function readViewer(
  violations: Violations,
  { caller, kind }: CallContext,
  registrationId: string,
): ViewerRequest {
  const selected = violations.optionalId('registration_id', registrationId, 1, MAX_REGISTRATION_ID_OCTETS);
  return { caller, kind, registrationId: selected };
}

/** The one effect that a request is about. */
export function readEffectId(violations: Violations, effectId: string): string {
  return violations.id('effect_id', effectId, 1, MAX_EFFECT_ID_OCTETS);
}

/** A fence or a step: the key of a page token; 0 for the first page. */
export function readPosition(violations: Violations, text: string | undefined): bigint {
  if (text === undefined) return 0n;
  if (/^\d{1,19}$/.test(text) && BigInt(text) <= MAX_POSITION) return BigInt(text);
  violations.refuse('page_token', 'must be the token of a page of this very list');
  return 0n;
}

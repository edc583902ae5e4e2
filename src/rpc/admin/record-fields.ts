import { WILDCARD } from '../../ledger/authority/grant-rules.js';
import type { ActorKind } from '../../ledger/types.js';
import type { Violations } from '../validate.js';

/** Octets of an id, an action, a source, a sink. */
export const MAX_ID_OCTETS = 256;
/** Octets of a resource, which may be a path. */
export const MAX_RESOURCE_OCTETS = 512;

/** A name that stands for itself alone. */
export function readExact(v: Violations, field: string, value: string, maxOctets: number): string {
  if (value === WILDCARD) v.refuse(field, 'must be an exact name, not a wildcard');
  return v.id(field, value, 1, maxOctets);
}

/** Exactly one of a principal and a guest. */
export function readActor(
  v: Violations,
  principalId: string,
  guestId: string,
): { readonly actorKind: ActorKind; readonly actorId: string } {
  if ((principalId === '') === (guestId === '')) {
    v.refuse('principal_id', 'must be there, or guest_id, and not both');
  }
  return guestId === ''
    ? { actorKind: 'principal', actorId: v.optionalId('principal_id', principalId, 1, MAX_ID_OCTETS) ?? '' }
    : { actorKind: 'guest', actorId: v.id('guest_id', guestId, 1, MAX_ID_OCTETS) };
}

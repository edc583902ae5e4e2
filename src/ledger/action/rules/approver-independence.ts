import { refusal } from '../../refusal.js';
import { Refused } from '../../run-decision.js';

/** Somebody by name and by keys: those of certificates and those that sign. */
export interface Somebody {
  readonly spiffeId: string;
  readonly keys: readonly string[];
}

/**
 * Nobody approves for himself (actions.md, Owner's signature): the approver's SPIFFE ID, certificate key and signing key differ
 * from the other's.
 *
 * @throws {Refused} APPROVER_NOT_INDEPENDENT
 */
export function requireIndependent(
  approver: Somebody,
  other: Somebody,
  party: 'proposer' | 'leaseholder',
): void {
  const rule =
    approver.spiffeId === other.spiffeId
      ? 'spiffe_id'
      : approver.keys.some((key) => other.keys.includes(key))
        ? 'key'
        : undefined;
  if (rule === undefined) return;
  throw new Refused(
    refusal('APPROVER_NOT_INDEPENDENT', `The approver is not independent of the ${party}.`, {
      metadata: { party, rule },
    }),
  );
}

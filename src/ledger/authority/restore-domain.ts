import { accept, type CommandBase, type Decision } from '../decision.js';
import { PROOF_MAX_AGE } from '../effect/limits.js';
import { canonicalDigest } from '../encoding.js';
import { type Micros, SECOND } from '../types.js';
import { changeDomain } from './commands/change-domain.js';
import type { DomainRow } from './records.js';

/** What the fence has room for (effects.md, Reserve 8). */
const MAX_INCARNATION = 8_388_607n;
/** 2026-01-01T00:00:00Z: before the first restore of all. */
const FIRST_PERIOD: Micros = 1_767_225_600n * SECOND;

/**
 * The incarnation that a restore begins. Two restores from one backup find the same number in it, and must not begin the
 * same incarnation: the later one would give out the fences of the earlier one again. So the number comes from the time:
 * it is the count of periods since 2026, each as long as a proof is good for, which lasts until 2105; the next number
 * where that is not higher.
 *
 * @param current of the store as it was brought back
 */
export function nextIncarnation(current: bigint, now: Micros): bigint {
  const period = (now - FIRST_PERIOD) / PROOF_MAX_AGE;
  return period > current && period <= MAX_INCARNATION ? period : current + 1n;
}

/**
 * The reason of the freeze that a restore leaves behind. While it stands, no nonce is consumed either: whether one was
 * spent after the backup is not known any more.
 */
export const RESTORE_FREEZE = 'restore';

/** Whether the domain still stands as a restore left it: an operator has not ended the freeze yet. */
export function isFrozenByRestore({ frozen, freezeReason }: DomainRow): boolean {
  return frozen && freezeReason === RESTORE_FREEZE;
}

/**
 * effects.md, Restore: in the new incarnation the domain is frozen, and everything that was issued before is stale:
 * entitlements, grants and events by the policy revision, registrations by the revocation epoch. Its entry in the log is
 * the first one of the incarnation. No signature stands behind it: whoever may bring a database back may do it.
 */
export const restoreDomain: Decision<CommandBase, DomainRow> = {
  kind: 'restore_domain',
  exclusive: true,
  reads: () => ({}),
  decide(draft, command) {
    const changed = changeDomain(draft, {
      frozen: true,
      freezeReason: RESTORE_FREEZE,
      policyRevision: draft.domain.policyRevision + 1n,
      revocationEpoch: draft.domain.revocationEpoch + 1n,
    });
    const { domain, facts } = draft;
    draft.append({
      kind: 'restore',
      commandId: command.commandId,
      record: {
        ...changed,
        operation: 'restore',
        digest: canonicalDigest('surety-restore-v1', [
          facts.audience,
          draft.domainId,
          facts.incarnation,
          domain.policyRevision,
          domain.revocationEpoch,
        ]),
      },
    });
    return accept(domain);
  },
};

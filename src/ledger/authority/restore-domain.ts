import { accept, type CommandBase, type Decision } from '../decision.js';
import { canonicalDigest } from '../encoding.js';
import { changeDomain } from './commands/change-domain.js';
import type { DomainRow } from './records.js';

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

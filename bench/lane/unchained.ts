import type { CommandBase, Decision } from '../../src/ledger/decision.js';
import type { AuditPosition, Draft } from '../../src/ledger/working-set.js';

/** Rows that point into the log get this in place of a leaf. */
const NO_LEAF = Buffer.alloc(32);

/**
 * The same decision without the audit chain, for B4 alone; the service has no such switch. What is off: no entry is
 * encoded, no leaf and no chain hash is made, no row of `audit_entries` is written, and the domain's head keeps its
 * position and hash. All else is as it is, the head's counters and fence included.
 */
export function unchained<Command extends CommandBase, Reply>(
  decision: Decision<Command, Reply>,
): Decision<Command, Reply> {
  return {
    ...decision,
    decide(draft, command, now) {
      draft.append = (): AuditPosition => nowhere(draft);
      return decision.decide(draft, command, now);
    },
  };
}

/** Positions are of the head as it stands; some are held to be above 0. */
function nowhere(draft: Draft): AuditPosition {
  return { seq: draft.head.seq, leaf: NO_LEAF };
}

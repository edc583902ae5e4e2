import type { AuditDraft } from '../../src/ledger/audit/records.js';
import type { CommandBase, Decision } from '../../src/ledger/decision.js';
import type { AuditPosition, Draft } from '../../src/ledger/working-set.js';

/** What stands in place of a leaf that nobody made. */
const NO_LEAF = Buffer.alloc(32);

/**
 * The same decision without the audit chain, for B4 alone; the service has no such switch. Entries are encoded and written, at
 * the head's next position, but no leaf and no chain hash is made.
 */
export function unchained<Command extends CommandBase, Reply>(
  decision: Decision<Command, Reply>,
): Decision<Command, Reply> {
  return appending(decision, appendUnchained);
}

/**
 * The same decision without any log, for B4 alone: no entry is encoded, no row of `audit_entries` is written, and the head keeps
 * its position and hash. All else is as it is, the head's counters and fence included.
 */
export function unlogged<Command extends CommandBase, Reply>(
  decision: Decision<Command, Reply>,
): Decision<Command, Reply> {
  return appending(decision, nowhere);
}

function appending<Command extends CommandBase, Reply>(
  decision: Decision<Command, Reply>,
  append: (draft: Draft, entry: AuditDraft) => AuditPosition,
): Decision<Command, Reply> {
  return {
    ...decision,
    decide(draft, command, now) {
      draft.append = (entry) => append(draft, entry);
      return decision.decide(draft, command, now);
    },
  };
}

/** Positions are of the head as it stands; some are held to be above 0. */
function nowhere(draft: Draft): AuditPosition {
  return { seq: draft.head.seq, leaf: NO_LEAF };
}

function appendUnchained(draft: Draft, entry: AuditDraft): AuditPosition {
  const seq = draft.head.seq + 1n;
  const { incarnation } = draft.facts;
  const placed = { ...entry, domainId: draft.domainId, seq, incarnation, time: draft.now };
  draft.put('audit_entries', {
    seq,
    entry: draft.codec.encode(placed),
    leafHash: NO_LEAF,
    // The head's, which stays as it is: the next batch looks for it.
    chainHash: draft.head.chainHash,
    effectId: entry.effect?.effectId ?? null,
    effectStep: entry.effect?.step ?? null,
  });
  draft.head = { ...draft.head, seq, incarnation, lastTime: draft.now };
  return { seq, leaf: NO_LEAF };
}

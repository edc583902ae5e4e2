import type { AuditDraft } from '../../src/ledger/audit/records.js';
import type { DecisionRow } from '../../src/ledger/authority/records.js';
import { accept, type Decision } from '../../src/ledger/decision.js';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import type { ReserveEffectCommand, ReserveEffectReply } from '../../src/ledger/effect/reserve-effect.js';
import { sha256 } from '../../src/ledger/encoding.js';
import type { Draft } from '../../src/ledger/working-set.js';

type Reserve = Decision<ReserveEffectCommand, ReserveEffectReply>;

/** What one reservation wrote: the pattern of those that follow. */
interface Pattern {
  readonly decision: DecisionRow;
  readonly effect: EffectRow;
  /** Its two entries of the log, in order. */
  readonly entries: readonly AuditDraft[];
}

/**
 * The rows and entries of a reservation, written by the lane with nothing else: of what a rule looks at only the grant is
 * read, since its row is updated, and no rule is asked. What a lane cannot do without, for B3 alone; the service has no such switch.
 *
 * The first command is decided as it is and says what a reservation writes. Those behind it have its rows with ids, fences,
 * positions and digests of their own, as wide as the real ones, and their entries are chained.
 */
export function rowsOnly(reserve: Reserve): Reserve {
  let pattern: Pattern | undefined;
  const copies = new WeakSet<ReserveEffectCommand>();
  return {
    ...reserve,
    reads(command) {
      if (pattern === undefined) return reserve.reads(command);
      copies.add(command);
      return { grants: [command.grantId] };
    },
    decide(draft, command, now) {
      if (pattern !== undefined && copies.has(command)) return accept(copyOf(pattern, draft, command));
      const { outcome, entries } = watched(reserve, draft, command, now);
      if (outcome.ok) {
        const decision = draft.get('decisions', command.decisionId) as DecisionRow;
        pattern = { decision, effect: outcome.reply.effect as EffectRow, entries };
      }
      return outcome;
    },
  };
}

function watched(
  reserve: Reserve,
  draft: Draft,
  command: ReserveEffectCommand,
  now: bigint,
): { readonly outcome: ReturnType<Reserve['decide']>; readonly entries: readonly AuditDraft[] } {
  const entries: AuditDraft[] = [];
  const append = draft.append.bind(draft);
  draft.append = (entry) => {
    entries.push(entry);
    return append(entry);
  };
  return { outcome: reserve.decide(draft, command, now), entries };
}

function copyOf(pattern: Pattern, draft: Draft, command: ReserveEffectCommand): ReserveEffectReply {
  const { effectId, decisionId, grantId, eventId, requestDigest, commandId } = command;
  const grant = draft.get('grants', grantId);
  if (!grant) throw new Error('the grant is not there');
  const identityDigest = sha256(effectId);
  const fence = draft.nextFence();
  const [decided, placed] = pattern.entries.map((entry) =>
    draft.append({
      ...entry,
      commandId,
      ...(entry.decision && { decision: { ...entry.decision, decisionId } }),
      ...(entry.effect && {
        effect: { ...entry.effect, effectId, decisionId, grantId, eventId, fence, identityDigest },
      }),
    }),
  );
  if (!decided || !placed) throw new Error('a reservation has two entries');
  draft.put('grants', { ...grant, uses: grant.uses + 1n });
  draft.put('decisions', {
    ...pattern.decision,
    decisionId,
    grantId,
    requestDigest,
    decidedAt: draft.now,
    auditSeq: decided.seq,
  });
  draft.put('pending_work', { effectId, openedAt: draft.now });
  const { seq, leaf } = placed;
  const effect: EffectRow = {
    ...pattern.effect,
    ...{ effectId, decisionId, grantId, eventId, requestDigest, identityDigest, fence },
    effectKey: command.effectKey,
    keyDigest: sha256(command.effectKey),
    reservedAt: draft.now,
    stateAt: draft.now,
    ...{ reserveSeq: seq, lastSeq: seq, stateSeq: seq, reserveLeaf: leaf, stateLeaf: leaf },
  };
  draft.put('effects', effect);
  return { effect, duplicate: false, currentState: effect.state };
}

import { admitCall, callerActor } from '../admission/admit-call.js';
import { currentReader } from '../audit/current-reader.js';
import { isFrozenByRestore } from '../authority/restore-domain.js';
import { accept, type CommandBase, type Decision, refuse } from '../decision.js';
import { type Refusal, refusal } from '../refusal.js';
import { type Caller, type CallerKind, type Digest, HOUR, type Micros, SECOND } from '../types.js';
import type { Draft } from '../working-set.js';
import { countNonce } from './live-nonces.js';

/** How far ahead a carrier's last instant may lie: bounds how long a nonce is kept. */
export const NONCE_HORIZON: Micros = 24n * HOUR;

/** How much longer than its carrier a nonce is kept: a verifier whose clock is behind still finds it spent. */
export const NONCE_GRACE: Micros = 60n * SECOND;

/** Consumes a nonce once. */
export interface ConsumeNonceCommand extends CommandBase {
  readonly caller: Caller;
  /** Of `nonceKey`: the nonce itself goes no further than the rpc layer. */
  readonly nonceKey: Digest;
  /** 16 to 64 characters, new for each verification. */
  readonly consumptionId: string;
  /** The last instant at which the carrier could verify. */
  readonly expiresAt: Micros;
}

/** When the nonce was consumed, by this call or by an earlier one with the same consumption id. */
export interface ConsumeNonceReply {
  readonly duplicate: boolean;
  readonly consumedAt: Micros;
}

const OF_ITS_OWN_DOMAIN: ReadonlySet<CallerKind> = new Set(['harness', 'executor', 'reconciler', 'worker']);

/**
 * provenance-audit-replay.md, Replay nonces. Appends nothing to the log. Any row that is still there counts as spent,
 * also one whose time is over. After a restore a nonce that is not there may be spent all the same: none is consumed until
 * an operator ends the restore's freeze.
 */
export const consumeNonce: Decision<ConsumeNonceCommand, ConsumeNonceReply> = {
  kind: 'consume_nonce',
  reads: (command) => ({
    callers: [command.caller.spiffeId],
    operators: [command.caller.spiffeId],
    platformOperators: [command.caller.spiffeId],
    owners: [command.caller.spiffeId],
    replayNonces: [command.nonceKey],
    replayCallers: [command.caller.spiffeId],
    actorCounters: [callerActor(command.caller.spiffeId)],
  }),
  decide: (draft, command) => {
    const refused = callerRefusal(draft, command.caller);
    if (refused) return refuse(refused);
    const spent = draft.get('replay_nonces', command.nonceKey);
    if (spent?.consumptionId === command.consumptionId) {
      return accept({ duplicate: true, consumedAt: spent.consumedAt });
    }
    if (spent) return refuse(refusal('NONCE_REPLAYED', 'The nonce is spent.'));
    if (isFrozenByRestore(draft.domain)) return refuse(forgotten());
    const untimely = expiryRefusal(draft, command.expiresAt);
    if (untimely) return refuse(untimely);
    const { spiffeId } = command.caller;
    const stored = draft.get('replay_callers', spiffeId);
    const live = countNonce(spiffeId, stored, command.expiresAt + NONCE_GRACE, draft.now);
    if ('retryAfter' in live) {
      return refuse(
        refusal('QUOTA_EXHAUSTED', 'The caller has too many live nonces.', {
          retryAfter: live.retryAfter,
          resource: { type: 'quota', name: 'live_nonces' },
        }),
      );
    }
    const held = admitCall(draft, callerActor(spiffeId));
    if (held) return refuse(held);
    draft.put('replay_callers', live.row);
    draft.put('replay_nonces', {
      nonceKey: command.nonceKey,
      consumptionId: command.consumptionId,
      consumedAt: draft.now,
      expiresAt: command.expiresAt,
    });
    return accept({ duplicate: false, consumedAt: draft.now });
  },
};

/** Any kind of caller that the domain knows, in force; a platform operator is known in every domain of its scope. */
function callerRefusal(draft: Draft, caller: Caller): Refusal | undefined {
  if (draft.domain.status !== 'active') return refusal('DOMAIN_INACTIVE', 'The domain is not active.');
  if (isKnown(draft, caller)) return undefined;
  return refusal('CALLER_UNKNOWN', 'The SPIFFE ID is not registered in the domain.');
}

function isKnown(draft: Draft, caller: Caller): boolean {
  if (caller.notAfter <= draft.now) return false;
  const row = draft.get('callers', caller.spiffeId);
  if (row && OF_ITS_OWN_DOMAIN.has(row.kind) && caller.trustDomain === draft.domainId) return true;
  if (row?.kind === 'owner' && draft.get('owners', caller.spiffeId)?.status === 'active') return true;
  // Also where the domain's own row of a platform operator says something else.
  return 'operator' in currentReader(draft, caller, ['operator', 'auditor']);
}

/** What was spent between the backup and the restore is not known; until an operator says so, every nonce may be spent. */
function forgotten(): Refusal {
  return refusal('FROZEN', 'The store was brought back from a backup: nobody knows which nonces are spent.', {
    metadata: { scope: 'domain' },
  });
}

function expiryRefusal(draft: Draft, expiresAt: Micros): Refusal | undefined {
  const rule =
    expiresAt <= draft.now
      ? 'must lie ahead of the clock of the store'
      : expiresAt > draft.now + NONCE_HORIZON
        ? 'must lie at most 24 h ahead'
        : undefined;
  if (rule === undefined) return undefined;
  return refusal('FIELD_INVALID', 'The nonce cannot be kept for that time.', {
    violations: [{ field: 'expire_time', rule }],
  });
}

import { admitCall, callerActor } from '../admission/admit-call.js';
import { currentReader } from '../audit/current-reader.js';
import { currentActor } from '../authority/current-actor.js';
import { isFrozenByRestore } from '../authority/restore-domain.js';
import { accept, type CommandBase, type Decision, refuse } from '../decision.js';
import { currentRegistrations, NO_EFFECT, workloadReads } from '../identity/current-registrations.js';
import type { Reads } from '../reads.js';
import { type Refusal, refusal } from '../refusal.js';
import {
  type Caller,
  type CallerKind,
  type Digest,
  HOUR,
  type Micros,
  SECOND,
  type WorkloadRole,
} from '../types.js';
import type { Draft } from '../working-set.js';
import { countNonce } from './live-nonces.js';

/** How far ahead a carrier's last instant may lie: bounds how long a nonce is kept. */
export const NONCE_HORIZON: Micros = 24n * HOUR;

/** How much longer than its carrier a nonce is kept: a verifier whose clock is behind still finds it spent. */
export const NONCE_GRACE: Micros = 60n * SECOND;

/** Consumes a nonce once. */
export interface ConsumeNonceCommand extends CommandBase {
  readonly caller: Caller;
  /** What the method table took the caller for; its rows are read and decide. */
  readonly kind: CallerKind;
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

const WORKLOADS: { readonly [K in CallerKind]?: WorkloadRole } = {
  executor: 'effect_executor',
  reconciler: 'effect_reconciler',
  worker: 'action_worker',
};

/**
 * provenance-audit-replay.md, Replay nonces. Appends nothing to the log. Any row that is still there counts as spent,
 * also one whose time is over. After a restore a nonce that is not there may be spent all the same: none is consumed until
 * an operator ends the restore's freeze.
 *
 * @throws {Refused} the reasons of `currentRegistrations`
 */
export const consumeNonce: Decision<ConsumeNonceCommand, ConsumeNonceReply> = {
  kind: 'consume_nonce',
  reads: (command) => ({
    ...callerReads(command),
    replayNonces: [command.nonceKey],
    replayCallers: [command.caller.spiffeId],
    actorCounters: [callerActor(command.caller.spiffeId)],
  }),
  decide: (draft, command) => {
    const refused = callerRefusal(draft, command);
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

/** The rows that say whether the caller is in force, as what it was admitted. */
function callerReads({ caller, kind }: ConsumeNonceCommand): Reads {
  const ids = [caller.spiffeId];
  if (kind === 'harness') return { callerHarness: ids };
  if (kind === 'owner') return { callers: ids, owners: ids };
  if (WORKLOADS[kind] !== undefined) return workloadReads({ caller, kind }, NO_EFFECT);
  return { operators: ids, platformOperators: ids };
}

/**
 * Any kind of caller that the domain knows, in force as it must be for any other call: a harness with its owner and its
 * credential, a workload with a registration, an owner, an operator or auditor of the domain or of the platform.
 */
function callerRefusal(draft: Draft, { caller, kind }: ConsumeNonceCommand): Refusal | undefined {
  if (draft.domain.status !== 'active') return refusal('DOMAIN_INACTIVE', 'The domain is not active.');
  const unknown = refusal('CALLER_UNKNOWN', 'The SPIFFE ID is not registered in the domain.');
  if (caller.notAfter <= draft.now) return unknown;
  if (kind === 'harness') {
    const result = currentActor(draft, caller);
    return 'refused' in result ? result.refused : undefined;
  }
  const role = WORKLOADS[kind];
  if (role !== undefined) {
    currentRegistrations(draft, { caller, kind }, role);
    return undefined;
  }
  if (kind === 'owner') return isOwner(draft, caller) ? undefined : unknown;
  return 'operator' in currentReader(draft, caller, ['operator', 'auditor']) ? undefined : unknown;
}

function isOwner(draft: Draft, { spiffeId }: Caller): boolean {
  return (
    draft.get('callers', spiffeId)?.kind === 'owner' && draft.get('owners', spiffeId)?.status === 'active'
  );
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

import type { DomainCounters, DomainLimits } from '../ledger/admission/records.js';
import type { DomainHead } from '../ledger/audit/records.js';
import type { DomainRow } from '../ledger/authority/records.js';

/** The columns of a domain's head, as `headOf` wants them. */
export const HEAD_COLUMNS =
  'seq, chain_hash, incarnation, fence_counter, last_time, minute_start, calls, safety_calls, pending, window_start, ' +
  'served_calls, served_actors';

/** The columns of a domain's row, as `domainOf` wants them. */
export const DOMAIN_COLUMNS =
  'status, policy_revision, revocation_epoch, frozen, freeze_reason, allow_standing, requests_per_minute, ' +
  'actor_requests_per_minute, pending_ceiling, fairness_burst, max_hops, revision, created_at';

type Raw = Readonly<Record<string, unknown>>;

/** A domain's head as the driver gave it. */
export function headOf(row: Raw): DomainHead {
  return {
    seq: row['seq'] as bigint,
    chainHash: row['chain_hash'] as Buffer,
    incarnation: row['incarnation'] as bigint,
    fenceCounter: row['fence_counter'] as bigint,
    lastTime: row['last_time'] as bigint,
    counters: countersOf(row),
  };
}

function countersOf(row: Raw): DomainCounters {
  const actors = row['served_actors'] as readonly number[];
  return {
    minuteStart: row['minute_start'] as bigint,
    calls: row['calls'] as number,
    safetyCalls: row['safety_calls'] as number,
    pending: row['pending'] as number,
    windowStart: row['window_start'] as bigint,
    served: (row['served_calls'] as readonly number[]).map((calls, i) => ({ calls, actors: actors[i] ?? 0 })),
  };
}

/** A domain's row as the driver gave it. */
export function domainOf(row: Raw): DomainRow {
  return {
    status: row['status'] as DomainRow['status'],
    policyRevision: row['policy_revision'] as bigint,
    revocationEpoch: row['revocation_epoch'] as bigint,
    frozen: row['frozen'] as boolean,
    freezeReason: row['freeze_reason'] as string | null,
    allowStanding: row['allow_standing'] as boolean,
    limits: limitsOf(row),
    revision: row['revision'] as bigint,
    createdAt: row['created_at'] as bigint,
  };
}

function limitsOf(row: Raw): DomainLimits {
  return {
    requestsPerMinute: row['requests_per_minute'] as number,
    actorRequestsPerMinute: row['actor_requests_per_minute'] as number,
    pendingCeiling: row['pending_ceiling'] as number,
    fairnessBurst: row['fairness_burst'] as number,
    maxHops: row['max_hops'] as number,
  };
}

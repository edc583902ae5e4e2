import { mayBeDone, OutcomeUnknown } from '../client/send-exactly.js';
import { SuretyError } from '../client/surety-error.js';

/** The action is not ours any more, or not in the state that we believed: whoever holds it goes on. */
const LOST: ReadonlySet<string> = new Set(['LEASE_LOST', 'ACTION_STATE_CONFLICT', 'NOT_VISIBLE']);

/** Nothing changed, and it may be otherwise later. */
const LATER: ReadonlySet<string> = new Set([
  ...['ACTION_NOT_READY', 'FROZEN', 'VIEW_NOT_CURRENT', 'CHECK_STALE'],
  ...['BACKPRESSURE', 'QUOTA_EXHAUSTED', 'FAIRNESS_HOLD', 'CIRCUIT_OPEN', 'DEADLINE_PASSED'],
]);

/** Of the action, its gate or its receipts, none of which can become another. */
const FINAL: ReadonlySet<string> = new Set([
  ...[
    'FIELD_INVALID',
    'EXPECTATION_MISMATCH',
    'GATE_INVALID',
    'APPROVAL_EXPIRED',
    'APPROVAL_SIGNATURE_INVALID',
  ],
  ...['OWNER_NOT_CURRENT', 'OWNER_SCOPE_MISSING', 'OWNER_REQUIRED', 'APPROVER_NOT_INDEPENDENT'],
  ...['BOUNDED_GRANT_NOT_USABLE', 'CONDITION_DENIED', 'RECOVERY_CONTRACT_EXISTS', 'EFFECT_NOT_BINDABLE'],
  ...['RECEIPT_CONFLICT', 'RECEIPT_LIMIT_REACHED', 'WITNESS_INVALID'],
]);

/** What a failed call about an action means to a worker. */
export type Meaning =
  /** Whether it was done is not known. */
  | 'unclear'
  | 'lost'
  | 'later'
  | 'final'
  /** Of the worker itself, or of nobody's doing: it is not for one action to answer. */
  | 'other';

/** @param error of a call to the service; anything else is a bug, and `other` */
export function meaningOf(error: unknown): Meaning {
  if (error instanceof OutcomeUnknown) return 'unclear';
  if (!(error instanceof SuretyError)) return 'other';
  if (mayBeDone(error)) return 'unclear';
  const { reason } = error;
  if (LOST.has(reason)) return 'lost';
  if (LATER.has(reason)) return 'later';
  return FINAL.has(reason) ? 'final' : 'other';
}

/** actions.md, States. */
export type ActionState =
  | 'PROPOSED'
  | 'GATED'
  | 'DISPATCHED'
  | 'ACCEPTED'
  | 'VERIFIED'
  | 'COMPLETED'
  | 'FAILED';

/** What happened to an action; one entry in the log each. */
export type ActionEventKind =
  | 'proposed'
  | 'gated'
  | 'rejected'
  | 'expired'
  | 'leased'
  | 'observation_leased'
  | 'deferred'
  | 'reaped'
  | 'dispatched'
  | 'observation_started'
  | 'accepted'
  | 'verified'
  | 'completed'
  | 'failed'
  | 'receipt_added';

/** Why an action failed. All but the first three are ambiguous: nobody knows what the dispatch did. */
export type FailureReason =
  | 'worker'
  | 'rejected'
  | 'proposal_expired'
  | 'observations_exhausted'
  | 'observation_deadline'
  | 'contract_invalid'
  | 'journal_invalid'
  | 'restored';

/** actions.md, I2: each class has receipt keys of its own. */
export type ReceiptClass = 'gate' | 'recovery' | 'observation' | 'general';

/** The states that `LeaseNext` hands out; DISPATCHED is leased to observe only (I6). */
export type LeasableState = Extract<ActionState, 'GATED' | 'ACCEPTED' | 'VERIFIED'>;

export const LEASABLE_STATES: readonly LeasableState[] = ['GATED', 'ACCEPTED', 'VERIFIED'];

/** The states that a worker leases an action in, to move it on or to observe. */
export const WORKED_STATES: ReadonlySet<ActionState> = new Set([...LEASABLE_STATES, 'DISPATCHED']);

/** The status of a gate that allows its dispatch. */
export const GATE_PASSED = 'passed';

/** I8, Monotone lifecycle: where each state leads. FAILED ends everything that has not ended. */
export const NEXT_STATE: { readonly [S in ActionState]?: ActionState } = {
  PROPOSED: 'GATED',
  GATED: 'DISPATCHED',
  DISPATCHED: 'ACCEPTED',
  ACCEPTED: 'VERIFIED',
  VERIFIED: 'COMPLETED',
};

/** Whether an action has ended, for ever. */
export function isEnded(state: ActionState): boolean {
  return state === 'COMPLETED' || state === 'FAILED';
}

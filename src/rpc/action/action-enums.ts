import {
  ActionState as WireState,
  FailureReason as WireFailure,
} from '../../gen/surety/action/v1/action_pb.js';
import { ReceiptClass as WireClass } from '../../gen/surety/action/v1/receipt_pb.js';
import type { ActionState, FailureReason, LeasableState, ReceiptClass } from '../../ledger/action/states.js';

/** Enums of the contract and the names that they have in the rows, both ways. */

export const WIRE_STATES: Readonly<Record<ActionState, WireState>> = {
  PROPOSED: WireState.PROPOSED,
  GATED: WireState.GATED,
  DISPATCHED: WireState.DISPATCHED,
  ACCEPTED: WireState.ACCEPTED,
  VERIFIED: WireState.VERIFIED,
  COMPLETED: WireState.COMPLETED,
  FAILED: WireState.FAILED,
};
export const STATES: Readonly<Record<number, ActionState>> = flip(WIRE_STATES);
/** What `LeaseNext` may be asked for; DISPATCHED is leased to observe only (actions.md, I6). */
export const LEASABLE: Readonly<Record<number, LeasableState>> = {
  [WireState.GATED]: 'GATED',
  [WireState.ACCEPTED]: 'ACCEPTED',
  [WireState.VERIFIED]: 'VERIFIED',
};

export const WIRE_FAILURES: Readonly<Record<FailureReason, WireFailure>> = {
  worker: WireFailure.WORKER,
  rejected: WireFailure.REJECTED,
  proposal_expired: WireFailure.PROPOSAL_EXPIRED,
  observations_exhausted: WireFailure.OBSERVATIONS_EXHAUSTED,
  observation_deadline: WireFailure.OBSERVATION_DEADLINE,
  contract_invalid: WireFailure.CONTRACT_INVALID,
  journal_invalid: WireFailure.JOURNAL_INVALID,
  restored: WireFailure.RESTORED,
};
export const FAILURES: Readonly<Record<number, FailureReason>> = flip(WIRE_FAILURES);

export const WIRE_CLASSES: Readonly<Record<ReceiptClass, WireClass>> = {
  gate: WireClass.GATE,
  recovery: WireClass.RECOVERY,
  observation: WireClass.OBSERVATION,
  general: WireClass.GENERAL,
};

function flip<Name extends string>(names: Readonly<Record<Name, number>>): Readonly<Record<number, Name>> {
  return Object.fromEntries(Object.entries(names).map(([name, number]) => [number, name as Name]));
}

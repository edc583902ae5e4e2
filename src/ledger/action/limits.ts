import { DAY, HOUR, type Micros, MINUTE, SECOND } from '../types.js';

/** A payload is what a tool is called with, not a file; a request with one stays far below the 1 MiB of a message. */
export const MAX_PAYLOAD_BYTES = 64 * 1024;
/** Evidence says what happened, and is read again with every dispatch. */
export const MAX_EVIDENCE_BYTES = 16 * 1024;
/** actions.md, after Invariants. Deeper ones overflow some parser's stack. */
export const MAX_JSON_DEPTH = 32;

export const MIN_LEASE: Micros = SECOND;
export const MAX_LEASE: Micros = HOUR;
export const MIN_PROPOSAL_TTL: Micros = SECOND;
/** A month: what nobody looked at for so long is not wanted any more. */
export const MAX_PROPOSAL_TTL: Micros = 30n * DAY;
/** The longest delay of a defer; the shortest is one microsecond. */
export const MAX_DELAY: Micros = DAY;
export const MIN_OBSERVATION_WINDOW: Micros = SECOND;
export const MAX_OBSERVATION_WINDOW: Micros = HOUR;
export const MAX_OBSERVATIONS = 100;

/** An owner's clock may run ahead by so much (actions.md, BeginDispatch). */
export const MAX_DECISION_AHEAD: Micros = 30n * SECOND;
/** A signed bounded grant is stored within so long; an owner signs it by hand, perhaps on another machine. */
export const MAX_GRANT_ISSUE_AGE: Micros = DAY;
export const MAX_GRANT_ISSUE_AHEAD: Micros = MINUTE;

/** Expired leases that `LeaseNext` takes back first, so that a domain without sweeps goes on too. */
export const REAPED_PER_LEASE = 20;
/** Actions that `LeaseObservation` ends on the way, so that one call stays short. */
export const ENDED_PER_LEASE = 20;
/** General receipts of one action: all of them are read with a view. */
export const MAX_GENERAL_RECEIPTS = 64;
/** What `AddReceipt` may fill of it as the leaseholder: one place each is left to the acceptance and the verification. */
export const MAX_ADDED_BY_LEASEHOLDER = MAX_GENERAL_RECEIPTS - 2;
/** And as any other party: whoever proposed an action must not be able to keep the leaseholder from settling it. */
export const MAX_ADDED_BY_PARTY = MAX_GENERAL_RECEIPTS / 2;
/** Gates of one action. The second already makes its dispatch impossible; more would only fill the store. */
export const MAX_GATES = 8;
/** Receipts that `VerifyAction` names. */
export const MAX_WITNESSES = 32;
/** Types and actions of a scope. */
export const MAX_SCOPE_TYPES = 64;
export const MAX_SCOPE_ACTIONS = 100;

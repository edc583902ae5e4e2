import type { GrantSupply, RoundPlan } from '../load/messages.js';

/** Connects to the store; what was open before is closed. */
export interface OpenLaneOrder {
  readonly kind: 'open';
  readonly url: string;
  readonly role: string;
  readonly batchLimit: number;
}

/** Reserves one effect for each grant, for as long as there are grants and time, without RPC. */
export interface LaneReserveOrder extends RoundPlan {
  readonly kind: 'reserve';
  readonly domainId: string;
  readonly grants: GrantSupply;
  /** Published events, by harness. */
  readonly events: readonly (readonly string[])[];
  readonly log: LogMode;
}

/** What becomes of the entries of the log (`unchained.ts`). */
export type LogMode = 'chained' | 'unchained' | 'none';

export type LaneOrder = OpenLaneOrder | LaneReserveOrder;

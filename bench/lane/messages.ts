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
  readonly mode: LaneMode;
}

/**
 * What the lane does. `whole`: all of it, as in the service; `unchained`, `unlogged`: without the chain, without any log
 * (`unchained.ts`); `rows`: its rows, and no rule (`rows-only.ts`).
 */
export type LaneMode = 'whole' | 'unchained' | 'unlogged' | 'rows';

export type LaneOrder = OpenLaneOrder | LaneReserveOrder;

import type { RoundPlan } from '../load/messages.js';

/** Opens the peer. */
export interface OpenPeerOrder {
  readonly kind: 'open';
  /** Where its packages are installed. */
  readonly packages: string;
  /** An empty database of its own on the Postgres of the run. */
  readonly databaseUrl: string;
  /** A folder of its own, for what it stores elsewhere. */
  readonly folder: string;
}

/** So many callers, each running one piece of work after the other. */
export interface PeerRoundOrder extends RoundPlan {
  readonly kind: 'round';
}

export type PeerOrder = OpenPeerOrder | PeerRoundOrder;

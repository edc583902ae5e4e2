import type { GrantSupply, IdentityText, RoundPlan } from '../load/messages.js';

/** A harness's connection to one of the replicas. */
export interface ScaleConnection {
  readonly target: string;
  /** From 0. */
  readonly replica: number;
  readonly domainId: string;
  /** Its place in `HARNESSES`. */
  readonly harness: number;
  readonly identity: IdentityText;
}

/** What a domain's calls need. */
export interface ScaleDomain {
  readonly grants: GrantSupply;
  /** Published events, by harness. */
  readonly events: readonly (readonly string[])[];
}

/** Reserves over these connections, which are opened before the round where they are not open yet. */
export interface ScaleOrder extends RoundPlan {
  readonly connections: readonly ScaleConnection[];
  readonly domains: Readonly<Record<string, ScaleDomain>>;
}

/** What `Measured.figures` of a round say of each replica: `<figure>_<replica>`. */
export const REPLICA_FIGURES = ['calls', 'p50_ms', 'p99_ms', 'longest_silence_ms'] as const;
export type ReplicaFigure = (typeof REPLICA_FIGURES)[number];

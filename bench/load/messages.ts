/** A caller's certificate and key, PEM, and whom it trusts. */
export interface IdentityText {
  readonly certificate: string;
  readonly key: string;
  readonly roots: string;
}

/** Connects, one connection for each harness and one for the executor; what was open before is closed. */
export interface OpenOrder {
  readonly kind: 'open';
  readonly target: string;
  readonly harnesses: readonly IdentityText[];
  readonly executor: IdentityText;
  readonly registration: RegistrationText;
}

/** What the executor signs with and as. */
export interface RegistrationText {
  /** `RegistrationSpec`, base64. */
  readonly spec: string;
  /** PKCS #8. */
  readonly signingKey: string;
  readonly audience: string;
  readonly incarnation: string;
}

/** How a round is run. */
export interface RoundPlan {
  /** Calls that are under way at once. */
  readonly callers: number;
  readonly seconds: number;
}

/** One-use grants that were loaded for a round: `<name>-0` to `<name>-<count - 1>`, in turn for the harnesses. */
export interface GrantSupply {
  readonly name: string;
  readonly count: number;
}

/** Calls that do nothing. */
export interface EmptyOrder extends RoundPlan {
  readonly kind: 'empty';
}

/** What is reserved: one effect for each grant, for as long as there are grants and time. */
export interface ReservePlan extends RoundPlan {
  readonly grants: GrantSupply;
  /** Published events, by harness. */
  readonly events: readonly (readonly string[])[];
}

/** Reserves. */
export interface ReserveOrder extends ReservePlan {
  readonly kind: 'reserve';
  /** Keeps what was reserved, to be started. */
  readonly keep: boolean;
}

/** Starts what was kept, with proofs that are signed before the round. */
export interface StartOrder extends RoundPlan {
  readonly kind: 'start';
}

/** Reserves, starts and acknowledges one effect after the other; what proofs are about is known only then. */
export interface LifeOrder extends ReservePlan {
  readonly kind: 'life';
}

export type LoadOrder = OpenOrder | EmptyOrder | ReserveOrder | StartOrder | LifeOrder;

/** Microseconds since the Unix epoch, as the store keeps them (int8). A JavaScript `Date` would lose digits. */
export type Micros = bigint;

/** SHA-256: 32 bytes. */
export type Digest = Buffer;

export const SECOND: Micros = 1_000_000n;
export const MINUTE: Micros = 60n * SECOND;
export const HOUR: Micros = 60n * MINUTE;
export const DAY: Micros = 24n * HOUR;

/** effects.md, States. */
export type EffectState = 'PREPARED' | 'EXECUTING' | 'SUCCEEDED' | 'FAILED' | 'CANCELLED' | 'UNKNOWN';
export type TerminalState = 'SUCCEEDED' | 'FAILED' | 'CANCELLED';

/** What led to the present state. */
export type StateSource =
  | 'reservation'
  | 'executor'
  | 'reconciler'
  | 'actor'
  | 'expiry'
  | 'executor_lost'
  | 'restore';

/** authority.md, Records: data classes in order. The number is the one of the wire. */
export type DataClass = 1 | 2 | 3 | 4;

/** identity.md, Workload registration. */
export type WorkloadRole = 'effect_executor' | 'effect_reconciler' | 'action_worker';

/** identity.md, Callers. */
export type CallerKind = 'harness' | 'executor' | 'reconciler' | 'worker' | 'owner' | 'operator' | 'auditor';

export type RecordStatus = 'active' | 'suspended' | 'revoked';

/** What a certificate must be to match a record: any current one of the SPIFFE ID, or one leaf only. */
export type CertificateBinding = 'spiffe_id' | 'certificate';

export type OperatorRole = 'ADMIN' | 'REGISTRAR' | 'FREEZER' | 'AUDITOR';

/** For whom a harness acts. */
export type ActorKind = 'principal' | 'guest';

/** The authenticated peer of a call, as the connection showed it. Nothing in a message ever says who the caller is. */
export interface Caller {
  readonly spiffeId: string;
  /** The trust domain of the SPIFFE ID. */
  readonly trustDomain: string;
  /** SHA-256 of the leaf certificate. */
  readonly leafDigest: Digest;
  /** RFC 7638 thumbprint of the leaf's public key: the same key in another certificate has the same. */
  readonly keyThumbprint: string;
  /** The leaf's end of validity; judged by the store's clock. */
  readonly notAfter: Micros;
}

export const TERMINAL_STATES: ReadonlySet<EffectState> = new Set(['SUCCEEDED', 'FAILED', 'CANCELLED']);

/** Whether a state is frozen for ever. */
export function isTerminal(state: EffectState): state is TerminalState {
  return TERMINAL_STATES.has(state);
}

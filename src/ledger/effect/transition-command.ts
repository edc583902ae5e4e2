import type { CommandBase } from '../decision.js';
import type { GrantRow } from '../authority/records.js';
import type { RegistrationRow } from '../identity/records.js';
import type { ProvenanceRow } from '../provenance/records.js';
import type { Caller, Digest, EffectState, Micros, WorkloadRole } from '../types.js';
import type { Evidence, EvidenceKind } from './evidence.js';
import type { EffectRow } from './records.js';
import type { StatementFields } from './statement.js';

/** A proof whose signature verified under a key; what it says is judged in the transaction. */
export interface VerifiedStatement {
  readonly statement: StatementFields;
  /** RFC 7638 thumbprint of the key under which it verified. */
  readonly keyThumbprint: string;
  /** SHA-256 of the exact statement bytes. */
  readonly statementDigest: Digest;
  /** What is kept, so that it verifies years later. */
  readonly proofBytes: Buffer;
  readonly encoding: 'jws' | 'dsse';
}

/** effects.md, Transitions by workloads: what each of the four carries. */
export interface TransitionCommand<K extends EvidenceKind = EvidenceKind> extends CommandBase {
  readonly caller: Caller;
  readonly effectId: string;
  readonly evidence: Evidence<K>;
  readonly proof: VerifiedStatement;
}

/** The reply of a transition: the effect as stored, and whether an earlier call made it. */
export interface TransitionReply {
  readonly effect: EffectRow;
  readonly duplicate: boolean;
  /** The record of the output, of a terminal state that a workload reached. */
  readonly output?: ProvenanceRow | undefined;
  /** Of a start: how long after this call, which may be a repeat, the request may be sent. */
  readonly sendWindow?: Micros;
}

/** What tells the four transitions apart. */
export interface TransitionKind {
  readonly rpc: 'start' | 'mark_unknown' | 'acknowledge' | 'reconcile';
  readonly role: WorkloadRole;
  readonly from: EffectState;
  readonly to: readonly EffectState[];
}

export const START: TransitionKind = {
  rpc: 'start',
  role: 'effect_executor',
  from: 'PREPARED',
  to: ['EXECUTING'],
};
export const MARK_UNKNOWN: TransitionKind = {
  rpc: 'mark_unknown',
  role: 'effect_executor',
  from: 'EXECUTING',
  to: ['UNKNOWN'],
};
export const ACKNOWLEDGE: TransitionKind = {
  rpc: 'acknowledge',
  role: 'effect_executor',
  from: 'EXECUTING',
  to: ['SUCCEEDED', 'FAILED', 'CANCELLED'],
};
export const RECONCILE: TransitionKind = {
  rpc: 'reconcile',
  role: 'effect_reconciler',
  from: 'UNKNOWN',
  to: ['SUCCEEDED', 'FAILED', 'CANCELLED'],
};

/** A transition with the rows that its rules are judged against. */
export interface TransitionCase<K extends EvidenceKind = EvidenceKind> {
  readonly kind: TransitionKind;
  readonly command: TransitionCommand<K>;
  readonly effect: EffectRow;
  readonly registration: RegistrationRow;
  readonly grant: GrantRow | undefined;
}

import type { Action } from '../../gen/surety/action/v1/action_pb.js';
import { BINDING_METHOD_FIELD, BOUNDED_GRANT_METHOD, UNLIMITED } from '../../ledger/action/gate-shapes.js';
import type { ServiceName } from './workload-session.js';

/** How long an approval is good where nothing else is said, in milliseconds. */
const VALIDITY_MS = 3_600_000;

/** Which gate it is, and for how long it is good. */
export interface ApprovalWish {
  /** New in the domain. */
  readonly approvalId: string;
  /** New in the domain. */
  readonly decisionId: string;
  /** The fields of one shape of the domain, each a text, or microseconds since the epoch. */
  readonly fields?: Readonly<Record<string, string | number>>;
  /** Milliseconds since the epoch. */
  readonly decidedAtMs: number;
  readonly validForMs?: number;
}

/**
 * The evidence of an owner's approval (action_service.proto, GateActionRequest), as the bytes that are signed and sent.
 *
 * @param action as the service shows it to its approver, who has looked at its payload
 */
export function approvalEvidence(
  action: Action,
  service: ServiceName,
  wish: ApprovalWish,
): Uint8Array<ArrayBuffer> {
  return evidence(action, service, 'approved', wish);
}

/** The evidence of an owner's refusal: no shape has a part in it. */
export function rejectionEvidence(
  action: Action,
  service: ServiceName,
  wish: Omit<ApprovalWish, 'fields'>,
): Uint8Array<ArrayBuffer> {
  return evidence(action, service, 'rejected', wish);
}

/** The fields of an approval under a bounded grant; its owner has signed the grant, and nobody signs this. */
export function boundedGrantFields(grant: {
  readonly boundedGrantId: string;
  /** Of the grant, in microseconds since the epoch; undefined: it does not end by itself. */
  readonly expiresAtMicros: bigint | undefined;
  /** What the grant is used for. */
  readonly sourceRequest: string;
}): Record<string, string | number> {
  const { boundedGrantId, expiresAtMicros, sourceRequest } = grant;
  return {
    grant_id: boundedGrantId,
    source_request: sourceRequest,
    grant_expires_at: expiresAtMicros === undefined ? UNLIMITED : Number(expiresAtMicros),
    [BINDING_METHOD_FIELD]: BOUNDED_GRANT_METHOD,
  };
}

function evidence(
  action: Action,
  { audience, incarnation }: ServiceName,
  decision: 'approved' | 'rejected',
  { approvalId, decisionId, fields = {}, decidedAtMs, validForMs = VALIDITY_MS }: ApprovalWish,
): Uint8Array<ArrayBuffer> {
  const members = {
    audience,
    incarnation: Number(incarnation),
    domain_id: action.domainId,
    action_id: action.actionId,
    action_digest: hex(action.actionDigest),
    payload_digest: hex(action.payloadDigest),
    approval_id: approvalId,
    decision_id: decisionId,
    decision,
    authority: 'owner',
    revision: 1,
    decided_at: micros(decidedAtMs),
    expires_at: micros(decidedAtMs + validForMs),
    ...fields,
  };
  return Uint8Array.from(Buffer.from(JSON.stringify(members), 'utf8'));
}

function hex(digest: Uint8Array): string {
  return Buffer.from(digest).toString('hex');
}

function micros(milliseconds: number): number {
  return Math.floor(milliseconds) * 1000;
}

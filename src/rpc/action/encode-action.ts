import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ActionLeaseSchema, ActionSchema } from '../../gen/surety/action/v1/action_pb.js';
import type { BoundedGrantSchema } from '../../gen/surety/action/v1/bounded_grant_pb.js';
import type { DeadLetterSchema } from '../../gen/surety/action/v1/event_pb.js';
import type { ReceiptSchema } from '../../gen/surety/action/v1/receipt_pb.js';
import { microsToTimestamp } from '../../identity/timestamp.js';
import type {
  ActionLeaseRow,
  ActionReceiptRow,
  ActionRow,
  BoundedGrantRow,
  DeadLetterRow,
} from '../../ledger/action/records.js';
import type { Digest, Micros } from '../../ledger/types.js';
import type { TimeFields } from '../validate.js';
import { WIRE_CLASSES, WIRE_FAILURES, WIRE_STATES } from './action-enums.js';

export type ActionInit = MessageInitShape<typeof ActionSchema>;
export type ReceiptInit = MessageInitShape<typeof ReceiptSchema>;
export type DeadLetterInit = MessageInitShape<typeof DeadLetterSchema>;

/** An action as it is shown. */
export function wireAction(domainId: string, action: ActionRow): ActionInit {
  return { ...listedAction(domainId, action), payload: bytes(action.payload) };
}

/** The same without its payload, as lists have it. */
export function listedAction(domainId: string, action: ActionRow): ActionInit {
  const lease = currentLease(action);
  return {
    ...proposal(domainId, action),
    ...dispatch(action),
    state: WIRE_STATES[action.state],
    attemptCount: action.attemptCount,
    updateTime: microsToTimestamp(action.updatedAt),
    nextAttemptTime: microsToTimestamp(action.nextAttemptAt),
    ...(lease && { lease }),
    acceptanceReceiptKey: action.acceptanceReceiptKey ?? '',
    resultDigest: bytes(action.resultDigest),
    ...(action.failureReason && { failureReason: WIRE_FAILURES[action.failureReason] }),
    retryable: action.retryable,
    eventCount: action.eventCount,
    auditPosition: action.lastSeq,
    ...time('endTime', action.endedAt),
  };
}

function proposal(domainId: string, action: ActionRow) {
  return {
    actionId: action.actionId,
    domainId,
    idempotencyKey: action.idempotencyKey,
    source: action.source,
    sourceRef: action.sourceRef,
    type: action.type,
    toolName: action.toolName,
    payloadDigest: bytes(action.payloadDigest),
    actionDigest: bytes(action.actionDigest),
    maxAttempts: action.maxAttempts,
    proposerSpiffeId: action.proposerSpiffeId,
    createTime: microsToTimestamp(action.createdAt),
    ...(action.state === 'PROPOSED' ? time('proposalExpireTime', action.proposalExpiresAt) : {}),
  };
}

function dispatch(action: ActionRow) {
  return {
    ...time('dispatchTime', action.dispatchedAt),
    executionDigest: bytes(action.executionDigest),
    ...time('observationDeadlineTime', action.observationDeadline),
    maxObservations: action.maxObservations ?? 0,
    observationCount: action.observationCount,
    effectId: action.effectId ?? '',
  };
}

function currentLease(action: ActionRow): MessageInitShape<typeof ActionLeaseSchema> | undefined {
  if (action.leaseToken === null) return undefined;
  return {
    leaseToken: action.leaseToken,
    holderSpiffeId: action.leaseHolder ?? '',
    registrationId: action.leaseRegistrationId ?? '',
    ...time('leaseTime', action.leasedAt),
    ...time('expireTime', action.leaseExpiresAt),
  };
}

/** The lease that a request got, also where it has ended by now. */
export function wireLease(lease: ActionLeaseRow): MessageInitShape<typeof ActionLeaseSchema> {
  return {
    leaseToken: lease.leaseToken,
    holderSpiffeId: lease.holderSpiffeId,
    registrationId: lease.registrationId,
    leaseTime: microsToTimestamp(lease.leasedAt),
    expireTime: microsToTimestamp(lease.expiresAt),
  };
}

export function wireReceipt(receipt: ActionReceiptRow): ReceiptInit {
  return {
    actionId: receipt.actionId,
    receiptClass: WIRE_CLASSES[receipt.receiptClass],
    receiptKey: receipt.receiptKey,
    kind: receipt.kind,
    status: receipt.status,
    externalId: receipt.externalId,
    evidence: bytes(receipt.evidence),
    evidenceDigest: bytes(receipt.evidenceDigest),
    actorSpiffeId: receipt.actorSpiffeId,
    createTime: microsToTimestamp(receipt.createdAt),
    eventNumber: receipt.eventNumber,
    signatureJws: receipt.signature?.toString('latin1') ?? '',
  };
}

export function wireDeadLetter(letter: DeadLetterRow): DeadLetterInit {
  return {
    actionId: letter.actionId,
    failureReason: WIRE_FAILURES[letter.failureReason],
    detail: letter.detail,
    retryable: letter.retryable,
    fromState: WIRE_STATES[letter.fromState],
    failTime: microsToTimestamp(letter.failedAt),
    snapshot: bytes(letter.snapshot),
    snapshotDigest: bytes(letter.snapshotDigest),
    auditPosition: letter.auditSeq,
  };
}

export function wireBoundedGrant(grant: BoundedGrantRow): MessageInitShape<typeof BoundedGrantSchema> {
  return {
    boundedGrantId: grant.boundedGrantId,
    ownerSpiffeId: grant.ownerSpiffeId,
    sources: [...grant.sources],
    types: [...grant.types],
    tools: [...grant.tools],
    maxUses: grant.maxUses,
    uses: grant.uses,
    ...time('expireTime', grant.expiresAt),
    ...time('revokeTime', grant.revokedAt),
    createTime: microsToTimestamp(grant.createdAt),
    statementDigest: bytes(grant.statementDigest),
    auditPosition: grant.auditSeq,
  };
}

function time<Name extends string>(name: Name, micros: Micros | null): { [N in Name]?: TimeFields } {
  return micros === null ? {} : ({ [name]: microsToTimestamp(micros) } as { [N in Name]: TimeFields });
}

/** The messages take plain arrays. */
function bytes(value: Buffer | Digest | null): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(value ?? []);
}

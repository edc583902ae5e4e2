import { fromBinary, type MessageInitShape } from '@bufbuild/protobuf';
import type { ActionEventSchema } from '../../gen/surety/action/v1/event_pb.js';
import { type AuditEntry, AuditEntrySchema } from '../../gen/surety/audit/v1/entry_pb.js';
import { leafHash } from '../../ledger/audit/chain.js';
import { sameDigest } from '../../ledger/encoding.js';
import { corruptEntry } from '../effect/effect-step.js';

/** An entry of the log about an action, with what stands beside it. */
export interface EventEntryRow {
  readonly seq: bigint;
  readonly entry: Buffer;
  readonly leafHash: Buffer;
  readonly actionId: string;
  readonly eventNumber: bigint;
}

export type EventInit = MessageInitShape<typeof ActionEventSchema>;

/**
 * An event of an action, from the bytes that were hashed when it was made; they are hashed again.
 *
 * @throws {Refused} DATA_CORRUPT, naming the entry, where they are not those bytes or say something else than where they
 *   stand
 */
export function wireEvent(
  domainId: string,
  row: EventEntryRow,
): EventInit & { readonly eventNumber: bigint } {
  const entry = sameDigest(leafHash(row.entry), row.leafHash) ? decode(row.entry) : undefined;
  const action = entry?.action;
  if (!entry || !action || !standsAt(entry, domainId, row)) throw corruptEntry(domainId, row.seq);
  return {
    actionId: action.actionId,
    eventNumber: action.eventNumber,
    kind: action.kind,
    fromState: action.fromState,
    toState: action.toState,
    actorSpiffeId: entry.actorSpiffeId,
    leaseToken: action.leaseToken,
    receiptClass: action.receiptClass,
    receiptKey: action.receiptKey,
    observationNumber: action.observationNumber,
    failureReason: action.failureReason,
    ...(entry.time && { eventTime: entry.time }),
    auditPosition: entry.seq,
  };
}

function standsAt(entry: AuditEntry, domainId: string, row: EventEntryRow): boolean {
  return (
    entry.domainId === domainId &&
    entry.seq === row.seq &&
    entry.action?.actionId === row.actionId &&
    entry.action.eventNumber === row.eventNumber
  );
}

function decode(bytes: Uint8Array): AuditEntry | undefined {
  try {
    return fromBinary(AuditEntrySchema, bytes);
  } catch {
    return undefined;
  }
}

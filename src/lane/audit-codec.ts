import { fromBinary } from '@bufbuild/protobuf';
import { AuditEntrySchema, AuditKind as WireKind } from '../gen/surety/audit/v1/entry_pb.js';
import {
  ActionState as WireActionState,
  FailureReason as WireFailure,
} from '../gen/surety/action/v1/action_pb.js';
import { ActionEventKind as WireEvent } from '../gen/surety/action/v1/event_pb.js';
import { ReceiptClass as WireClass } from '../gen/surety/action/v1/receipt_pb.js';
import { StateSource as WireSource, EffectState as WireState } from '../gen/surety/effect/v1/effect_pb.js';
import { Reason as WireReason } from '../gen/surety/error/v1/reason_pb.js';
import type {
  ActionAudit,
  AuditCodec,
  AuditFields,
  AuditKind,
  CommandAudit,
  DecisionAudit,
  EffectAudit,
  RecordAudit,
} from '../ledger/audit/records.js';
import { type EffectState, type Micros, SECOND, type StateSource } from '../ledger/types.js';
import { MessageWriter } from './message-writer.js';

const KINDS: Readonly<Record<AuditKind, WireKind>> = {
  effect_step: WireKind.EFFECT_STEP,
  effect_late_evidence: WireKind.EFFECT_LATE_EVIDENCE,
  decision: WireKind.DECISION,
  command_intent: WireKind.COMMAND_INTENT,
  command: WireKind.COMMAND,
  event: WireKind.EVENT,
  provenance: WireKind.PROVENANCE,
  workload: WireKind.WORKLOAD,
  bootstrap: WireKind.BOOTSTRAP,
  domain_created: WireKind.DOMAIN_CREATED,
  archival: WireKind.ARCHIVAL,
  action_event: WireKind.ACTION_EVENT,
  bounded_grant: WireKind.BOUNDED_GRANT,
  restore: WireKind.RESTORE,
};
const SOURCES: Readonly<Record<StateSource, WireSource>> = {
  reservation: WireSource.RESERVATION,
  executor: WireSource.EXECUTOR,
  reconciler: WireSource.RECONCILER,
  actor: WireSource.ACTOR,
  expiry: WireSource.EXPIRY,
  executor_lost: WireSource.EXECUTOR_LOST,
  restore: WireSource.RESTORE,
};

const NANOS_PER_MICRO = 1000n;

/**
 * Entries of the log as `surety.audit.v1.AuditEntry` (provenance-audit-replay.md, Audit). Fields are written in ascending
 * order and defaults left out, so that one entry has one encoding; the bytes are stored and hashed, never made again.
 * Each call of the lane writes one or two of them, so they are written without making messages first.
 */
export const auditCodec: AuditCodec = {
  encode(fields) {
    writeEntry(writer.begin(), fields);
    return writer.finish();
  },
  decodeEffect,
};

const writer = new MessageWriter();

function writeEntry(to: MessageWriter, fields: AuditFields): void {
  to.text(1, fields.domainId)
    .integer(2, fields.seq)
    .integer(3, fields.incarnation)
    .message(4, fields.time, writeTime)
    .number(5, KINDS[fields.kind])
    .text(6, fields.actorSpiffeId)
    .text(7, fields.commandId)
    .message(8, fields.effect, writeEffect)
    .message(9, fields.decision, writeDecision)
    .message(10, fields.record, writeRecord)
    .octets(11, fields.previousHead)
    .message(12, fields.command, writeCommand)
    .integer(13, fields.intentSeq)
    .message(20, fields.action, writeAction);
}

/** A `google.protobuf.Timestamp`. */
function writeTime(to: MessageWriter, time: Micros): void {
  to.integer(1, time / SECOND).number(2, Number((time % SECOND) * NANOS_PER_MICRO));
}

function writeEffect(to: MessageWriter, effect: EffectAudit): void {
  to.text(1, effect.effectId)
    .integer(2, effect.step)
    .number(3, effect.fromState && WireState[effect.fromState])
    .number(4, WireState[effect.toState])
    .number(5, SOURCES[effect.source])
    .integer(6, effect.fence)
    .text(7, effect.attemptId)
    .octets(8, effect.evidenceDigest)
    .octets(9, effect.proofDigest)
    .text(10, effect.registrationId)
    .answer(11, effect.grantCurrent)
    .text(12, effect.sink)
    .octets(13, effect.identityDigest)
    .octets(14, effect.provenanceDigest)
    .flag(15, effect.disputed)
    .text(16, effect.decisionId)
    .text(17, effect.grantId)
    .text(18, effect.eventId);
}

function writeDecision(to: MessageWriter, decision: DecisionAudit): void {
  to.text(1, decision.decisionId)
    .flag(2, decision.allowed)
    .number(3, decision.reason && WireReason[decision.reason])
    .text(4, decision.harnessId)
    .text(5, decision.actorId)
    .text(6, decision.action)
    .text(7, decision.resource)
    .octets(8, decision.contextDigest);
}

function writeRecord(to: MessageWriter, record: RecordAudit): void {
  to.text(1, record.type)
    .text(2, record.id)
    .integer(3, record.revision)
    .text(4, record.operation)
    .octets(5, record.digest);
}

function writeCommand(to: MessageWriter, command: CommandAudit): void {
  to.text(1, command.adminCommandId)
    .text(2, command.operation)
    .octets(3, command.payloadDigest)
    .integer(4, command.expectedPolicyRevision)
    .integer(5, command.expectedEntityRevision)
    .text(6, command.keyThumbprint);
}

function writeAction(to: MessageWriter, action: ActionAudit): void {
  to.text(1, action.actionId)
    .integer(2, action.eventNumber)
    .number(3, WireEvent[upper(action.kind)])
    .number(4, action.fromState && WireActionState[action.fromState])
    .number(5, WireActionState[action.toState])
    .integer(6, action.leaseToken)
    .number(7, action.receiptClass && WireClass[upper(action.receiptClass)])
    .text(8, action.receiptKey)
    .octets(9, action.evidenceDigest)
    .number(10, action.observationNumber)
    .number(11, action.failureReason && WireFailure[upper(action.failureReason)])
    .octets(12, action.actionDigest)
    .octets(13, action.executionDigest)
    .text(14, action.effectId)
    .text(15, action.boundedGrantId)
    .octets(16, action.signatureDigest);
}

/** Names of the ledger in lower case are those of the contract in upper case. */
function upper<Name extends string>(name: Name): Uppercase<Name> {
  return name.toUpperCase() as Uppercase<Name>;
}

function decodeEffect(
  entry: Uint8Array,
): { effectId: string; step: bigint; toState: EffectState; fence: bigint } | undefined {
  let decoded;
  try {
    decoded = fromBinary(AuditEntrySchema, entry);
  } catch {
    // What does not parse proves nothing; the caller names the row.
    return undefined;
  }
  const { effect } = decoded;
  if (!effect || effect.toState === WireState.UNSPECIFIED) return undefined;
  const toState = WireState[effect.toState] as EffectState | undefined;
  return toState && { effectId: effect.effectId, step: effect.step, toState, fence: effect.fence };
}

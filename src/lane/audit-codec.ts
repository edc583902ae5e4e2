import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import {
  type ActionAuditSchema,
  AuditEntrySchema,
  type CommandAuditSchema,
  type DecisionAuditSchema,
  type EffectAuditSchema,
  AuditKind as WireKind,
} from '../gen/surety/audit/v1/entry_pb.js';
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
} from '../ledger/audit/records.js';
import { type EffectState, SECOND, type StateSource } from '../ledger/types.js';

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
 */
export const auditCodec: AuditCodec = {
  encode: (fields) => Buffer.from(toBinary(AuditEntrySchema, create(AuditEntrySchema, entryOf(fields)))),
  decodeEffect,
};

function entryOf(fields: AuditFields): MessageInitShape<typeof AuditEntrySchema> {
  const { time, record, command } = fields;
  return {
    domainId: fields.domainId,
    seq: fields.seq,
    incarnation: fields.incarnation,
    time: { seconds: time / SECOND, nanos: Number((time % SECOND) * NANOS_PER_MICRO) },
    kind: KINDS[fields.kind],
    actorSpiffeId: fields.actorSpiffeId ?? '',
    commandId: fields.commandId,
    ...(fields.effect && { effect: effectOf(fields.effect) }),
    ...(fields.decision && { decision: decisionOf(fields.decision) }),
    ...(record && { record: { ...record, digest: plain(record.digest) } }),
    previousHead: plain(fields.previousHead),
    ...(command && { command: commandOf(command) }),
    intentSeq: fields.intentSeq ?? 0n,
    ...(fields.action && { action: actionOf(fields.action) }),
  };
}

function commandOf(command: CommandAudit): MessageInitShape<typeof CommandAuditSchema> {
  return { ...command, payloadDigest: plain(command.payloadDigest) };
}

function effectOf(effect: EffectAudit): MessageInitShape<typeof EffectAuditSchema> {
  return {
    effectId: effect.effectId,
    step: effect.step,
    fromState: effect.fromState === undefined ? WireState.UNSPECIFIED : WireState[effect.fromState],
    toState: WireState[effect.toState],
    source: SOURCES[effect.source],
    fence: effect.fence,
    attemptId: effect.attemptId ?? '',
    evidenceDigest: plain(effect.evidenceDigest),
    proofDigest: plain(effect.proofDigest),
    registrationId: effect.registrationId ?? '',
    ...(effect.grantCurrent === undefined ? {} : { grantCurrent: effect.grantCurrent }),
    outputSink: effect.sink,
    identityDigest: plain(effect.identityDigest),
    provenanceDigest: plain(effect.provenanceDigest),
    disputed: effect.disputed ?? false,
    decisionId: effect.decisionId ?? '',
    grantId: effect.grantId ?? '',
    eventId: effect.eventId ?? '',
  };
}

function decisionOf(decision: DecisionAudit): MessageInitShape<typeof DecisionAuditSchema> {
  const { reason, contextDigest, ...rest } = decision;
  return {
    ...rest,
    reason: reason === undefined ? WireReason.UNSPECIFIED : WireReason[reason],
    contextDigest: plain(contextDigest),
  };
}

function actionOf(action: ActionAudit): MessageInitShape<typeof ActionAuditSchema> {
  return {
    actionId: action.actionId,
    eventNumber: action.eventNumber,
    kind: WireEvent[upper(action.kind)],
    fromState: WireActionState[action.fromState ?? 'UNSPECIFIED'],
    toState: WireActionState[action.toState],
    leaseToken: action.leaseToken ?? 0n,
    receiptClass: WireClass[action.receiptClass === undefined ? 'UNSPECIFIED' : upper(action.receiptClass)],
    receiptKey: action.receiptKey ?? '',
    evidenceDigest: plain(action.evidenceDigest),
    observationNumber: action.observationNumber ?? 0,
    failureReason:
      WireFailure[action.failureReason === undefined ? 'UNSPECIFIED' : upper(action.failureReason)],
    actionDigest: plain(action.actionDigest),
    executionDigest: plain(action.executionDigest),
    effectId: action.effectId ?? '',
    boundedGrantId: action.boundedGrantId ?? '',
    signatureDigest: plain(action.signatureDigest),
  };
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

/** The messages take plain arrays; an absent digest is an empty field. */
function plain(bytes: Uint8Array | undefined): Uint8Array<ArrayBuffer> {
  return bytes === undefined ? new Uint8Array(0) : Uint8Array.from(bytes);
}

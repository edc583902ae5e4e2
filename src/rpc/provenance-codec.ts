import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type ClearanceReceiptSchema,
  ClearancePurpose as WirePurpose,
  type DataClass as WireClass,
  type Origin,
  ObjectType as WireObject,
  OriginKind as WireOrigin,
  type ProvenanceRecordSchema,
  type RecordReferenceSchema,
  StepKind as WireStep,
} from '../gen/surety/provenance/v1/record_pb.js';
import { microsToTimestamp } from '../identity/timestamp.js';
import { type OriginFields, originViolations } from '../ledger/provenance/origin.js';
import type {
  ClearancePurpose,
  ClearanceReceiptRow,
  ObjectType,
  OriginKind,
  ProvenanceRow,
  ProvenanceStepRow,
  StepKind,
} from '../ledger/provenance/records.js';
import type { StoredRecord } from '../ledger/provenance/stored-record.js';
import { referenceOf } from '../ledger/provenance/verify-reference.js';
import type { DataClass, Digest } from '../ledger/types.js';
import type { Violations } from './validate.js';

export const MAX_OBJECT_ID_OCTETS = 256;
export const MAX_SOURCE_ID_OCTETS = 256;
export const MAX_SINKS = 64;
export const MAX_SINK_OCTETS = 256;
const MAX_PERSON_ID_OCTETS = 256;

/** Data classes by their number in the contract, which is the one in the rows. */
export const DATA_CLASSES: Readonly<Record<number, DataClass>> = { 1: 1, 2: 2, 3: 3, 4: 4 };

export const OBJECT_TYPES: Readonly<Record<number, ObjectType>> = {
  [WireObject.EVENT]: 'event',
  [WireObject.TASK]: 'task',
  [WireObject.ARTIFACT]: 'artifact',
  [WireObject.MODEL_OUTPUT]: 'model_output',
  [WireObject.TOOL_OUTPUT]: 'tool_output',
  [WireObject.PARSER_OUTPUT]: 'parser_output',
};
const WIRE_OBJECTS: Readonly<Record<ObjectType, WireObject>> = {
  event: WireObject.EVENT,
  task: WireObject.TASK,
  artifact: WireObject.ARTIFACT,
  model_output: WireObject.MODEL_OUTPUT,
  tool_output: WireObject.TOOL_OUTPUT,
  parser_output: WireObject.PARSER_OUTPUT,
};
const ORIGIN_KINDS: Readonly<Record<number, OriginKind>> = {
  [WireOrigin.HUMAN_INPUT]: 'human_input',
  [WireOrigin.INTERNAL_EVENT]: 'internal_event',
  [WireOrigin.ARTIFACT]: 'artifact',
  [WireOrigin.EXTERNAL_INPUT]: 'external_input',
  [WireOrigin.SYSTEM]: 'system',
};
const WIRE_ORIGINS: Readonly<Record<OriginKind, WireOrigin>> = {
  human_input: WireOrigin.HUMAN_INPUT,
  internal_event: WireOrigin.INTERNAL_EVENT,
  artifact: WireOrigin.ARTIFACT,
  external_input: WireOrigin.EXTERNAL_INPUT,
  system: WireOrigin.SYSTEM,
};
/** Purposes of a receipt by their number in the contract. */
export const CLEARANCE_PURPOSES: Readonly<Record<number, ClearancePurpose>> = {
  [WirePurpose.REVIEW]: 'review',
  [WirePurpose.SCAN]: 'scan',
};
const WIRE_PURPOSES: Readonly<Record<ClearancePurpose, WirePurpose>> = {
  review: WirePurpose.REVIEW,
  scan: WirePurpose.SCAN,
};
/** Kinds of step by their number in the contract. */
export const STEP_KINDS: Readonly<Record<number, StepKind>> = {
  [WireStep.MODEL]: 'model',
  [WireStep.TOOL]: 'tool',
  [WireStep.PARSER]: 'parser',
};
const WIRE_STEPS: Readonly<Record<StepKind, WireStep>> = {
  model: WireStep.MODEL,
  tool: WireStep.TOOL,
  parser: WireStep.PARSER,
};

/** Reads an origin; notes every rule that it breaks. */
export function readOrigin(violations: Violations, field: string, origin: Origin | undefined): OriginFields {
  const within = violations.at(field);
  if (!origin) violations.refuse(field, 'is required');
  const fields: OriginFields = {
    kind: origin ? within.choice('kind', origin.kind, ORIGIN_KINDS) : 'system',
    sourceId: origin ? within.id('source_id', origin.sourceId, 1, MAX_SOURCE_ID_OCTETS) : '',
    sourceDigest: within.digest('source_digest', origin?.sourceDigest ?? new Uint8Array(32)),
    observedAt: origin ? within.time('observed_time', origin.observedTime) : 0n,
    principalId:
      within.optionalId('principal_id', origin?.principalId ?? '', 1, MAX_PERSON_ID_OCTETS) ?? null,
    harnessId: within.optionalId('harness_id', origin?.harnessId ?? '', 1, MAX_PERSON_ID_OCTETS) ?? null,
  };
  if (origin)
    for (const { field: path, rule } of originViolations(fields, field)) violations.refuse(path, rule);
  return fields;
}

/** The reference of a record. */
export function wireReference(
  domainId: string,
  record: ProvenanceRow,
): MessageInitShape<typeof RecordReferenceSchema> {
  const { objectType, classification, provenanceDigest, contentDigest, ...rest } = referenceOf(
    domainId,
    record,
  );
  return {
    ...rest,
    objectType: WIRE_OBJECTS[objectType],
    classification: classification as number as WireClass,
    provenanceDigest: Uint8Array.from(provenanceDigest),
    contentDigest: Uint8Array.from(contentDigest),
  };
}

/** A record with its steps and receipts. */
export function wireRecord(
  domainId: string,
  record: ProvenanceRow,
  steps: readonly ProvenanceStepRow[] = [],
  clearances: readonly ClearanceReceiptRow[] = [],
): MessageInitShape<typeof ProvenanceRecordSchema> {
  return {
    reference: wireReference(domainId, record),
    ...(record.originKind === null ? {} : { origin: wireOrigin(record, record.originKind) }),
    parentDigests: record.parentDigests.map((digest) => Uint8Array.from(digest)),
    steps: steps.map((step) => ({
      kind: WIRE_STEPS[step.kind],
      operation: step.operation,
      implementation: step.implementation,
      implementationVersion: step.implementationVersion,
      executor: step.executor,
      inputDigests: step.inputDigests.map((digest) => Uint8Array.from(digest)),
      outputDigest: Uint8Array.from(step.outputDigest),
      startedTime: microsToTimestamp(step.startedAt),
      completedTime: microsToTimestamp(step.completedAt),
    })),
    allowedSinks: [...record.allowedSinks],
    tainted: record.tainted,
    recordTime: microsToTimestamp(record.recordedAt),
    predecessorDigest: bytes(record.predecessorDigest),
    reviewed: record.reviewed,
    scanPending: record.scanPending,
    clearances: clearances.map(wireReceipt),
  };
}

/** A record as it was read. */
export function wireStored(
  domainId: string,
  { record, steps, clearances }: StoredRecord,
): MessageInitShape<typeof ProvenanceRecordSchema> {
  return wireRecord(domainId, record, steps, clearances);
}

function wireReceipt(receipt: ClearanceReceiptRow): MessageInitShape<typeof ClearanceReceiptSchema> {
  return {
    purpose: WIRE_PURPOSES[receipt.purpose],
    approverSpiffeId: receipt.approverSpiffeId,
    receiptId: receipt.receiptId,
    statementDigest: Uint8Array.from(receipt.statementDigest),
    jws: receipt.jws.toString('latin1'),
    signingKeyJwk: receipt.signingKeyJwk,
    useTime: microsToTimestamp(receipt.usedAt),
  };
}

function wireOrigin(record: ProvenanceRow, kind: OriginKind) {
  return {
    kind: WIRE_ORIGINS[kind],
    sourceId: record.sourceId ?? '',
    sourceDigest: bytes(record.sourceDigest),
    ...(record.observedAt === null ? {} : { observedTime: microsToTimestamp(record.observedAt) }),
    principalId: record.principalId ?? '',
    harnessId: record.harnessId ?? '',
  };
}

/** Reads a set of sinks: ascending, each once, `*` alone. */
export function readSinks(violations: Violations, field: string, sinks: readonly string[]): string[] {
  const limits = { min: 0, max: MAX_SINKS, minOctets: 1, maxOctets: MAX_SINK_OCTETS };
  const read = violations.textSet(field, sinks, limits);
  if (read.includes('*') && read.length > 1) violations.refuse(field, 'must hold `*` alone or not at all');
  return read.sort(byCodeUnit);
}

/** The order of every set of texts that is kept or hashed. */
export function byCodeUnit(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function bytes(digest: Digest | null): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(digest ?? []);
}

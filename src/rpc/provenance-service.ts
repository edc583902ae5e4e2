import {
  ProvenanceService,
  type RegisterOriginRequest,
  type ReferenceExpectation as WireExpectation,
  type VerifyReferenceRequest,
} from '../gen/surety/provenance/v1/provenance_service_pb.js';
import { registerOrigin, type RegisterOriginCommand } from '../ledger/provenance/register-origin.js';
import { deriveRecord } from '../ledger/provenance/derive-record.js';
import {
  type RecordReference,
  type ReferenceExpectation,
  verifyReference,
} from '../ledger/provenance/verify-reference.js';
import { versionViolations } from '../ledger/provenance/version-form.js';
import { bind, type CallContext, type HandlerTools, type ServiceBinding } from './handler.js';
import { clearanceKeys } from './provenance/clearance-keys.js';
import { readClearances } from './provenance/read-clearances.js';
import { getLineage } from './provenance/get-lineage.js';
import { listVersions } from './provenance/list-versions.js';
import { readDerivation } from './provenance/read-derivation.js';
import { MAX_VERSION, readObject, readReference } from './provenance/read-object.js';
import { readRecord, readRecords } from './provenance/read-records.js';
import {
  DATA_CLASSES,
  OBJECT_TYPES,
  readOrigin,
  readSinks,
  wireRecord,
  wireStored,
} from './provenance-codec.js';
import { replyOf } from './reply-of.js';
import { Violations } from './validate.js';

/** Where content came from (provenance-audit-replay.md, Provenance). Every read hashes the record again. */
export function provenanceService(tools: HandlerTools): ServiceBinding {
  return bind(ProvenanceService, {
    registerOrigin: async (request, context) => {
      const command = readRegisterOrigin(request, context);
      const { record, duplicate } = await replyOf(tools, context, registerOrigin, command);
      return { record: wireRecord(context.domainId, record), duplicate };
    },
    deriveRecord: async (request, context) => {
      const content = readDerivation(request, context);
      const keys = clearanceKeys(tools.reader, context.domainId, content);
      const command = { ...content, clearances: await readClearances(request.clearanceJws, keys) };
      const { duplicate, ...stored } = await replyOf(tools, context, deriveRecord, command);
      // The lane compares digests alone: what an earlier call has stored is shown as every read shows it.
      const reread = duplicate && !stored.record.tainted;
      const shown = reread ? await readRecord(tools, context, content, content.version) : stored;
      return { record: wireStored(context.domainId, shown), duplicate };
    },
    getRecord: async (request, context) => {
      const violations = new Violations();
      const object = readObject(violations, request);
      const version = violations.integer('version', request.version, 0n, MAX_VERSION);
      violations.throwIfAny();
      return { record: wireStored(context.domainId, await readRecord(tools, context, object, version)) };
    },
    listVersions: (request, context) => listVersions(tools, context, request),
    getLineage: (request, context) => getLineage(tools, context, request),
    verifyReference: async (request, context) => {
      const { reference, expectation } = readVerifyReference(request);
      const [stored] = await readRecords(tools, context, [reference]);
      const record = stored?.record;
      const mismatches = verifyReference(context.domainId, reference, expectation, record);
      return { matches: mismatches.length === 0, mismatches, tainted: record?.tainted ?? false };
    },
  });
}

function readRegisterOrigin(request: RegisterOriginRequest, context: CallContext): RegisterOriginCommand {
  const violations = new Violations();
  const object = readObject(violations, request);
  const command: RegisterOriginCommand = {
    ...object,
    domainId: context.domainId,
    commandId: context.requestId,
    caller: context.caller,
    as: context.kind === 'harness' ? 'harness' : 'operator',
    version: request.version,
    predecessorDigest: violations.optionalDigest('predecessor_digest', request.predecessorDigest) ?? null,
    contentDigest: violations.digest('content_digest', request.contentDigest),
    classification: violations.choice('classification', request.classification, DATA_CLASSES),
    allowedSinks: readSinks(violations, 'allowed_sinks', request.allowedSinks),
    origin: readOrigin(violations, 'origin', request.origin),
  };
  for (const { field, rule } of versionViolations(command)) violations.refuse(field, rule);
  violations.throwIfAny();
  return command;
}

function readVerifyReference(request: VerifyReferenceRequest): {
  reference: RecordReference;
  expectation: ReferenceExpectation;
} {
  const violations = new Violations();
  const given = request.reference;
  const reference = given && readReference(violations.at('reference'), given);
  if (!reference) violations.refuse('reference', 'is required');
  const expectation = readExpectation(violations.at('expectation'), request.expectation);
  violations.throwIfAny();
  if (!reference) throw violations.refusal();
  return { reference, expectation };
}

function readExpectation(violations: Violations, given: WireExpectation | undefined): ReferenceExpectation {
  if (!given) return { requiredSinks: [] };
  const contentDigest = violations.optionalDigest('content_digest', given.contentDigest);
  const policyRevision = violations.optionalPositive('policy_revision', given.policyRevision);
  return {
    ...(given.domainId === '' ? {} : { domainId: given.domainId }),
    ...(contentDigest === undefined ? {} : { contentDigest }),
    ...(given.objectType === 0
      ? {}
      : { objectType: violations.choice('object_type', given.objectType, OBJECT_TYPES) }),
    ...(given.classification === 0
      ? {}
      : { classification: violations.choice('classification', given.classification, DATA_CLASSES) }),
    requiredSinks: readSinks(violations, 'required_sinks', given.requiredSinks),
    ...(policyRevision === undefined ? {} : { policyRevision }),
  };
}

import type { DeriveRecordRequest } from '../../gen/surety/provenance/v1/provenance_service_pb.js';
import type { TransformationStep } from '../../gen/surety/provenance/v1/record_pb.js';
import { CLEARANCES } from '../../ledger/provenance/cleared.js';
import {
  derivationViolations,
  type DerivedContent,
  MAX_PARENTS,
  MAX_STEPS,
  type StepFields,
} from '../../ledger/provenance/derivation.js';
import type { DeriveRecordCommand } from '../../ledger/provenance/derive-record.js';
import type { CallContext } from '../handler.js';
import { DATA_CLASSES, readSinks, STEP_KINDS } from '../provenance-codec.js';
import { Violations } from '../validate.js';
import { MAX_VERSION, readObject, readReference } from './read-object.js';

const MAX_STEP_TEXT_OCTETS = 512;
const MAX_STEP_VERSION_OCTETS = 128;

/**
 * Reads a derivation, but for its receipts.
 *
 * @throws {Refused} FIELD_INVALID with every violation
 */
export function readDerivation(
  request: DeriveRecordRequest,
  context: CallContext,
): Omit<DeriveRecordCommand, 'clearances'> {
  const violations = new Violations();
  const content: DerivedContent = {
    ...readObject(violations, request),
    version: violations.integer('version', request.version, 0n, MAX_VERSION),
    predecessorDigest: violations.optionalDigest('predecessor_digest', request.predecessorDigest) ?? null,
    contentDigest: violations.digest('content_digest', request.contentDigest),
    classification: violations.choice('classification', request.classification, DATA_CLASSES),
    allowedSinks: readSinks(violations, 'allowed_sinks', request.allowedSinks),
    policyRevision: violations.optionalPositive('policy_revision', request.policyRevision) ?? null,
    parents: violations.list('parents', request.parents, 1, MAX_PARENTS, (path, parent) =>
      readReference(violations.at(path), parent),
    ),
    steps: violations.list('steps', request.steps, 1, MAX_STEPS, (path, step) =>
      readStep(violations.at(path), step),
    ),
  };
  // The rules between fields, for what could be read; a list of a wrong length was told already.
  for (const { field, rule } of derivationViolations(content)) {
    if (!violations.all.some((told) => told.field === field)) violations.refuse(field, rule);
  }
  if (request.clearanceJws.length > CLEARANCES) {
    violations.refuse('clearance_jws', `must have at most ${CLEARANCES} items`);
  }
  violations.throwIfAny();
  return {
    ...content,
    domainId: context.domainId,
    commandId: context.requestId,
    caller: context.caller,
    as: context.kind === 'harness' ? 'harness' : 'operator',
  };
}

function readStep(within: Violations, step: TransformationStep): StepFields {
  const text = (field: string, value: string, max = MAX_STEP_TEXT_OCTETS): string =>
    within.id(field, value, 1, max);
  return {
    kind: within.choice('kind', step.kind, STEP_KINDS),
    operation: text('operation', step.operation),
    implementation: text('implementation', step.implementation),
    implementationVersion: text(
      'implementation_version',
      step.implementationVersion,
      MAX_STEP_VERSION_OCTETS,
    ),
    executor: text('executor', step.executor),
    // One more than there can be parents, so that an input too many is told by the rule that it breaks.
    inputDigests: within.list('input_digests', step.inputDigests, 1, MAX_PARENTS + 1, (path, digest) =>
      within.digest(path, digest),
    ),
    outputDigest: within.digest('output_digest', step.outputDigest),
    startedAt: within.time('started_time', step.startedTime),
    completedAt: within.time('completed_time', step.completedTime),
  };
}

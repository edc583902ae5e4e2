import type { MessageInitShape } from '@bufbuild/protobuf';
import { type DecideRequest, PolicyService } from '../gen/surety/authority/v1/policy_service_pb.js';
import type { PolicyDecisionSchema } from '../gen/surety/authority/v1/records_pb.js';
import { Reason as WireReason } from '../gen/surety/error/v1/reason_pb.js';
import { microsToTimestamp } from '../identity/timestamp.js';
import { notVisible } from '../ledger/audit/current-reader.js';
import { decide } from '../ledger/authority/decide.js';
import { actingSubject } from '../ledger/authority/policy.js';
import type { PolicyQuestion } from '../ledger/authority/policy-question.js';
import type { DecisionRow } from '../ledger/authority/records.js';
import type { Reason } from '../ledger/refusal.js';
import { Refused } from '../ledger/run-decision.js';
import type { Draft } from '../ledger/working-set.js';
import { MAX_ID_OCTETS, MAX_RESOURCE_OCTETS } from './admin/record-fields.js';
import { wireActor } from './admin/wire-records.js';
import { bind, type CallContext, type HandlerTools, type ServiceBinding } from './handler.js';
import { DATA_CLASSES } from './provenance-codec.js';
import { requireHarnessOrReader } from './reader-access.js';
import { replyOf } from './reply-of.js';
import { Violations } from './validate.js';

const MAX_ELIGIBILITY_DENIALS = 16;
const MAX_ELIGIBILITY_OCTETS = 64;
const MAX_ASSURANCE_OCTETS = 64;

/** Policy decisions (authority.md, Deciding). */
export function policyService(tools: HandlerTools): ServiceBinding {
  return bind(PolicyService, {
    decide: async (request, context) => {
      const question = readQuestion(request, context);
      const { decision, duplicate } = await replyOf(tools, context, decide, {
        domainId: context.domainId,
        commandId: context.requestId,
        decisionId: tools.newId('dec'),
        question,
      });
      // A stored one is never used: a denial allows nothing, and a cancel is asked for only before it is done.
      return { decision: wireDecision(decision, false), auditPosition: decision.auditSeq, duplicate };
    },

    getDecision: async (request, context) => {
      const violations = new Violations();
      const decisionId = violations.id('decision_id', request.decisionId, 1, MAX_ID_OCTETS);
      violations.throwIfAny();
      const draft = await requireHarnessOrReader(tools, context, { decisions: [decisionId] });
      const decision = draft.get('decisions', decisionId);
      if (!decision || !isVisible(draft, decision, context)) throw new Refused(notVisible());
      return { decision: wireDecision(decision, draft.get('decision_uses', decisionId) !== undefined) };
    },
  });
}

/** A harness sees what was decided about itself. */
function isVisible(draft: Draft, decision: DecisionRow, context: CallContext): boolean {
  if (context.kind !== 'harness') return true;
  const subject = actingSubject(draft, context.caller);
  return subject?.harnessId === decision.harnessId && subject.actorId === decision.actorId;
}

function readQuestion(request: DecideRequest, context: CallContext): PolicyQuestion {
  const v = new Violations();
  const eventId = v.optionalId('event_id', request.eventId, 1, MAX_ID_OCTETS);
  const grantId = v.optionalId('grant_id', request.grantId, 1, MAX_ID_OCTETS);
  const policyRevision = v.optionalPositive('policy_revision', request.policyRevision);
  const assurance = v.optionalId('binding_assurance', request.bindingAssurance, 1, MAX_ASSURANCE_OCTETS);
  const credentialEpoch = v.optionalPositive('credential_epoch', request.credentialEpoch);
  const question: PolicyQuestion = {
    caller: context.caller,
    action: v.id('action', request.action, 1, MAX_ID_OCTETS),
    resource: v.id('resource', request.resource, 1, MAX_RESOURCE_OCTETS),
    inputSource: v.optionalId('input_source', request.inputSource, 1, MAX_ID_OCTETS) ?? '',
    outputSink: v.optionalId('output_sink', request.outputSink, 1, MAX_ID_OCTETS) ?? '',
    dataClass: request.dataClass === 0 ? 0 : v.choice('data_class', request.dataClass, DATA_CLASSES),
    requestDigest: v.digest('request_digest', request.requestDigest),
    eligibilityDenials: v.list(
      'eligibility_denials',
      request.eligibilityDenials,
      0,
      MAX_ELIGIBILITY_DENIALS,
      (path, value) => v.id(path, value, 1, MAX_ELIGIBILITY_OCTETS),
    ),
    expectation: {
      ...(assurance === undefined ? {} : { assurance }),
      ...(credentialEpoch === undefined ? {} : { credentialEpoch }),
    },
    ...(eventId === undefined ? {} : { eventId }),
    ...(grantId === undefined ? {} : { grantId }),
    ...(policyRevision === undefined ? {} : { policyRevision }),
    // What is asked for its own sake lets nobody act: Reserve, which does, asks again, as a protected operation.
    protectedOperation: false,
  };
  v.throwIfAny();
  return question;
}

function wireDecision(row: DecisionRow, used: boolean): MessageInitShape<typeof PolicyDecisionSchema> {
  return {
    decisionId: row.decisionId,
    harnessId: row.harnessId,
    ...wireActor(row.actorKind, row.actorId),
    action: row.action,
    resource: row.resource,
    requestDigest: Uint8Array.from(row.requestDigest),
    contextDigest: Uint8Array.from(row.contextDigest),
    allowed: row.allowed,
    reason: row.reason === null ? WireReason.UNSPECIFIED : WireReason[row.reason as Reason],
    entitlementId: row.entitlementId ?? '',
    grantId: row.grantId ?? '',
    policyRevision: row.policyRevision,
    decideTime: microsToTimestamp(row.decidedAt),
    used,
  };
}

import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type EventSchema,
  EventService,
  type PublishEventRequest,
} from '../gen/surety/event/v1/event_service_pb.js';
import type { DataClass as WireClass } from '../gen/surety/provenance/v1/record_pb.js';
import { microsToTimestamp } from '../identity/timestamp.js';
import { notVisible } from '../ledger/audit/current-reader.js';
import { publishEvent, type PublishEventCommand } from '../ledger/event/publish-event.js';
import type { EventRow } from '../ledger/event/records.js';
import { visibleEvent } from '../ledger/event/visible-event.js';
import { EFFECT_OUTPUT_PREFIX } from '../ledger/provenance/derive-tool-output.js';
import { Refused } from '../ledger/run-decision.js';
import { Draft } from '../ledger/working-set.js';
import { bind, type CallContext, type HandlerTools, type ServiceBinding } from './handler.js';
import { byCodeUnit, DATA_CLASSES, readOrigin, readSinks, wireReference } from './provenance-codec.js';
import { replyOf } from './reply-of.js';
import { Violations } from './validate.js';

const MAX_EVENT_ID_OCTETS = 256;
const MAX_TYPE_OCTETS = 128;
const MAX_RECIPIENTS = 64;
const MAX_HARNESS_ID_OCTETS = 256;

/** What effects are done for (authority.md, Records: event). Callers: harnesses. */
export function eventService(tools: HandlerTools): ServiceBinding {
  return bind(EventService, {
    publishEvent: async (request, context) => {
      const command = readPublishEvent(request, context);
      const { event, record, duplicate } = await replyOf(tools, context, publishEvent, command);
      const { domainId } = context;
      return { event: wireEvent(domainId, event), reference: wireReference(domainId, record), duplicate };
    },
    getEvent: async (request, context) => {
      const { domainId, caller } = context;
      const violations = new Violations();
      const eventId = violations.id('event_id', request.eventId, 1, MAX_EVENT_ID_OCTETS);
      violations.throwIfAny();
      const set = await tools.reader.gather(domainId, {
        callerHarness: [caller.spiffeId],
        events: [eventId],
      });
      if (!set) throw new Refused(notVisible());
      const { event, record } = visibleEvent(new Draft(set), caller, eventId);
      return { event: wireEvent(domainId, event), reference: wireReference(domainId, record) };
    },
  });
}

function readPublishEvent(request: PublishEventRequest, context: CallContext): PublishEventCommand {
  const violations = new Violations();
  const eventId = violations.id('event_id', request.eventId, 1, MAX_EVENT_ID_OCTETS);
  if (eventId.startsWith(EFFECT_OUTPUT_PREFIX)) {
    violations.refuse('event_id', `must not begin with \`${EFFECT_OUTPUT_PREFIX}\``);
  }
  const recipients = { min: 0, max: MAX_RECIPIENTS, minOctets: 1, maxOctets: MAX_HARNESS_ID_OCTETS };
  const command: PublishEventCommand = {
    domainId: context.domainId,
    commandId: context.requestId,
    caller: context.caller,
    eventId,
    type: violations.id('type', request.type, 1, MAX_TYPE_OCTETS),
    recipientHarnessIds: violations
      .textSet('recipient_harness_ids', request.recipientHarnessIds, recipients)
      .sort(byCodeUnit),
    classification: violations.choice('classification', request.classification, DATA_CLASSES),
    payloadDigest: violations.digest('payload_digest', request.payloadDigest),
    effectDeadline: violations.optionalTime('effect_deadline_time', request.effectDeadlineTime) ?? null,
    parentEventId:
      violations.optionalId('parent_event_id', request.parentEventId, 1, MAX_EVENT_ID_OCTETS) ?? null,
    origin: readOrigin(violations, 'origin', request.origin),
    allowedSinks: readSinks(violations, 'allowed_sinks', request.allowedSinks),
  };
  violations.throwIfAny();
  return command;
}

function wireEvent(domainId: string, event: EventRow): MessageInitShape<typeof EventSchema> {
  return {
    eventId: event.eventId,
    domainId,
    type: event.type,
    originHarnessId: event.originHarnessId,
    recipientHarnessIds: [...event.recipientHarnessIds],
    classification: event.classification as number as WireClass,
    payloadDigest: Uint8Array.from(event.payloadDigest),
    ...(event.effectDeadline === null ? {} : { effectDeadlineTime: microsToTimestamp(event.effectDeadline) }),
    policyRevision: event.policyRevision,
    parentEventId: event.parentEventId ?? '',
    hops: event.hops,
    publishTime: microsToTimestamp(event.publishedAt),
  };
}

import { admitCall, harnessActor } from '../admission/admit-call.js';
import { type Actor, currentActor } from '../authority/current-actor.js';
import { accept, type CommandBase, type Decision, refuse } from '../decision.js';
import { sameDigest } from '../encoding.js';
import { objectTypeOfEvent } from '../provenance/event-provenance.js';
import {
  type OriginContent,
  type OriginFields,
  originDifference,
  originRecord,
  originRefusal,
  originViolations,
  sameTexts,
  sinkViolations,
} from '../provenance/origin.js';
import { putRecord } from '../provenance/put-record.js';
import type { ProvenanceRow } from '../provenance/records.js';
import { type Refusal, refusal } from '../refusal.js';
import type { Caller, DataClass, Digest, Micros } from '../types.js';
import type { Draft } from '../working-set.js';
import { eventDigest } from './event-digest.js';
import type { EventRow } from './records.js';
import { eventNotVisible, maySeeEvent, type PublishedEvent, publishedEvent } from './visible-event.js';

/** Publishes an immutable event with its provenance origin. */
export interface PublishEventCommand extends CommandBase {
  readonly caller: Caller;
  readonly eventId: string;
  readonly type: string;
  /** A set: ascending, none twice. */
  readonly recipientHarnessIds: readonly string[];
  readonly classification: DataClass;
  readonly payloadDigest: Digest;
  readonly effectDeadline: Micros | null;
  readonly parentEventId: string | null;
  readonly origin: OriginFields;
  /** A set: ascending, none twice. */
  readonly allowedSinks: readonly string[];
}

/** What was stored, by this call or an earlier one. */
export interface PublishEventReply {
  readonly event: EventRow;
  readonly record: ProvenanceRow;
  readonly duplicate: boolean;
}

/** authority.md, Records: event. Caller: a harness. Event, provenance origin and both audit entries commit together. */
export const publishEvent: Decision<PublishEventCommand, PublishEventReply> = {
  kind: 'publish_event',
  reads: (command) => ({
    callerHarness: [command.caller.spiffeId],
    harnesses: command.recipientHarnessIds,
    events: command.parentEventId === null ? [command.eventId] : [command.eventId, command.parentEventId],
    provenance: [{ objectType: objectTypeOfEvent(command.type), objectId: command.eventId, version: 1n }],
  }),
  decide: (draft, command) => {
    const result = currentActor(draft, command.caller);
    if ('refused' in result) return refuse(result.refused);
    const { actor } = result;
    const malformed = formRefusal(command);
    if (malformed) return refuse(malformed);
    const stored = draft.get('events', command.eventId);
    if (stored) return answerStored(draft, stored, command, actor);
    const content = contentOf(command);
    const refused =
      takenRefusal(draft, content) ??
      recipientRefusal(draft, command) ??
      originRefusal(draft, command.origin, actor) ??
      deadlineRefusal(draft, command);
    if (refused) return refuse(refused);
    const parent = parentHops(draft, command, actor);
    if ('refused' in parent) return refuse(parent.refused);
    const held = admitCall(draft, harnessActor(actor.harness.harnessId));
    if (held) return refuse(held);
    return accept({ ...publish(draft, command, actor, content, parent.hops), duplicate: false });
  },
};

/** What is wrong with the form of an event, all at once. */
export function publishEventViolations(
  command: Pick<PublishEventCommand, 'recipientHarnessIds' | 'origin' | 'allowedSinks'>,
): { field: string; rule: string }[] {
  const violations = [
    ...originViolations(command.origin, 'origin'),
    ...sinkViolations(command.allowedSinks, 'allowed_sinks'),
  ];
  if (new Set(command.recipientHarnessIds).size !== command.recipientHarnessIds.length) {
    violations.push({ field: 'recipient_harness_ids', rule: 'must not name a harness twice' });
  }
  return violations;
}

function formRefusal(command: PublishEventCommand): Refusal | undefined {
  const violations = publishEventViolations(command);
  if (violations.length === 0) return undefined;
  return refusal('FIELD_INVALID', 'The event is malformed.', { violations });
}

function contentOf(command: PublishEventCommand): OriginContent {
  return {
    objectType: objectTypeOfEvent(command.type),
    objectId: command.eventId,
    version: 1n,
    predecessorDigest: null,
    contentDigest: command.payloadDigest,
    classification: command.classification,
    allowedSinks: command.allowedSinks,
    origin: command.origin,
  };
}

function publish(
  draft: Draft,
  command: PublishEventCommand,
  actor: Actor,
  content: OriginContent,
  hops: number,
): PublishedEvent {
  const record = originRecord(draft, content);
  const event: EventRow = {
    eventId: command.eventId,
    type: command.type,
    originHarnessId: actor.harness.harnessId,
    recipientHarnessIds: command.recipientHarnessIds,
    classification: command.classification,
    payloadDigest: command.payloadDigest,
    effectDeadline: command.effectDeadline,
    policyRevision: draft.domain.policyRevision,
    parentEventId: command.parentEventId,
    hops,
    publishedAt: draft.now,
    objectType: record.objectType,
    provenanceDigest: record.provenanceDigest,
  };
  draft.put('events', event);
  putRecord(draft, record);
  const base = { actorSpiffeId: command.caller.spiffeId, commandId: command.commandId };
  const made = { id: event.eventId, revision: 1n, operation: 'publish_event' };
  draft.append({
    ...base,
    kind: 'event',
    record: { ...made, type: 'event', digest: eventDigest(draft.domainId, event) },
  });
  draft.append({
    ...base,
    kind: 'provenance',
    record: {
      ...made,
      type: 'provenance',
      id: `${record.objectType}/${record.objectId}`,
      digest: record.provenanceDigest,
    },
  });
  return { event, record };
}

/** An exact repeat by the origin is a duplicate; anything else learns which field differs, and no more. */
function answerStored(draft: Draft, event: EventRow, command: PublishEventCommand, actor: Actor) {
  const published =
    event.originHarnessId === actor.harness.harnessId ? publishedEvent(draft, event) : undefined;
  const field = published ? eventDifference(published, command) : 'origin_harness_id';
  if (published && field === undefined) return accept({ ...published, duplicate: true });
  return refuse(
    refusal('EVENT_IDENTITY_CONFLICT', 'The event was published with other content.', {
      metadata: { field: field ?? '' },
      resource: { type: 'event', name: command.eventId },
    }),
  );
}

function eventDifference(
  { event, record }: PublishedEvent,
  command: PublishEventCommand,
): string | undefined {
  const same: readonly (readonly [string, boolean])[] = [
    ['type', event.type === command.type],
    ['recipient_harness_ids', sameTexts(event.recipientHarnessIds, command.recipientHarnessIds)],
    ['classification', event.classification === command.classification],
    ['payload_digest', sameDigest(event.payloadDigest, command.payloadDigest)],
    ['effect_deadline_time', event.effectDeadline === command.effectDeadline],
    ['parent_event_id', event.parentEventId === command.parentEventId],
  ];
  return same.find(([, equal]) => !equal)?.[0] ?? originDifference(record, contentOf(command));
}

/** Somebody may have recorded an origin under the event's name before. */
function takenRefusal(draft: Draft, content: OriginContent): Refusal | undefined {
  if (!draft.get('provenance_records', content.objectType, content.objectId, content.version))
    return undefined;
  return refusal('PROVENANCE_CONFLICT', 'Another origin is recorded under the id of the event.', {
    resource: { type: 'provenance', name: `${content.objectType}/${content.objectId}/1` },
  });
}

function recipientRefusal(draft: Draft, command: PublishEventCommand): Refusal | undefined {
  const missing = command.recipientHarnessIds.find((id) => !draft.get('harnesses', id));
  if (missing === undefined) return undefined;
  return refusal('RECORD_MISSING', 'A recipient is not a harness of the domain.', {
    metadata: { record: `harness:${missing}` },
  });
}

/** An event that nothing can be reserved for any more is refused where it begins. */
function deadlineRefusal(draft: Draft, command: PublishEventCommand): Refusal | undefined {
  if (command.effectDeadline === null || command.effectDeadline > draft.now) return undefined;
  return refusal('EVENT_DEADLINE_PASSED', 'The effect deadline has passed.');
}

/**
 * authority.md, Admission: loop fence. The parent's hops + 1, up to the domain's ceiling; only who may see an event may name it
 * as a parent.
 */
function parentHops(
  draft: Draft,
  command: PublishEventCommand,
  actor: Actor,
): { hops: number } | { refused: Refusal } {
  if (command.parentEventId === null) return { hops: 0 };
  const parent = draft.get('events', command.parentEventId);
  if (!parent || !maySeeEvent(parent, actor.harness.harnessId)) return { refused: eventNotVisible() };
  const hops = parent.hops + 1;
  const { maxHops } = draft.domain.limits;
  if (hops <= maxHops) return { hops };
  return {
    refused: refusal('QUOTA_EXHAUSTED', 'Too many events led to this one.', {
      metadata: { limit: String(maxHops) },
      resource: { type: 'quota', name: 'event_hops' },
      retryAfter: 'never',
    }),
  };
}

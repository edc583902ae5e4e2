import { currentActor } from '../authority/current-actor.js';
import { eventProvenanceMatches } from '../provenance/event-provenance.js';
import { corruptRecord } from '../provenance/provenance-digest.js';
import type { ProvenanceRow } from '../provenance/records.js';
import { type Refusal, refusal } from '../refusal.js';
import { Refused } from '../run-decision.js';
import type { Caller } from '../types.js';
import type { Draft } from '../working-set.js';
import type { EventRow } from './records.js';

/** An event with its provenance record. */
export interface PublishedEvent {
  readonly event: EventRow;
  readonly record: ProvenanceRow;
}

/** Whether a harness may see an event: its origin and its recipients may (effects.md, Reserve 2). */
export function maySeeEvent(event: EventRow, harnessId: string): boolean {
  return event.originHarnessId === harnessId || event.recipientHarnessIds.includes(harnessId);
}

/** The same words for an event that is absent and one that is not for the caller. */
export function eventNotVisible(): Refusal {
  return refusal('EVENT_NOT_VISIBLE', 'The event is not one of those that the caller published or received.');
}

/**
 * An event for its origin or a recipient. Needs the reads `callerHarness` of the caller and `events` of the event.
 *
 * @throws Refused the reasons of `currentActor`, EVENT_NOT_VISIBLE, or DATA_CORRUPT where the event and its record
 *   contradict each other
 */
export function visibleEvent(draft: Draft, caller: Caller, eventId: string): PublishedEvent {
  const result = currentActor(draft, caller);
  if ('refused' in result) throw new Refused(result.refused);
  const event = draft.get('events', eventId);
  if (!event || !maySeeEvent(event, result.actor.harness.harnessId)) throw new Refused(eventNotVisible());
  return publishedEvent(draft, event);
}

/**
 * A stored event with its provenance record, which must match it. Needs the read `events` of the event.
 *
 * @throws Refused DATA_CORRUPT, naming the record
 */
export function publishedEvent(draft: Draft, event: EventRow): PublishedEvent {
  const key = { objectType: event.objectType, objectId: event.eventId, version: 1n } as const;
  const record = draft.get('provenance_records', key.objectType, key.objectId, key.version);
  if (!eventProvenanceMatches(draft.domainId, event, record)) throw new Refused(corruptRecord(key));
  return { event, record };
}

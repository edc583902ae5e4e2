import type { EventRow } from '../event/records.js';
import { eventProvenanceMatches } from '../provenance/event-provenance.js';
import { type Refusal, refusal } from '../refusal.js';
import type { DataClass } from '../types.js';
import type { Draft } from '../working-set.js';

/**
 * Whether an effect may be reserved for the event (effects.md, Reserve 2): it is visible to the harness, of the data
 * class, its deadline is ahead, and its provenance record is there and matches.
 */
export function parentEventRefusal(
  draft: Draft,
  event: EventRow | undefined,
  harnessId: string,
  dataClass: DataClass,
): Refusal | undefined {
  if (!event || !isParty(event, harnessId)) {
    return refusal('EVENT_NOT_VISIBLE', 'The event is not there, or the harness has no part in it.');
  }
  if (event.classification !== dataClass) {
    return refusal('EVENT_CLASS_MISMATCH', "The data class is not the event's classification.");
  }
  if (event.effectDeadline !== null && event.effectDeadline <= draft.now) {
    return refusal('EVENT_DEADLINE_PASSED', "The event's deadline for effects has passed.");
  }
  return eventRecordRefusal(draft, event);
}

/** Whether the harness is the event's origin or one of its recipients. */
export function isParty(event: EventRow, harnessId: string): boolean {
  return event.originHarnessId === harnessId || event.recipientHarnessIds.includes(harnessId);
}

/** PROVENANCE_MISSING where the event's record is missing or does not match it. */
export function eventRecordRefusal(draft: Draft, event: EventRow | undefined): Refusal | undefined {
  const record = event && draft.get('provenance_records', event.objectType, event.eventId, 1n);
  return event && eventProvenanceMatches(draft.domainId, event, record)
    ? undefined
    : refusal('PROVENANCE_MISSING', "The event's provenance record is missing or does not match it.");
}

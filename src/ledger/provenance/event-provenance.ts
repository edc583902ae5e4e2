import { sameDigest } from '../encoding.js';
import type { EventRow } from '../event/records.js';
import { verifyRecord } from './provenance-digest.js';
import type { ObjectType, ProvenanceRow } from './records.js';

const TASK_PREFIX = 'task.';

/** The object type of an event's record: task for task assignments, else event (authority.md, Records: event). */
export function objectTypeOfEvent(eventType: string): ObjectType {
  return eventType.startsWith(TASK_PREFIX) ? 'task' : 'event';
}

/** Records that were found to be what their digest says, by the domain: a batch asks for the same one again and again. */
const intact = new WeakMap<ProvenanceRow, string>();

function isIntact(domainId: string, record: ProvenanceRow): boolean {
  if (intact.get(record) === domainId) return true;
  if (!verifyRecord(domainId, record)) return false;
  intact.set(record, domainId);
  return true;
}

/**
 * Whether the record is there, is what its digest says, and is that of the event: domain, payload digest, type,
 * classification, revision (provenance-audit-replay.md, Provenance). Reserve and start refuse with PROVENANCE_MISSING
 * where it is not.
 *
 * @param domainId the domain in which both were read; it is part of the record's digest
 */
export function eventProvenanceMatches(
  domainId: string,
  event: EventRow,
  record: ProvenanceRow | undefined,
): record is ProvenanceRow {
  return (
    record !== undefined &&
    record.objectType === event.objectType &&
    event.objectType === objectTypeOfEvent(event.type) &&
    record.objectId === event.eventId &&
    record.version === 1n &&
    record.parentDigests.length === 0 &&
    record.classification === event.classification &&
    record.policyRevision === event.policyRevision &&
    sameDigest(record.contentDigest, event.payloadDigest) &&
    sameDigest(record.provenanceDigest, event.provenanceDigest) &&
    isIntact(domainId, record)
  );
}

import { canonicalDigest } from '../encoding.js';
import type { Digest } from '../types.js';
import type { EventRow } from './records.js';

const EVENT_LABEL = 'surety-event-v1';

/** SHA-256 over an event's canonical form: what its audit entry names. Vectors: `testvectors/digests.json`. */
export function eventDigest(domainId: string, event: EventRow): Digest {
  return canonicalDigest(EVENT_LABEL, [
    domainId,
    event.eventId,
    event.type,
    event.originHarnessId,
    event.recipientHarnessIds,
    event.classification,
    event.payloadDigest,
    event.effectDeadline ?? undefined,
    event.policyRevision,
    event.parentEventId ?? undefined,
    event.hops,
    event.publishedAt,
    event.objectType,
    event.provenanceDigest,
  ]);
}

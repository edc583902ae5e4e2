import { describe, expect, test } from 'vitest';
import { sha256 } from '../../../src/ledger/encoding.js';
import type { EventRow } from '../../../src/ledger/event/records.js';
import {
  eventProvenanceMatches,
  objectTypeOfEvent,
} from '../../../src/ledger/provenance/event-provenance.js';
import { provenanceDigest } from '../../../src/ledger/provenance/provenance-digest.js';
import type { ProvenanceRow } from '../../../src/ledger/provenance/records.js';
import { FIXTURE_DOMAIN } from '../../support/ledger-fixture.js';
import { eventRecord, eventRow } from './provenance-fixture.js';

/** The pair as it would stand if both had been written so: all digests fit. */
function pair(record: Partial<ProvenanceRow>, event: Partial<EventRow> = {}): boolean {
  const changed = eventRecord(record);
  return eventProvenanceMatches(
    FIXTURE_DOMAIN,
    eventRow({ provenanceDigest: changed.provenanceDigest, ...event }),
    changed,
  );
}

describe("an event's record (effects.md, Reserve 2)", () => {
  test('matches', () => {
    expect(pair({})).toBe(true);
  });

  test.each<[string, Partial<ProvenanceRow>, Partial<EventRow>?]>([
    ['payload digest', { contentDigest: sha256('x') }],
    ['classification', { classification: 3 }],
    ['revision', { policyRevision: 2n }],
    ['object', { objectId: 'event-2' }],
    ['version', { version: 2n }],
    ['type', { objectType: 'event' }],
    ['type, with the row of the event changed too', { objectType: 'event' }, { objectType: 'event' }],
    ['digest in the event', {}, { provenanceDigest: sha256('x') }],
    ['lineage', { parentDigests: [sha256('parent')] }],
  ])('does not with another %s', (_, record, event) => {
    expect(pair(record, event)).toBe(false);
  });

  test('does not where it is missing, changed, or of another domain', () => {
    expect(eventProvenanceMatches(FIXTURE_DOMAIN, eventRow(), undefined)).toBe(false);
    expect(eventProvenanceMatches(FIXTURE_DOMAIN, eventRow(), { ...eventRecord(), tainted: false })).toBe(
      false,
    );
    const foreign = provenanceDigest('globex.test', eventRecord());
    const record = { ...eventRecord(), provenanceDigest: foreign };
    expect(eventProvenanceMatches(FIXTURE_DOMAIN, eventRow({ provenanceDigest: foreign }), record)).toBe(
      false,
    );
  });

  test('is one of a task for task assignments', () => {
    expect(objectTypeOfEvent('task.assigned')).toBe('task');
    expect(objectTypeOfEvent('taskless')).toBe('event');
    expect(objectTypeOfEvent('order.paid')).toBe('event');
  });
});

import { DEFAULT_LIMITS } from '../../../src/ledger/admission/limits.js';
import { describe, expect, test } from 'vitest';
import { sha256 } from '../../../src/ledger/encoding.js';
import { eventDigest } from '../../../src/ledger/event/event-digest.js';
import {
  publishEvent,
  type PublishEventCommand,
  type PublishEventReply,
} from '../../../src/ledger/event/publish-event.js';
import { visibleEvent } from '../../../src/ledger/event/visible-event.js';
import { eventProvenanceMatches } from '../../../src/ledger/provenance/event-provenance.js';
import { Refused, runDecision } from '../../../src/ledger/run-decision.js';
import { SECOND } from '../../../src/ledger/types.js';
import { Draft, type WorkingSet } from '../../../src/ledger/working-set.js';
import {
  caller,
  callerRow,
  credentialRow,
  HARNESS_ID,
  HARNESS_SPIFFE_ID,
  harnessRow,
  principalRow,
} from '../../support/authority-fixture.js';
import { decodeJsonEntry, FIXTURE_DOMAIN, FIXTURE_NOW, workingSet } from '../../support/ledger-fixture.js';
import { eventRecord, eventRow, origin, setWithHarness } from '../provenance/provenance-fixture.js';

function command(over: Partial<PublishEventCommand> = {}): PublishEventCommand {
  return {
    domainId: FIXTURE_DOMAIN,
    commandId: 'cmd-1',
    caller: caller(),
    eventId: 'new-1',
    type: 'task.assigned',
    recipientHarnessIds: ['other'],
    classification: 2,
    payloadDigest: sha256('payload'),
    effectDeadline: FIXTURE_NOW + SECOND,
    parentEventId: null,
    origin: origin(),
    allowedSinks: ['bank'],
    ...over,
  };
}

const OTHER = harnessRow({ harnessId: 'other' });
const absent = {
  events: [['new-1'], ['nowhere']],
  provenance_records: [
    ['task', 'new-1', 1n],
    ['event', 'new-1', 1n],
  ],
  harnesses: [['nobody']],
} as const;

function fresh(input: Parameters<typeof setWithHarness>[0] = {}): WorkingSet {
  return setWithHarness({ absent, ...input, rows: { harnesses: [OTHER], ...input.rows } });
}

function publish(set: WorkingSet, over: Partial<PublishEventCommand> = {}): PublishEventReply {
  const outcome = runDecision(set, publishEvent, command(over));
  if (!outcome.ok) throw new Error(outcome.refusal.reason);
  return outcome.reply;
}

function refusalOf(set: WorkingSet, over: Partial<PublishEventCommand>) {
  const outcome = runDecision(set, publishEvent, command(over));
  return outcome.ok ? undefined : outcome.refusal;
}

/** The fixture's rows as another harness reads them. */
function setOfOther(input: { rows: object }): WorkingSet {
  return workingSet({
    rows: {
      callers: [callerRow({ refId: 'other' })],
      harnesses: [OTHER],
      principals: [principalRow()],
      credentials: [credentialRow({ harnessId: 'other' })],
      ...input.rows,
    },
    absent: { provenance_records: [['task', 'new-1', 1n]] },
    indexes: { credentialsOfSpiffeId: [[HARNESS_SPIFFE_ID]] },
  });
}

describe('publishing an event (authority.md, Records: event)', () => {
  test('writes the event, its provenance origin and an audit entry for each', () => {
    const set = fresh();
    const { event, record, duplicate } = publish(set);
    expect(duplicate).toBe(false);
    expect(event).toMatchObject({
      originHarnessId: HARNESS_ID,
      hops: 0,
      policyRevision: 1n,
      objectType: 'task',
    });
    expect(record).toMatchObject({ objectType: 'task', objectId: 'new-1', version: 1n, tainted: true });
    expect(eventProvenanceMatches(FIXTURE_DOMAIN, event, record)).toBe(true);
    const entries = set
      .changes()
      .rows.filter((row) => row.table === 'audit_entries')
      .map((row) => decodeJsonEntry((row.after as { entry: Buffer }).entry));
    expect(entries.map((entry) => entry.kind)).toEqual(['event', 'provenance']);
    expect(entries.map((entry) => String(entry.record?.digest))).toEqual([
      eventDigest(FIXTURE_DOMAIN, event).toString('hex'),
      record.provenanceDigest.toString('hex'),
    ]);
  });

  test('an event that is no task has a record of an event', () => {
    expect(publish(fresh(), { type: 'order.paid' }).record.objectType).toBe('event');
  });

  test('an exact repeat is a duplicate and writes nothing, also past the deadline', () => {
    const set = fresh();
    const first = publish(set);
    expect(publish(set)).toEqual({ ...first, duplicate: true });
    expect(set.head.seq).toBe(2n);
    const later = setWithHarness({
      now: FIXTURE_NOW + 5n * SECOND,
      absent: { provenance_records: [['task', 'new-1', 1n]] },
      rows: { harnesses: [OTHER], events: [first.event], provenance_records: [first.record] },
    });
    expect(publish(later).duplicate).toBe(true);
  });

  test.each<[string, Partial<PublishEventCommand>]>([
    ['type', { type: 'order.paid' }],
    ['recipient_harness_ids', { recipientHarnessIds: [] }],
    ['classification', { classification: 1 }],
    ['payload_digest', { payloadDigest: sha256('x') }],
    ['effect_deadline_time', { effectDeadline: null }],
    ['parent_event_id', { parentEventId: 'nowhere' }],
    ['allowed_sinks', { allowedSinks: ['*'] }],
    ['origin.source_id', { origin: origin({ sourceId: 'x' }) }],
    ['origin.observed_time', { origin: origin({ observedAt: 1n }) }],
  ])('the same id with another %s is a conflict that names it', (field, over) => {
    const set = fresh();
    publish(set);
    expect(refusalOf(set, over)).toMatchObject({ reason: 'EVENT_IDENTITY_CONFLICT', metadata: { field } });
  });

  test('somebody else who repeats it learns only that it is not his', () => {
    const set = fresh();
    const { event, record } = publish(set);
    const other = setOfOther({ rows: { events: [event], provenance_records: [record] } });
    expect(refusalOf(other, { payloadDigest: sha256('x') })).toMatchObject({
      reason: 'EVENT_IDENTITY_CONFLICT',
      metadata: { field: 'origin_harness_id' },
    });
  });

  test('a duplicate whose record was changed is named', () => {
    const { event, record } = publish(fresh());
    const changed = fresh({
      absent: { harnesses: [] },
      rows: { harnesses: [OTHER], events: [event], provenance_records: [{ ...record, allowedSinks: ['*'] }] },
    });
    expect(refusalOf(changed, {})?.reason).toBe('DATA_CORRUPT');
  });

  test('recipients are harnesses of the domain', () => {
    expect(refusalOf(fresh(), { recipientHarnessIds: ['nobody', 'other'] })).toMatchObject({
      reason: 'RECORD_MISSING',
      metadata: { record: 'harness:nobody' },
    });
  });

  test('a deadline lies ahead', () => {
    expect(refusalOf(fresh(), { effectDeadline: FIXTURE_NOW })?.reason).toBe('EVENT_DEADLINE_PASSED');
  });

  test('an id under which an origin is recorded already is taken', () => {
    const taken = eventRecord({ objectId: 'new-1' });
    const set = fresh({
      absent: { events: [['new-1']] },
      rows: { harnesses: [OTHER], provenance_records: [taken] },
    });
    expect(refusalOf(set, {})?.reason).toBe('PROVENANCE_CONFLICT');
  });

  test("nobody puts words into another person's mouth", () => {
    const human = origin({ kind: 'human_input', principalId: 'peter', harnessId: HARNESS_ID });
    expect(refusalOf(fresh(), { origin: human })?.reason).toBe('PRINCIPAL_UNBOUND');
  });

  describe('the loop fence (authority.md, Admission)', () => {
    const withParent = (hops: number, over = {}) =>
      fresh({ rows: { harnesses: [OTHER], events: [eventRow({ hops, ...over })] } });

    test("hops are the parent's and one", () => {
      expect(publish(withParent(3), { parentEventId: 'event-1' }).event.hops).toBe(4);
    });

    test('end at the ceiling', () => {
      expect(publish(withParent(DEFAULT_LIMITS.maxHops - 1), { parentEventId: 'event-1' }).event.hops).toBe(
        DEFAULT_LIMITS.maxHops,
      );
      // No waiting brings it closer.
      const beyond = refusalOf(withParent(DEFAULT_LIMITS.maxHops), { parentEventId: 'event-1' });
      expect(beyond).toMatchObject({
        reason: 'QUOTA_EXHAUSTED',
        resource: { name: 'event_hops' },
        retryAfter: 'never',
      });
    });

    test('a parent that the caller may not see looks like none', () => {
      const foreign = refusalOf(withParent(0, { originHarnessId: 'other' }), { parentEventId: 'event-1' });
      const none = refusalOf(fresh(), { parentEventId: 'nowhere' });
      expect(foreign?.reason).toBe('EVENT_NOT_VISIBLE');
      expect(foreign).toEqual(none);
    });
  });
});

describe('reading an event', () => {
  const read = (event: object, record = eventRecord()) => {
    const draft = new Draft(
      setWithHarness({
        absent: { events: [['nowhere']] },
        rows: { events: [eventRow(event)], provenance_records: [record] },
      }),
    );
    return (eventId: string) => visibleEvent(draft, caller(), eventId);
  };
  const reason = (run: () => unknown) => {
    try {
      run();
    } catch (error) {
      if (error instanceof Refused) return error.refusal.reason;
      throw error;
    }
    return 'visible';
  };

  test('is for its origin and its recipients', () => {
    expect(reason(() => read({})('event-1'))).toBe('visible');
    expect(reason(() => read({ originHarnessId: 'x', recipientHarnessIds: [HARNESS_ID] })('event-1'))).toBe(
      'visible',
    );
    expect(reason(() => read({ originHarnessId: 'x' })('event-1'))).toBe('EVENT_NOT_VISIBLE');
    expect(reason(() => read({})('nowhere'))).toBe('EVENT_NOT_VISIBLE');
  });

  test('a changed one is named', () => {
    expect(reason(() => read({ payloadDigest: sha256('x') })('event-1'))).toBe('DATA_CORRUPT');
    expect(reason(() => read({}, { ...eventRecord(), tainted: false })('event-1'))).toBe('DATA_CORRUPT');
  });
});

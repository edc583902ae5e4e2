import type { EffectRow } from '../../../src/ledger/effect/records.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import type { EventRow } from '../../../src/ledger/event/records.js';
import type { OriginFields } from '../../../src/ledger/provenance/origin.js';
import { provenanceDigest } from '../../../src/ledger/provenance/provenance-digest.js';
import type { ProvenanceRow } from '../../../src/ledger/provenance/records.js';
import { MINUTE } from '../../../src/ledger/types.js';
import type { WorkingSet } from '../../../src/ledger/working-set.js';
import {
  callerRow,
  credentialRow,
  HARNESS_ID,
  HARNESS_SPIFFE_ID,
  harnessRow,
  principalRow,
} from '../../support/authority-fixture.js';
import {
  FIXTURE_DOMAIN,
  FIXTURE_NOW,
  workingSet,
  type WorkingSetInput,
} from '../../support/ledger-fixture.js';

/** A working set with the fixture's harness, current, and what a test adds. */
export function setWithHarness(input: WorkingSetInput = {}): WorkingSet {
  return workingSet({
    ...input,
    rows: {
      ...input.rows,
      callers: [callerRow()],
      harnesses: [harnessRow(), ...(input.rows?.harnesses ?? [])],
      principals: [principalRow()],
      credentials: [credentialRow()],
    },
    indexes: { ...input.indexes, credentialsOfSpiffeId: [[HARNESS_SPIFFE_ID]] },
  });
}

export function origin(over: Partial<OriginFields> = {}): OriginFields {
  return {
    kind: 'external_input',
    sourceId: 'mailbox:support',
    sourceDigest: sha256('mail'),
    observedAt: FIXTURE_NOW - MINUTE,
    principalId: null,
    harnessId: null,
    ...over,
  };
}

/** The origin record of the fixture's event, its digest made anew for what a test changes. */
export function eventRecord(over: Partial<ProvenanceRow> = {}): ProvenanceRow {
  const { kind, ...rest } = origin();
  const record = {
    objectType: 'task',
    objectId: 'event-1',
    version: 1n,
    contentDigest: sha256('payload'),
    classification: 2,
    policyRevision: 1n,
    allowedSinks: ['bank'],
    tainted: true,
    reviewed: false,
    scanPending: true,
    predecessorDigest: null,
    originKind: kind,
    ...rest,
    parentDigests: [],
    recordedAt: FIXTURE_NOW - MINUTE,
    ...over,
  } as const;
  return { ...record, provenanceDigest: over.provenanceDigest ?? provenanceDigest(FIXTURE_DOMAIN, record) };
}

export function eventRow(over: Partial<EventRow> = {}): EventRow {
  return {
    eventId: 'event-1',
    type: 'task.assigned',
    originHarnessId: HARNESS_ID,
    recipientHarnessIds: ['other'],
    classification: 2,
    payloadDigest: sha256('payload'),
    effectDeadline: null,
    policyRevision: 1n,
    parentEventId: null,
    hops: 0,
    publishedAt: FIXTURE_NOW - MINUTE,
    objectType: 'task',
    provenanceDigest: eventRecord().provenanceDigest,
    ...over,
  };
}

/** As much of an executing effect as provenance looks at. */
export function effectRow(over: Partial<EffectRow> = {}): EffectRow {
  return {
    effectId: 'eff-1',
    attemptId: 'attempt-1',
    startedAt: FIXTURE_NOW - MINUTE,
    outputDigest: null,
    ...over,
  } as EffectRow;
}

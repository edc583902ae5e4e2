import { sha256 } from '../../src/ledger/encoding.js';
import type { EventRow } from '../../src/ledger/event/records.js';
import type { ProvedRegistration } from '../../src/ledger/identity/registration-fields.js';
import { HOUR } from '../../src/ledger/types.js';
import { grantRow, harnessRow, principalRow } from './authority-fixture.js';
import { AUDIENCE, emptyWorld } from './command-fixture.js';
import { FIXTURE_DOMAIN, FIXTURE_NOW } from './ledger-fixture.js';
import type { LedgerWorld } from './ledger-world.js';

export const EXECUTOR = `spiffe://${FIXTURE_DOMAIN}/executor/payments-a`;

/** An executor's first registration, bound to event-1 and grant-1. */
export function proved(over: Partial<ProvedRegistration> = {}): ProvedRegistration {
  const fields: ProvedRegistration = {
    audience: AUDIENCE,
    incarnation: 1n,
    domainId: FIXTURE_DOMAIN,
    registrationId: 'reg-1',
    workloadId: 'payments',
    role: 'effect_executor',
    recipientScope: 'planner',
    processId: '4711',
    processStartTime: FIXTURE_NOW - HOUR,
    sessionId: 'session-1',
    spiffeId: EXECUTOR,
    certificateBinding: 'spiffe_id',
    certificateDigest: null,
    proofKeyJwk: '{}',
    proofKeyThumbprint: 'key-1',
    credentialEpoch: 1n,
    revocationEpoch: 1n,
    parentEventId: 'event-1',
    grantId: 'grant-1',
    sinks: [],
    issuedAt: FIXTURE_NOW,
    expiresAt: FIXTURE_NOW + HOUR,
    renewableUntil: null,
    possessionDigest: sha256('possession'),
    possessionJws: Buffer.from('token'),
    ...over,
  };
  if (over.possessionDigest) return fields;
  const { possessionDigest: _, ...rest } = fields;
  const text = JSON.stringify(rest, (_key, value: unknown) =>
    typeof value === 'bigint' ? `${value}` : value,
  );
  return { ...fields, possessionDigest: sha256(text) };
}

/** A reconciler's for the same event and grant. */
export function reconciler(over: Partial<ProvedRegistration> = {}): ProvedRegistration {
  return proved({
    registrationId: 'reg-r',
    workloadId: 'effect-system:bank-ledger',
    role: 'effect_reconciler',
    spiffeId: `spiffe://${FIXTURE_DOMAIN}/reconciler/bank`,
    proofKeyThumbprint: 'key-r',
    ...over,
  });
}

export function eventRow(over: Partial<EventRow> = {}): EventRow {
  return {
    eventId: 'event-1',
    type: 'task',
    originHarnessId: 'planner',
    recipientHarnessIds: [],
    classification: 2,
    payloadDigest: sha256('payload'),
    effectDeadline: null,
    policyRevision: 1n,
    parentEventId: null,
    hops: 0,
    publishedAt: FIXTURE_NOW - HOUR,
    objectType: 'task',
    provenanceDigest: sha256('provenance'),
    ...over,
  };
}

/** A domain with a harness, an event and a grant for it. */
export function workloadWorld(): LedgerWorld {
  return emptyWorld()
    .add('principals', principalRow())
    .add('harnesses', harnessRow())
    .add('events', eventRow())
    .add('grants', grantRow({ expiresAt: FIXTURE_NOW + 10n * HOUR }));
}

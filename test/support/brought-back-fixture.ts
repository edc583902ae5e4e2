import {
  DEFAULT_BREAKER_RESET,
  DEFAULT_UNKNOWN_AGE,
  DEFAULT_UNKNOWN_CEILING,
} from '../../src/ledger/admission/limits.js';
import type { GrantRow, HarnessRow, SinkRow } from '../../src/ledger/authority/records.js';
import { takeStep } from '../../src/ledger/effect/effect-step.js';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { Draft, type WorkingSet } from '../../src/ledger/working-set.js';
import { FIXTURE_NOW, type WorkingSetInput, workingSet } from './ledger-fixture.js';

export const EFFECT_ID = 'eff_brought_back';

const INCARNATION_SHIFT = 40n;
const DAY = 86_400_000_000n;

const SINK: SinkRow = {
  sink: 'bank',
  authoritySystems: ['bank-ledger'],
  sendWindow: 90_000_000n,
  settleTime: 30_000_000n,
  breakerThreshold: 1,
  breakerReset: DEFAULT_BREAKER_RESET,
  unknownCeiling: DEFAULT_UNKNOWN_CEILING,
  unknownAge: DEFAULT_UNKNOWN_AGE,
  frozen: false,
  freezeReason: null,
  revision: 1n,
};
const GRANT: GrantRow = {
  grantId: 'grant-1',
  actorKind: 'principal',
  actorId: 'paula',
  harnessId: 'planner',
  actions: ['refund'],
  resources: ['order-1'],
  inputSources: ['crm'],
  outputSinks: ['bank'],
  dataClasses: [2],
  maxUses: 1n,
  uses: 1n,
  repeatable: false,
  expiresAt: FIXTURE_NOW + DAY,
  revokedAt: null,
  policyRevision: 1n,
  credentialEpoch: 1n,
  revision: 1n,
};
const HARNESS: HarnessRow = {
  harnessId: 'planner',
  ownerKind: 'principal',
  ownerId: 'paula',
  assurance: 'attested',
  credentialEpoch: 1n,
  status: 'active',
  revision: 1n,
};

/** An effect as its reservation in this incarnation left it, but for its place in the log. */
export function reservedRow(incarnation: bigint): EffectRow {
  return {
    effectId: EFFECT_ID,
    identityDigest: sha256('identity'),
    eventId: 'event-1',
    sink: SINK.sink,
    requestDigest: sha256('request'),
    actorKind: 'principal',
    actorId: 'paula',
    harnessId: 'planner',
    assurance: 'attested',
    credentialEpoch: 1n,
    grantId: GRANT.grantId,
    action: 'refund',
    resource: 'order-1',
    inputSource: 'crm',
    dataClass: 2,
    effectKey: '',
    keyDigest: sha256('key'),
    holdsKey: true,
    repeatable: false,
    reservationTtl: null,
    executionDeadline: null,
    startBefore: FIXTURE_NOW + DAY,
    policyRevision: 1n,
    decisionId: 'dec-1',
    fence: (incarnation << INCARNATION_SHIFT) + 7n,
    state: 'PREPARED',
    stateSource: 'reservation',
    reservedAt: FIXTURE_NOW,
    reserveSeq: 1n,
    reserveLeaf: sha256('leaf'),
    attemptId: null,
    executorRegistrationId: null,
    executorSessionId: null,
    executorProcessId: null,
    executorProcessStart: null,
    startedAt: null,
    lostAt: null,
    sendWindow: null,
    unknownAt: null,
    settledAt: null,
    reconcilerRegistrationId: null,
    evidenceDigest: null,
    stateAt: FIXTURE_NOW,
    outputDigest: null,
    disputed: false,
    lateEvidenceCount: 0,
    step: 0n,
    lastSeq: 0n,
    stateStep: 0n,
    stateSeq: 0n,
    stateLeaf: sha256('leaf'),
  };
}

/**
 * A domain after the incarnation was raised to 2, with an effect that was reserved in `reservedIn` and then changed, each
 * with its entry in the log, and all that a sweep gathers with it.
 */
export function broughtBackSet(
  reservedIn: bigint,
  change: Partial<EffectRow> = {},
  over: Pick<WorkingSetInput, 'rows' | 'absent' | 'indexes' | 'now'> = {},
): WorkingSet {
  const before = workingSet({
    incarnation: 1n,
    head: { incarnation: 0n },
    rows: { sinks: [SINK] },
    absent: { sink_counters: [[SINK.sink]] },
  });
  const draft = new Draft(before);
  const effect = takeStep(draft, reservedRow(reservedIn), change, { commandId: 'cmd-1' });
  before.apply(draft);
  return workingSet({
    incarnation: 2n,
    head: { ...before.head, counters: { ...before.head.counters, pending: 1 } },
    domain: { policyRevision: 2n, revocationEpoch: 2n },
    now: over.now ?? FIXTURE_NOW,
    rows: {
      effects: [effect],
      audit_entries: before
        .changes()
        .rows.flatMap(({ table, after }) => (table === 'audit_entries' ? [after as never] : [])),
      sinks: [SINK],
      grants: [GRANT],
      harnesses: [HARNESS],
      pending_work: [{ effectId: EFFECT_ID, openedAt: FIXTURE_NOW }],
      ...over.rows,
    },
    absent: { sink_counters: [[SINK.sink]], ...over.absent },
    ...(over.indexes === undefined ? {} : { indexes: over.indexes }),
  });
}

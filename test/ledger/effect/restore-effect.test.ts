import { describe, expect, test } from 'vitest';
import { harnessActor } from '../../../src/ledger/admission/admit-call.js';
import type { AuditRow } from '../../../src/ledger/audit/records.js';
import type { CredentialRow, DecisionRow, EntitlementRow } from '../../../src/ledger/authority/records.js';
import { cancelEffect } from '../../../src/ledger/effect/cancel-effect.js';
import { expireEffect } from '../../../src/ledger/effect/expire-effect.js';
import { loseExecutor } from '../../../src/ledger/effect/lose-executor.js';
import type { EffectRow } from '../../../src/ledger/effect/records.js';
import { restoreEffect } from '../../../src/ledger/effect/restore-effect.js';
import { startConditionRefusal } from '../../../src/ledger/effect/rules/start-conditions.js';
import { sha256 } from '../../../src/ledger/encoding.js';
import { runDecision } from '../../../src/ledger/run-decision.js';
import { Draft, type WorkingSet } from '../../../src/ledger/working-set.js';
import { broughtBackSet, EFFECT_ID } from '../../support/brought-back-fixture.js';
import { decodeJsonEntry, FIXTURE_DOMAIN, FIXTURE_NOW } from '../../support/ledger-fixture.js';

// effects.md, Restore: what is PREPARED in a backup may have been done since.

const COMMAND = { domainId: FIXTURE_DOMAIN, commandId: 'restore-1', effectId: EFFECT_ID };
const MOVED = { ok: true, reply: { changed: true } };
const KEPT = { ok: true, reply: { changed: false } };

function effectOf(set: WorkingSet): EffectRow {
  return set.get('effects', EFFECT_ID) as EffectRow;
}

/** What was appended since, in order. */
function appended(set: WorkingSet) {
  return set
    .changes()
    .rows.flatMap(({ table, before, after }) =>
      table === 'audit_entries' && before === undefined ? [decodeJsonEntry((after as AuditRow).entry)] : [],
    );
}

describe('an effect that was PREPARED in the backup', () => {
  test('goes through EXECUTING to UNKNOWN, started now, by nobody, and stays pending with its key', () => {
    const set = broughtBackSet(1n);
    const before = effectOf(set);
    expect(runDecision(set, restoreEffect, COMMAND)).toEqual({
      ok: true,
      reply: { changed: true, moved: true },
    });
    const started = effectOf(set);
    expect(started).toEqual({
      ...before,
      state: 'EXECUTING',
      stateSource: 'restore',
      attemptId: `restore:2:${EFFECT_ID}`,
      startedAt: FIXTURE_NOW,
      lostAt: FIXTURE_NOW,
      sendWindow: 90_000_000n,
      step: 2n,
      stateStep: 2n,
      lastSeq: 2n,
      stateSeq: 2n,
      stateLeaf: started.stateLeaf,
    });
    expect(runDecision(set, restoreEffect, COMMAND)).toEqual({
      ok: true,
      reply: { changed: true, moved: true },
    });
    const unknown = effectOf(set);
    expect(unknown).toEqual({
      ...started,
      state: 'UNKNOWN',
      unknownAt: FIXTURE_NOW,
      step: 3n,
      stateStep: 3n,
      lastSeq: 3n,
      stateSeq: 3n,
      stateLeaf: unknown.stateLeaf,
    });
    expect(set.get('pending_work', EFFECT_ID)).toBeDefined();
    expect(unknown.holdsKey).toBe(true);
    // The sink has one more that is UNKNOWN, and is not to blame for it: its breaker would open by one failure.
    expect(set.get('sink_counters', 'bank')).toMatchObject({ unknown: 1, failures: 0, breaker: 'closed' });
    expect(runDecision(set, restoreEffect, COMMAND)).toEqual({
      ok: true,
      reply: { changed: false, moved: true },
    });

    const [first, second, ...more] = appended(set);
    expect(more).toEqual([]);
    const said = { attemptId: `restore:2:${EFFECT_ID}`, source: 'restore', grantCurrent: false };
    expect(first).toMatchObject({
      incarnation: '2',
      commandId: 'restore-1',
      effect: {
        ...said,
        step: '2',
        fromState: 'PREPARED',
        toState: 'EXECUTING',
        fence: before.fence.toString(),
      },
    });
    expect(first).not.toHaveProperty('actorSpiffeId');
    expect(second).toMatchObject({
      effect: { ...said, step: '3', fromState: 'EXECUTING', toState: 'UNKNOWN' },
    });
    // The first entry of the incarnation alone carries the head before it.
    expect(first?.previousHead).toBeDefined();
    expect(second).not.toHaveProperty('previousHead');
  });

  test('with no sink to ask gets the send window that a start would have stored', () => {
    const set = broughtBackSet(1n, {}, { rows: { sinks: [] }, absent: { sinks: [['bank']] } });
    runDecision(set, restoreEffect, COMMAND);
    expect(effectOf(set).sendWindow).toBe(60_000_000n);
  });

  test('is never cancelled by the sweep: that takes the same two steps', () => {
    const late = FIXTURE_NOW + 2n * 86_400_000_000n;
    const set = broughtBackSet(1n, {}, { now: late });
    expect(runDecision(set, expireEffect, COMMAND)).toEqual(MOVED);
    expect(effectOf(set)).toMatchObject({ state: 'EXECUTING', stateSource: 'restore' });
    expect(runDecision(set, expireEffect, COMMAND)).toEqual(KEPT);
    expect(runDecision(set, loseExecutor, COMMAND)).toEqual(MOVED);
    expect(effectOf(set)).toMatchObject({ state: 'UNKNOWN', stateSource: 'restore' });
    expect(set.get('pending_work', EFFECT_ID)).toBeDefined();
  });

  test('is not started, whatever else is in order', () => {
    const set = broughtBackSet(1n);
    expect(startConditionRefusal(new Draft(set), effectOf(set))).toMatchObject({
      reason: 'EFFECT_MUST_RECONCILE',
      metadata: { state: 'PREPARED' },
    });
  });

  test.each([
    [
      'is not cancelled by its actor, with a decision that is current',
      1n,
      { ok: false, refusal: { reason: 'EFFECT_MUST_RECONCILE' } },
    ],
    ['while one that was reserved since is', 2n, { ok: true, reply: { effect: { state: 'CANCELLED' } } }],
  ])('%s', (_, reservedIn, outcome) => {
    expect(
      runDecision(cancellable(reservedIn), cancelEffect, { ...COMMAND, caller: CALLER, decisionId: 'dec-2' }),
    ).toMatchObject(outcome);
  });
});

describe('an effect that needs no restore', () => {
  test.each<[string, bigint, Partial<EffectRow>]>([
    ['was reserved in the present incarnation', 2n, {}],
    [
      'was EXECUTING in the backup: its executor is lost at its own time',
      1n,
      {
        state: 'EXECUTING',
        stateSource: 'executor',
        attemptId: 'a',
        startedAt: FIXTURE_NOW,
        lostAt: FIXTURE_NOW + 1n,
      },
    ],
    [
      'was UNKNOWN in the backup',
      1n,
      { state: 'UNKNOWN', stateSource: 'executor', attemptId: 'a', startedAt: FIXTURE_NOW },
    ],
    ['was SUCCEEDED in the backup', 1n, { state: 'SUCCEEDED', stateSource: 'executor', attemptId: 'a' }],
    ['was CANCELLED in the backup', 1n, { state: 'CANCELLED', stateSource: 'actor', holdsKey: false }],
  ])('%s', (_, reservedIn, change) => {
    const set = broughtBackSet(reservedIn, change);
    const before = effectOf(set);
    expect(runDecision(set, restoreEffect, COMMAND)).toEqual({
      ok: true,
      reply: { changed: false, moved: false },
    });
    expect(effectOf(set)).toBe(before);
    expect(appended(set)).toEqual([]);
  });

  test('of which the store knows nothing', () => {
    const set = broughtBackSet(1n, {}, { absent: { effects: [['eff_other']] } });
    expect(runDecision(set, restoreEffect, { ...COMMAND, effectId: 'eff_other' })).toEqual({
      ok: true,
      reply: { changed: false, moved: false },
    });
  });

  test('whose row contradicts the log is refused, and nothing is written', () => {
    const set = broughtBackSet(1n);
    const changed = { ...effectOf(set), fence: 1n };
    const forged = broughtBackSet(1n, {}, { rows: { effects: [changed] } });
    expect(runDecision(forged, restoreEffect, COMMAND)).toMatchObject({
      ok: false,
      refusal: { reason: 'DATA_CORRUPT' },
    });
    expect(forged.changes().rows).toEqual([]);
  });

  test('an executor that is lost after the restore is lost as any other', () => {
    const executing: Partial<EffectRow> = {
      state: 'EXECUTING',
      stateSource: 'executor',
      attemptId: 'a',
      startedAt: FIXTURE_NOW,
      lostAt: FIXTURE_NOW,
      sendWindow: 1n,
    };
    const set = broughtBackSet(1n, executing);
    expect(runDecision(set, loseExecutor, COMMAND)).toEqual(MOVED);
    expect(effectOf(set)).toMatchObject({ state: 'UNKNOWN', stateSource: 'executor_lost' });
  });
});

const CALLER = {
  spiffeId: `spiffe://${FIXTURE_DOMAIN}/harness/planner`,
  trustDomain: FIXTURE_DOMAIN,
  leafDigest: sha256('leaf'),
  keyThumbprint: 'leaf key',
  notAfter: FIXTURE_NOW + 1_000_000n,
};

/** The effect with an actor, an entitlement and a decision that are all of the new policy revision. */
function cancellable(reservedIn: bigint): WorkingSet {
  const credential: CredentialRow = {
    credentialId: 'cred-1',
    harnessId: 'planner',
    credentialEpoch: 1n,
    spiffeId: CALLER.spiffeId,
    binding: 'spiffe_id',
    certificateDigest: null,
    notBefore: 0n,
    expiresAt: FIXTURE_NOW + 1_000_000n,
    status: 'active',
    revision: 1n,
  };
  const entitlement: EntitlementRow = {
    entitlementId: 'ent-1',
    principalId: 'paula',
    action: 'effect.cancel',
    resource: '*',
    policyRevision: 2n,
    expiresAt: FIXTURE_NOW + 1_000_000n,
    revokedAt: null,
    revision: 1n,
  };
  const decision: DecisionRow = {
    decisionId: 'dec-2',
    harnessId: 'planner',
    actorKind: 'principal',
    actorId: 'paula',
    action: 'effect.cancel',
    resource: EFFECT_ID,
    requestDigest: sha256(''),
    contextDigest: sha256('context'),
    allowed: true,
    reason: null,
    entitlementId: 'ent-1',
    grantId: null,
    policyRevision: 2n,
    decidedAt: FIXTURE_NOW,
    denialKey: null,
    auditSeq: 1n,
  };
  return broughtBackSet(
    reservedIn,
    {},
    {
      rows: {
        callers: [{ spiffeId: CALLER.spiffeId, kind: 'harness', refId: 'planner' }],
        credentials: [credential],
        principals: [{ principalId: 'paula', status: 'active', revision: 1n }],
        entitlements: [entitlement],
        decisions: [decision],
      },
      absent: { decision_uses: [['dec-2']], actor_counters: [[harnessActor('planner')]] },
      indexes: { credentialsOfSpiffeId: [[CALLER.spiffeId]] },
    },
  );
}

import { harnessActor } from '../ledger/admission/admit-call.js';
import { EVERY_SHAPE, type Reads } from '../ledger/reads.js';
import type { Tables } from '../ledger/tables.js';
import type { WorkingSet } from '../ledger/working-set.js';
import { planActions } from './gather-actions.js';
import { type GatherPlan, joinedStatement, Planner, single, texts } from './gather-planner.js';
import { decodeFound, encodeArray } from './row-codec.js';

/**
 * Plans the reads of a batch: each kind of read is one statement for all its keys (architecture.md, Gather).
 *
 * @param options.lock whether rows of another domain are locked against change; not within a read-only transaction
 */
export function planGather(domainId: string, all: readonly Reads[], options: { lock: boolean }): GatherPlan {
  const plan = new Planner(domainId, all);
  planCallers(plan);
  planRecords(plan);
  planEffects(plan);
  planProvenance(plan);
  planActions(plan);
  planPlatform(plan, options.lock);
  return plan;
}

/** The tables that `harness_callers` reads. */
const HARNESS_CALLER = ['callers', 'harnesses', 'principals', 'guests', 'actor_counters'] as const;

function planCallers(plan: Planner): void {
  const spiffeIds = plan.keys('callerHarness');
  plan.byKey('callers', single(plan.keys('callers')));
  if (spiffeIds.length > 0) {
    const ids = texts(spiffeIds);
    plan.joinedTables('harness_callers', HARNESS_CALLER, [ids]);
    plan.indexed('credentials_of_spiffe_ids', 'credentialsOfSpiffeId', [ids]);
    plan.mark((set) => {
      for (const spiffeId of spiffeIds) {
        set.markKey('callers', [spiffeId]);
        set.markIndex('credentialsOfSpiffeId', [spiffeId]);
        const caller = set.get('callers', spiffeId);
        if (caller?.kind !== 'harness') continue;
        markHarness(set, caller.refId);
        set.markKey('actor_counters', [harnessActor(caller.refId)]);
      }
    });
  }
  const harnesses = plan.keys('harnesses');
  plan.byKey('harnesses', single(harnesses));
  if (harnesses.length > 0) {
    plan.joined('principals_of_harnesses', 'principals', [texts(harnesses)]);
    plan.joined('guests_of_harnesses', 'guests', [texts(harnesses)]);
    plan.mark((set) => harnesses.forEach((id) => markHarness(set, id)));
  }
}

function markHarness(set: WorkingSet, harnessId: string): void {
  set.markKey('harnesses', [harnessId]);
  const harness = set.get('harnesses', harnessId);
  if (harness) set.markKey(harness.ownerKind === 'principal' ? 'principals' : 'guests', [harness.ownerId]);
}

function planRecords(plan: Planner): void {
  plan.byKey('principals', single(plan.keys('principals')));
  plan.byKey('guests', single(plan.keys('guests')));
  plan.byKey('credentials', single(plan.keys('credentials')));
  planSinks(plan);
  plan.byKey('actor_counters', single(plan.keys('actorCounters')));
  plan.byKey('grants', single(plan.keys('grants')));
  plan.byKey('entitlements', single(plan.keys('entitlementsById')));
  plan.byKey('operators', single(plan.keys('operators')));
  plan.byKey('owners', single(plan.keys('owners')));
  plan.byKey('admin_commands', single(plan.keys('adminCommands')));
  plan.byKey('decisions', single(plan.keys('decisions')));
  plan.byKey('decision_uses', single(plan.keys('decisions')));
  plan.byKey('registrations', single(plan.keys('registrations')));
  plan.byKey('proof_keys', single(plan.keys('proofKeys')));
  plan.byKey('replay_nonces', single(plan.keys('replayNonces')));
  plan.byKey('replay_callers', single(plan.keys('replayCallers')));
  plan.byKey(
    'transition_nonces',
    plan.keys('transitionNonces').map((key) => [key.registrationId, key.nonceDigest]),
  );
  planGateRecords(plan);
  planDecisions(plan);
  planEntitlements(plan);
  const denials = plan.keys('denials');
  if (denials.length > 0) {
    plan.indexed('denials_of', 'denialsOf', [encodeArray('bytea', denials)]);
    plan.mark((set) => denials.forEach((key) => set.markIndex('denialsOf', [key])));
  }
  planVersions(plan);
}

function planSinks(plan: Planner): void {
  const sinks = plan.keys('sinks');
  if (sinks.length === 0) return;
  plan.joinedTables('sinks_with_counters', ['sinks', 'sink_counters'], [texts(sinks)]);
  plan.mark((set) => {
    for (const sink of sinks) {
      set.markKey('sinks', [sink]);
      set.markKey('sink_counters', [sink]);
    }
  });
}

function planGateRecords(plan: Planner): void {
  plan.byKey('gate_shapes', single(plan.keys('gateShapes')));
  plan.byKey('action_conditions', single(plan.keys('actionConditions')));
  plan.byKey('tools', single(plan.keys('tools')));
  if (plan.keys('allGateShapes').length === 0) return;
  plan.indexed('gate_shapes_of_domain', 'shapesOfDomain', []);
  plan.mark((set) => set.markIndex('shapesOfDomain', [EVERY_SHAPE]));
}

/** What a decision rests on comes with it: its reads are named before its row is known. */
function planDecisions(plan: Planner): void {
  const decisions = plan.keys('decisions');
  if (decisions.length === 0) return;
  plan.joined('entitlements_of_decisions', 'entitlements', [texts(decisions)]);
  plan.joined('grants_of_decisions', 'grants', [texts(decisions)]);
  plan.mark((set) => {
    for (const decisionId of decisions) {
      const decision = set.get('decisions', decisionId);
      if (decision?.entitlementId != null) set.markKey('entitlements', [decision.entitlementId]);
      if (decision?.grantId != null) set.markKey('grants', [decision.grantId]);
    }
  });
}

function planEntitlements(plan: Planner): void {
  const keys = plan.keys('entitlements');
  if (keys.length > 0) {
    plan.indexed('entitlements_of', 'entitlementsOf', [
      texts(keys.map((key) => key.principalId)),
      texts(keys.map((key) => key.action)),
      texts(keys.map((key) => key.resource)),
    ]);
    plan.mark((set) => {
      for (const key of keys) markEntitlement(set, key.principalId, key.action, key.resource);
    });
  }
  const ofCallers = plan.keys('entitlementsOfCaller');
  if (ofCallers.length > 0) {
    plan.indexed('entitlements_of_callers', 'entitlementsOf', [
      texts(ofCallers.map((key) => key.spiffeId)),
      texts(ofCallers.map((key) => key.action)),
      texts(ofCallers.map((key) => key.resource)),
    ]);
    plan.mark((set) => {
      for (const key of ofCallers) {
        const caller = set.get('callers', key.spiffeId);
        const harness = caller?.kind === 'harness' ? set.get('harnesses', caller.refId) : undefined;
        if (harness) markEntitlement(set, harness.ownerId, key.action, key.resource);
      }
    });
  }
}

function markEntitlement(set: WorkingSet, principalId: string, action: string, resource: string): void {
  set.markIndex('entitlementsOf', [principalId, action, resource]);
  set.markIndex('entitlementsOf', [principalId, action, '*']);
}

function planVersions(plan: Planner): void {
  const spiffeIds = plan.keys('registrationsOfSpiffeId');
  if (spiffeIds.length > 0) {
    plan.indexed('registrations_of_spiffe_ids', 'registrationsOfSpiffeId', [texts(spiffeIds)]);
    plan.mark((set) => spiffeIds.forEach((id) => set.markIndex('registrationsOfSpiffeId', [id])));
  }
  const ofEffects = plan.keys('registrationsForEffect');
  if (ofEffects.length > 0) {
    const owners = texts(ofEffects.map(({ spiffeId }) => spiffeId));
    const effects = texts(ofEffects.map(({ effectId }) => effectId));
    plan.indexed('registrations_for_effects', 'registrationsOfSpiffeId', [owners, effects]);
    plan.mark((set) =>
      ofEffects.forEach(({ spiffeId }) => set.markIndex('registrationsOfSpiffeId', [spiffeId])),
    );
  }
  const registrations = plan.keys('registrationVersions');
  if (registrations.length > 0) {
    plan.indexed('versions_of_registrations', 'versionsOfRegistration', [texts(registrations)]);
    plan.mark((set) => registrations.forEach((id) => set.markIndex('versionsOfRegistration', [id])));
  }
  const thumbprints = plan.keys('keyHolders');
  if (thumbprints.length > 0) {
    plan.indexed('versions_with_keys', 'versionsWithKey', [texts(thumbprints)]);
    plan.mark((set) => thumbprints.forEach((id) => set.markIndex('versionsWithKey', [id])));
  }
}

function planEffects(plan: Planner): void {
  const events = plan.keys('events');
  if (events.length > 0) {
    plan.joinedTables('events_with_provenance', ['events', 'provenance_records'], [texts(events)]);
    plan.mark((set) => events.forEach((id) => markEvent(set, id)));
  }
  const contexts = plan.keys('effectContext');
  const effects = [...new Set([...contexts, ...plan.keys('effects')])];
  if (contexts.length > 0) planContexts(plan, contexts);
  // The contexts come with their effects.
  const others = effects.slice(contexts.length);
  if (others.length > 0) {
    plan.joinedTables('effects_with_audit', ['effects', 'audit_entries'], [texts(others)]);
    plan.joinedTables('tombstones_with_audit', ['effect_tombstones', 'audit_entries'], [texts(others)]);
  }
  if (effects.length > 0) {
    plan.mark((set) => {
      for (const id of effects) {
        set.markKey('effects', [id]);
        set.markKey('effect_tombstones', [id]);
        markAudit(set, set.get('effects', id));
        markAudit(set, set.get('effect_tombstones', id));
      }
    });
  }
  plan.byKey('archives', single(plan.keys('archives')));
  planRarely(plan);
  planIdentities(plan);
  planUnknown(plan, contexts.length);
  const bindings = plan.keys('unsettled');
  if (bindings.length > 0) {
    const eventIds = texts(bindings.map((key) => key.eventId));
    plan.indexed('unsettled_of', 'unsettledOf', [eventIds, texts(bindings.map((key) => key.grantId))]);
    plan.mark((set) => bindings.forEach((key) => set.markIndex('unsettledOf', [key.eventId, key.grantId])));
  }
  plan.byKey(
    'transitions',
    plan.keys('transitions').map((key) => [key.effectId, key.step]),
  );
  const histories = plan.keys('transitionsOf');
  if (histories.length > 0) {
    plan.indexed('transitions_of_effects', 'transitionsOfEffect', [texts(histories)]);
    plan.mark((set) => histories.forEach((id) => set.markIndex('transitionsOfEffect', [id])));
  }
}

function markEvent(set: WorkingSet, eventId: string): void {
  set.markKey('events', [eventId]);
  const event = set.get('events', eventId);
  if (event) set.markKey('provenance_records', [event.objectType, eventId, 1n]);
}

function markAudit(set: WorkingSet, effect: Pick<Tables['effects'], 'lastSeq'> | undefined): void {
  if (effect) set.markKey('audit_entries', [effect.lastSeq]);
}

/** The tables that `effect_contexts` reads. */
const EFFECT_CONTEXT = [
  'effects',
  'events',
  'provenance_records',
  'grants',
  'sinks',
  'sink_counters',
  'actor_counters',
  'harnesses',
  'principals',
  'guests',
  'pending_work',
  'effect_tombstones',
  'audit_entries',
] as const;

function planContexts(plan: Planner, effectIds: readonly string[]): void {
  const ids = [texts(effectIds)];
  plan.joinedTables('effect_contexts', EFFECT_CONTEXT, ids);
  plan.joinedTables('outputs_with_steps', ['provenance_records', { under: 'stepsOfRecord' }], ids);
  plan.indexed('output_parents_of_effects', 'parentsOfRecord', ids);
  plan.mark((set) => effectIds.forEach((id) => markContext(set, id)));
}

function markContext(set: WorkingSet, effectId: string): void {
  set.markKey('pending_work', [effectId]);
  set.markKey('effects', [effectId]);
  const effect = set.get('effects', effectId);
  if (!effect) return;
  markEvent(set, effect.eventId);
  set.markKey('grants', [effect.grantId]);
  set.markKey('sinks', [effect.sink]);
  set.markKey('sink_counters', [effect.sink]);
  set.markKey('actor_counters', [harnessActor(effect.harnessId)]);
  set.markKey('harnesses', [effect.harnessId]);
  set.markKey(effect.actorKind === 'principal' ? 'principals' : 'guests', [effect.actorId]);
  markRecord(set, 'tool_output', `effect-output:${effectId}`, 1n);
}

/** What only some transitions look at. */
function planRarely(plan: Planner): void {
  const executed = plan.keys('effectExecutors');
  if (executed.length > 0) {
    plan.indexed('executor_versions_of_effects', 'versionsOfRegistration', [texts(executed)]);
    plan.mark((set) => {
      for (const effectId of executed) {
        const registrationId = set.get('effects', effectId)?.executorRegistrationId ?? null;
        if (registrationId !== null) set.markIndex('versionsOfRegistration', [registrationId]);
      }
    });
  }
  const keyed = plan.keys('keysOfEffects');
  if (keyed.length === 0) return;
  plan.indexed('key_holders_of_effects', 'keyHolder', [texts(keyed)]);
  plan.indexed('tombstones_under_keys_of_effects', 'keyArchived', [texts(keyed)]);
  plan.mark((set) => {
    for (const effectId of keyed) {
      const effect = set.get('effects', effectId);
      if (!effect) continue;
      const key = [effect.sink, effect.keyDigest];
      set.markIndex('keyHolder', key);
      if (effect.holdsKey) set.loadIndexed('keyHolder', key, effect);
      set.markIndex('keyArchived', key);
    }
  });
}

function markRecord(set: WorkingSet, objectType: string, objectId: string, version: bigint): void {
  set.markKey('provenance_records', [objectType, objectId, version]);
  const record = set.get('provenance_records', objectType, objectId, version);
  if (!record) return;
  set.markIndex('stepsOfRecord', [record.provenanceDigest]);
  set.markIndex('parentsOfRecord', [record.provenanceDigest]);
}

/** What `identities_with_audit` and `keys_with_audit` read. */
const IDENTITY = [
  { under: 'effectOfIdentity' },
  { under: 'tombstoneOfIdentity' },
  'audit_entries',
  'audit_entries',
] as const;
const KEY = [
  { under: 'keyHolder' },
  { under: 'keySucceeded' },
  { under: 'keyArchived' },
  'audit_entries',
] as const;

function planIdentities(plan: Planner): void {
  const identities = plan.keys('effectIdentities');
  if (identities.length > 0) {
    const digests = encodeArray(
      'bytea',
      identities.map((key) => key.identityDigest),
    );
    const values = [texts(identities.map((key) => key.eventId)), digests];
    plan.joinedTables('identities_with_audit', IDENTITY, values);
    plan.mark((set) => {
      for (const { identityDigest: digest } of identities) {
        set.markIndex('effectOfIdentity', [digest]);
        for (const key of set.candidateKeys('effectOfIdentity', [digest])) {
          markAudit(set, set.getByText('effects', key));
        }
        set.markIndex('tombstoneOfIdentity', [digest]);
        for (const key of set.candidateKeys('tombstoneOfIdentity', [digest])) {
          markAudit(set, set.getByText('effect_tombstones', key));
        }
      }
    });
  }
  const keys = plan.keys('effectKeys');
  if (keys.length === 0) return;
  const values = [
    texts(keys.map((key) => key.sink)),
    encodeArray(
      'bytea',
      keys.map((key) => key.keyDigest),
    ),
  ];
  plan.joinedTables('keys_with_audit', KEY, values);
  plan.mark((set) => {
    for (const key of keys) {
      set.markIndex('keySucceeded', [key.sink, key.keyDigest]);
      set.markIndex('keyArchived', [key.sink, key.keyDigest]);
      set.markIndex('keyHolder', [key.sink, key.keyDigest]);
      for (const holder of set.candidateKeys('keyHolder', [key.sink, key.keyDigest])) {
        markAudit(set, set.getByText('effects', holder));
      }
    }
  });
}

/**
 * @param settling how many effects the batch could settle: those that stay UNKNOWN begin at the latest behind them
 */
function planUnknown(plan: Planner, settling: number): void {
  const sinks = plan.keys('oldestUnknown');
  if (sinks.length === 0) return;
  plan.indexed('oldest_unknown_of_sinks', 'unknownOf', [texts(sinks), String(settling + 1)]);
  plan.mark((set) => sinks.forEach((sink) => set.markIndex('unknownOf', [sink])));
}

function planProvenance(plan: Planner): void {
  plan.byKey(
    'clearance_receipts',
    plan.keys('clearanceReceipts').map((key) => [key.approverSpiffeId, key.receiptId]),
  );
  const keys = plan.keys('provenance');
  plan.byKey(
    'provenance_records',
    keys.map((key) => [key.objectType, key.objectId, key.version]),
  );
  if (keys.length === 0) return;
  const values = [
    texts(keys.map((key) => key.objectType)),
    texts(keys.map((key) => key.objectId)),
    encodeArray(
      'int8',
      keys.map((key) => key.version),
    ),
  ];
  plan.indexed('steps_of_records', 'stepsOfRecord', values);
  plan.indexed('parents_of_records', 'parentsOfRecord', values);
  plan.indexed('clearances_of_records', 'clearancesOfRecord', values);
  plan.mark((set) => {
    for (const { objectType, objectId, version } of keys) {
      markRecord(set, objectType, objectId, version);
      const record = set.get('provenance_records', objectType, objectId, version);
      if (record) set.markIndex('clearancesOfRecord', [record.provenanceDigest]);
    }
  });
}

function planPlatform(plan: Planner, lock: boolean): void {
  const spiffeIds = plan.keys('platformOperators');
  if (spiffeIds.length > 0) {
    const name = lock ? 'platform_operators_locked' : 'platform_operators';
    plan.step(joinedStatement(name), [texts(spiffeIds)], (set, rows) => {
      const operators = rows.map((row) => decodeFound('operators', row['found'] as string));
      for (const spiffeId of spiffeIds) {
        set.loadPlatformOperator(
          spiffeId,
          operators.find((row) => row.spiffeId === spiffeId),
        );
      }
    });
  }
  if (plan.keys('shares').length > 0) {
    // Locked first, so that the sum behind it sees what others have committed; a snapshot has nothing to lock.
    plan.step(joinedStatement(lock ? 'service_limit_locked' : 'service_limit'), [], () => undefined);
    plan.step(joinedStatement('shares'), [], (set, rows) => {
      const row = rows[0] as { service: number; others: bigint } | undefined;
      if (row) set.loadShares({ service: row.service, others: Number(row.others) });
    });
  }
  const domainIds = plan.keys('otherDomains');
  if (domainIds.length > 0) {
    plan.step(joinedStatement('other_domains'), [texts(domainIds)], (set, rows) => {
      const found = new Set(rows.map((row) => row['domain_id'] as string));
      for (const domainId of domainIds) set.loadOtherDomain(domainId, found.has(domainId));
    });
  }
}

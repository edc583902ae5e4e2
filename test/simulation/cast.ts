import { DEFAULT_LIMITS } from '../../src/ledger/admission/limits.js';
import type { DomainLimits } from '../../src/ledger/admission/records.js';
import type { GrantRow } from '../../src/ledger/authority/records.js';
import type { CommandBase, Decision, Outcome } from '../../src/ledger/decision.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { publishEvent } from '../../src/ledger/event/publish-event.js';
import type { RegistrationRow } from '../../src/ledger/identity/records.js';
import { runDecision } from '../../src/ledger/run-decision.js';
import type { Caller } from '../../src/ledger/types.js';
import type { MemoryStore } from './memory-store.js';

export const DOMAIN = 'acme.test';
export const SECOND = 1_000_000n;
export const MINUTE = 60n * SECOND;
export const HOUR = 60n * MINUTE;
const YEAR = 8_760n * HOUR;
const BEGINNING = 1_767_225_600_000_000n;

export const SINKS = ['bank', 'mail'] as const;
export const RESOURCES = ['order-1', 'order-2'] as const;

/** Narrow enough that random histories come to every limit, and wide enough that they get past it. */
export const NARROW: DomainLimits = {
  requestsPerMinute: 14,
  actorRequestsPerMinute: 10,
  pendingCeiling: 6,
  fairnessBurst: 2,
  maxHops: 16,
};

/** Limits as somebody may set them: wide, or narrow with some burst. */
export function someLimits(width: number, burst: number): DomainLimits {
  return width % 3 === 0 ? DEFAULT_LIMITS : { ...NARROW, fairnessBurst: 1 + (burst % 4) };
}

/** What a sink of a history bears. */
const SINK_LIMITS = {
  breakerThreshold: 3,
  breakerReset: 3n * MINUTE,
  unknownCeiling: 2,
  unknownAge: 2n * HOUR,
};

function callerOf(path: string): Caller {
  const spiffeId = `spiffe://${DOMAIN}/${path}`;
  return {
    spiffeId,
    trustDomain: DOMAIN,
    leafDigest: sha256(`leaf of ${spiffeId}`),
    keyThumbprint: `leaf key of ${spiffeId}`,
    notAfter: BEGINNING + YEAR,
  };
}

/** A principal's harness and a guest's. */
export const HARNESSES = [
  { harnessId: 'planner', ownerKind: 'principal', ownerId: 'paula', caller: callerOf('harness/planner') },
  { harnessId: 'helper', ownerKind: 'guest', ownerId: 'gustav', caller: callerOf('harness/helper') },
] as const;

/** Two executors, a reconciler, and one that shares a key with an executor and so is not independent. */
export const WORKLOADS = [
  { id: 'executor-a', caller: callerOf('executor/a'), key: 'key-a', reconciler: false },
  { id: 'executor-b', caller: callerOf('executor/b'), key: 'key-b', reconciler: false },
  { id: 'reconciler-r', caller: callerOf('reconciler/r'), key: 'key-r', reconciler: true },
  { id: 'reconciler-s', caller: callerOf('reconciler/s'), key: 'key-a', reconciler: true },
] as const;

export type Workload = (typeof WORKLOADS)[number];

/** Ids that are the same in every run of a history. */
export class Ids {
  private made = 0;

  next(prefix: string): string {
    this.made += 1;
    return `${prefix}-${this.made}`;
  }
}

/** Seeds who plays, with events that some may act for and grants that some may use. */
export function seedCast(store: MemoryStore, ids: Ids): void {
  for (const sink of SINKS) {
    store.put('sinks', {
      sink,
      authoritySystems: ['ledger'],
      sendWindow: MINUTE,
      settleTime: MINUTE,
      ...SINK_LIMITS,
      frozen: false,
      freezeReason: null,
      revision: 1n,
    });
  }
  store.put('principals', { principalId: 'paula', status: 'active', revision: 1n });
  store.put('guests', { guestId: 'gustav', status: 'active', expiresAt: BEGINNING + YEAR, revision: 1n });
  for (const action of ['refund', 'effect.cancel']) {
    store.put('entitlements', {
      entitlementId: `ent-${action}`,
      principalId: 'paula',
      action,
      resource: '*',
      policyRevision: 1n,
      expiresAt: BEGINNING + YEAR,
      revokedAt: null,
      revision: 1n,
    });
  }
  for (const { harnessId, ownerKind, ownerId, caller } of HARNESSES) {
    store.put('harnesses', {
      harnessId,
      ownerKind,
      ownerId,
      assurance: 'attested',
      credentialEpoch: 1n,
      status: 'active',
      revision: 1n,
    });
    store.put('callers', { spiffeId: caller.spiffeId, kind: 'harness', refId: harnessId });
    giveCredential(store, ids, harnessId);
  }
  for (const workload of WORKLOADS) {
    const { spiffeId } = workload.caller;
    store.put('callers', {
      spiffeId,
      kind: workload.reconciler ? 'reconciler' : 'executor',
      refId: spiffeId,
    });
    register(store, ids, workload);
  }
  for (const shape of GRANT_SHAPES) giveGrant(store, ids, shape);
  for (let i = 0; i < EVENTS; i += 1) publish(store, ids, i);
}

export const EVENTS = 8;

function publish(store: MemoryStore, ids: Ids, i: number): void {
  const [planner, helper] = HARNESSES;
  const outcome = runAlone(store, publishEvent, {
    domainId: DOMAIN,
    commandId: ids.next('cmd'),
    caller: planner.caller,
    eventId: `event-${i}`,
    type: 'task.assigned',
    recipientHarnessIds: i % 2 ? [helper.harnessId] : [],
    classification: 2,
    payloadDigest: sha256(`payload ${i}`),
    // One of them can be acted for only in the first hours.
    effectDeadline: i === 7 ? store.now + 2n * HOUR : null,
    parentEventId: null,
    origin: {
      kind: 'human_input',
      sourceId: `ticket-${i}`,
      sourceDigest: sha256('ticket'),
      observedAt: store.now,
      principalId: planner.ownerId,
      harnessId: planner.harnessId,
    },
    allowedSinks: ['*'],
  });
  if (!outcome.ok) throw new Error(outcome.refusal.reason);
}

/** A credential for the harness's current epoch. */
export function giveCredential(store: MemoryStore, ids: Ids, harnessId: string): void {
  const harness = store.get('harnesses', harnessId);
  const owner = HARNESSES.find((candidate) => candidate.harnessId === harnessId);
  if (!harness || !owner) throw new Error(harnessId);
  store.put('credentials', {
    credentialId: ids.next('cred'),
    harnessId,
    credentialEpoch: harness.credentialEpoch,
    spiffeId: owner.caller.spiffeId,
    binding: 'spiffe_id',
    certificateDigest: null,
    notBefore: 0n,
    expiresAt: BEGINNING + YEAR,
    status: 'active',
    revision: 1n,
  });
}

/** What a grant may be like. */
export const GRANT_SHAPES = [
  { harness: 0, maxUses: 3n, repeatable: false },
  { harness: 0, maxUses: 1_000n, repeatable: true },
  { harness: 1, maxUses: 2n, repeatable: false },
  { harness: 1, maxUses: 1_000n, repeatable: false },
] as const;

/** A fresh grant, bound to the present revision and epoch. */
export function giveGrant(store: MemoryStore, ids: Ids, shape: (typeof GRANT_SHAPES)[number]): GrantRow {
  const harness = HARNESSES[shape.harness];
  const grant: GrantRow = {
    grantId: ids.next('grant'),
    actorKind: harness.ownerKind,
    actorId: harness.ownerId,
    harnessId: harness.harnessId,
    actions: ['refund', 'effect.cancel'],
    resources: [...RESOURCES],
    inputSources: ['crm'],
    outputSinks: [...SINKS],
    dataClasses: [2],
    maxUses: shape.maxUses,
    uses: 0n,
    repeatable: shape.repeatable,
    expiresAt: store.now + 30n * HOUR,
    revokedAt: null,
    policyRevision: store.domain.policyRevision,
    credentialEpoch: store.get('harnesses', harness.harnessId)?.credentialEpoch ?? 1n,
    revision: 1n,
  };
  store.put('grants', grant);
  return grant;
}

/** Registers a workload, or renews it for another process of it. */
export function register(store: MemoryStore, ids: Ids, workload: Workload): void {
  const before = store.get('registrations', workload.id);
  // Another process of the same session, or the same process in another session: each is one that was not told to send.
  const sameSession = before && before.credentialEpoch % 2n === 1n ? before : undefined;
  const sameProcess = sameSession ? undefined : before;
  const registration: RegistrationRow = {
    registrationId: workload.id,
    workloadId: workload.reconciler ? 'effect-system:ledger' : 'payments',
    role: workload.reconciler ? 'effect_reconciler' : 'effect_executor',
    recipientScope: '*',
    processId: sameProcess?.processId ?? ids.next('pid'),
    processStartTime: sameProcess?.processStartTime ?? store.now,
    sessionId: sameSession?.sessionId ?? ids.next('session'),
    spiffeId: workload.caller.spiffeId,
    certificateBinding: 'spiffe_id',
    certificateDigest: null,
    proofKeyThumbprint: workload.key,
    credentialEpoch: (before?.credentialEpoch ?? 0n) + 1n,
    revocationEpoch: store.domain.revocationEpoch,
    parentEventId: null,
    grantId: null,
    sinks: [...SINKS],
    status: 'active',
    issuedAt: store.now,
    expiresAt: store.now + YEAR,
    renewableUntil: null,
    firstIssuedAt: before?.firstIssuedAt ?? store.now,
    possessionDigest: sha256(ids.next('possession')),
    updatedAt: store.now,
  };
  store.put('registrations', registration);
  store.put('registration_versions', {
    registrationId: workload.id,
    credentialEpoch: registration.credentialEpoch,
    role: registration.role,
    spiffeId: registration.spiffeId,
    certificateDigest: null,
    proofKeyThumbprint: registration.proofKeyThumbprint,
    status: 'active',
    possessionJws: null,
    storedAt: store.now,
  });
}

/** Runs one command in a batch of its own. */
export function runAlone<Command extends CommandBase, Reply>(
  store: MemoryStore,
  decision: Decision<Command, Reply>,
  command: Command,
): Outcome<Reply> {
  const set = store.gather([decision.reads(command)]);
  const outcome = runDecision(set, decision, command);
  store.commit(set.changes());
  return outcome;
}

import { DEFAULT_LIMITS } from '../../src/ledger/admission/limits.js';
import { ADMITS_ALL } from './admits-all.js';
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { auditCodec } from '../../src/lane/audit-codec.js';
import { Faults, parseFault } from '../../src/lane/faults.js';
import { SILENT_OBSERVER } from '../../src/lane/lane-observer.js';
import { Lanes } from '../../src/lane/lanes.js';
import type { GrantRow } from '../../src/ledger/authority/records.js';
import type { Outcome } from '../../src/ledger/decision.js';
import type { Evidence, EvidenceFields, EvidenceKind } from '../../src/ledger/effect/evidence.js';
import type { EffectRow } from '../../src/ledger/effect/records.js';
import {
  type ReserveEffectCommand,
  type ReserveEffectReply,
  reserveEffect,
} from '../../src/ledger/effect/reserve-effect.js';
import type { TransitionCommand } from '../../src/ledger/effect/transition-command.js';
import { sha256 } from '../../src/ledger/encoding.js';
import { publishEvent } from '../../src/ledger/event/publish-event.js';
import type { RegistrationRow } from '../../src/ledger/identity/records.js';
import type { TableName, Tables } from '../../src/ledger/tables.js';
import type { Caller, EffectState } from '../../src/ledger/types.js';
import { ConnectionPool } from '../../src/store/connection-pool.js';
import { PgReader } from '../../src/store/pg-reader.js';
import { insertDomain, insertHead } from '../../src/store/domain-statements.js';
import { writeStatements } from '../../src/store/write-statements.js';
import { createTestDatabase, type TestDatabase } from './postgres.js';

export const DOMAIN = 'acme.test';
export const SERVICE_DOMAIN = 'surety.test';
export const AUDIENCE = 'spiffe://surety.test/surety';
export const SINK = 'bank';
const YEAR = 365n * 86_400n * 1_000_000n;

/** Lanes and a reader of one replica. */
export interface Replica {
  readonly lanes: Lanes;
  readonly reader: PgReader;
  close(): Promise<void>;
}

/** A domain with a harness, executors and a reconciler, on a database of its own. */
export interface EffectWorld {
  readonly database: TestDatabase;
  readonly admin: pg.Client;
  /** Another replica on the same database; `url` to go through a proxy, `fault` as SURETY_FAULT, `role` to be taken. */
  replica(options?: {
    url?: string;
    role?: string;
    fault?: string;
    batchLimit?: number;
    queueLimit?: number;
  }): Replica;
  /** Inserts rows as the migrating role. */
  seed<T extends TableName>(table: T, rows: readonly Tables[T][]): Promise<void>;
  close(): Promise<void>;
}

export function callerOf(spiffeId: string): Caller {
  return {
    spiffeId,
    trustDomain: new URL(spiffeId.replace('spiffe:', 'https:')).hostname,
    leafDigest: sha256(`leaf of ${spiffeId}`),
    keyThumbprint: `leaf key of ${spiffeId}`,
    notAfter: nowMicros() + YEAR,
  };
}

export const HARNESS = callerOf('spiffe://acme.test/harness/planner');
export const EXECUTOR_A = callerOf('spiffe://acme.test/executor/payments-a');
export const EXECUTOR_B = callerOf('spiffe://acme.test/executor/payments-b');
export const RECONCILER = callerOf('spiffe://acme.test/reconciler/bank');

export function nowMicros(): bigint {
  return BigInt(Date.now()) * 1000n;
}

export function freshId(prefix: string): string {
  return `${prefix}_${randomBytes(12).toString('hex')}`;
}

export async function openWorld(): Promise<EffectWorld> {
  const database = await createTestDatabase();
  const admin = new pg.Client({ connectionString: database.url });
  await admin.connect();
  const replicas: Replica[] = [];
  const world: EffectWorld = {
    database,
    admin,
    replica(options = {}) {
      const settings = {
        url: options.url ?? database.serviceUrl,
        applicationName: 'surety-test',
        ...(options.role === undefined ? {} : { role: options.role }),
      };
      const pool = new ConnectionPool(settings, 4);
      const lanes = new Lanes({
        pool,
        codec: auditCodec,
        faults: new Faults(options.fault === undefined ? undefined : parseFault(options.fault)),
        observer: SILENT_OBSERVER,
        laneId: freshId('lane'),
        queueLimit: options.queueLimit ?? 10_000,
        batchLimit: options.batchLimit ?? 64,
      });
      const reader = new PgReader(settings, 2, auditCodec);
      const replica = {
        lanes,
        reader,
        close: async () => {
          await lanes.drain();
          await pool.close();
          await reader.close();
        },
      };
      replicas.push(replica);
      return replica;
    },
    async seed(table, rows) {
      const changes = rows.map((after) => ({ table, before: undefined, after }));
      const log = {
        rows: changes,
        head: undefined,
        domain: undefined,
        createdDomains: [],
        serviceLimit: undefined,
      };
      for (const { text, values } of writeStatements(DOMAIN, log))
        await admin.query(text, [...(values ?? [])]);
    },
    async close() {
      await Promise.all(replicas.map((replica) => replica.close()));
      await admin.end();
      await database.drop();
    },
  };
  await seedDomain(world);
  return world;
}

async function seedDomain(world: EffectWorld): Promise<void> {
  const { admin } = world;
  await admin.query('UPDATE service_state SET audience = $1, service_domain_id = $2', [
    AUDIENCE,
    SERVICE_DOMAIN,
  ]);
  for (const domainId of [SERVICE_DOMAIN, DOMAIN]) {
    const row = {
      status: 'active',
      policyRevision: 1n,
      revocationEpoch: 1n,
      frozen: false,
      freezeReason: null,
      allowStanding: true,
      limits: DEFAULT_LIMITS,
      revision: 1n,
      createdAt: nowMicros(),
    } as const;
    for (const { text, values } of [insertDomain(domainId, row), insertHead(domainId, row.createdAt)]) {
      await admin.query(text, [...(values ?? [])]);
    }
  }
  await world.seed('sinks', [
    {
      sink: SINK,
      authoritySystems: ['bank-ledger'],
      sendWindow: 60_000_000n,
      settleTime: 60_000_000n,
      ...ADMITS_ALL,
      frozen: false,
      freezeReason: null,
      revision: 1n,
    },
  ]);
  await world.seed('principals', [{ principalId: 'paula', status: 'active', revision: 1n }]);
  await world.seed('harnesses', [
    {
      harnessId: 'planner',
      ownerKind: 'principal',
      ownerId: 'paula',
      assurance: 'attested',
      credentialEpoch: 1n,
      status: 'active',
      revision: 1n,
    },
  ]);
  await world.seed('callers', [
    { spiffeId: HARNESS.spiffeId, kind: 'harness', refId: 'planner' },
    { spiffeId: EXECUTOR_A.spiffeId, kind: 'executor', refId: EXECUTOR_A.spiffeId },
    { spiffeId: EXECUTOR_B.spiffeId, kind: 'executor', refId: EXECUTOR_B.spiffeId },
    { spiffeId: RECONCILER.spiffeId, kind: 'reconciler', refId: RECONCILER.spiffeId },
  ]);
  await world.seed('credentials', [
    {
      credentialId: 'planner-1',
      harnessId: 'planner',
      credentialEpoch: 1n,
      spiffeId: HARNESS.spiffeId,
      binding: 'spiffe_id',
      certificateDigest: null,
      notBefore: 0n,
      expiresAt: nowMicros() + YEAR,
      status: 'active',
      revision: 1n,
    },
  ]);
  await world.seed('entitlements', [
    {
      entitlementId: 'ent-1',
      principalId: 'paula',
      action: 'refund',
      resource: '*',
      policyRevision: 1n,
      expiresAt: nowMicros() + YEAR,
      revokedAt: null,
      revision: 1n,
    },
    {
      entitlementId: 'ent-2',
      principalId: 'paula',
      action: 'effect.cancel',
      resource: '*',
      policyRevision: 1n,
      expiresAt: nowMicros() + YEAR,
      revokedAt: null,
      revision: 1n,
    },
  ]);
}

/** A grant for refunds of any of these orders. */
export async function seedGrant(world: EffectWorld, overrides: Partial<GrantRow> = {}): Promise<GrantRow> {
  const grant: GrantRow = {
    grantId: freshId('grant'),
    actorKind: 'principal',
    actorId: 'paula',
    harnessId: 'planner',
    actions: ['refund'],
    resources: ['order-1184', 'order-2'],
    inputSources: ['crm'],
    outputSinks: [SINK],
    dataClasses: [2],
    maxUses: 100_000n,
    uses: 0n,
    repeatable: false,
    expiresAt: nowMicros() + YEAR,
    revokedAt: null,
    policyRevision: 1n,
    credentialEpoch: 1n,
    revision: 1n,
    ...overrides,
  };
  await world.seed('grants', [grant]);
  return grant;
}

/** Publishes an event of the harness through the lane. */
export async function publish(replica: Replica, eventId = freshId('event')): Promise<string> {
  const outcome = await replica.lanes.submit(publishEvent, {
    domainId: DOMAIN,
    commandId: freshId('cmd'),
    caller: HARNESS,
    eventId,
    type: 'task.assigned',
    recipientHarnessIds: [],
    classification: 2,
    payloadDigest: sha256(`payload of ${eventId}`),
    effectDeadline: null,
    parentEventId: null,
    origin: {
      kind: 'human_input',
      sourceId: 'ticket-7',
      sourceDigest: sha256('ticket'),
      observedAt: nowMicros(),
      principalId: 'paula',
      harnessId: 'planner',
    },
    allowedSinks: ['*'],
  } as never);
  if (!outcome.ok) throw new Error(`publish: ${outcome.refusal.reason}`);
  return eventId;
}

/** A reservation of a refund. */
export function reservation(
  eventId: string,
  grantId: string,
  overrides: Partial<ReserveEffectCommand> = {},
): ReserveEffectCommand {
  return {
    domainId: DOMAIN,
    commandId: freshId('cmd'),
    caller: HARNESS,
    eventId,
    grantId,
    action: 'refund',
    resource: 'order-1184',
    inputSource: 'crm',
    outputSink: SINK,
    dataClass: 2,
    requestDigest: sha256(`request for ${eventId}`),
    effectKey: '',
    repeatable: false,
    reservationTtl: null,
    executionDeadline: null,
    effectId: freshId('eff'),
    decisionId: freshId('dec'),
    ...overrides,
  };
}

export function reserve(
  replica: Replica,
  command: ReserveEffectCommand,
): Promise<Outcome<ReserveEffectReply>> {
  return replica.lanes.submit(reserveEffect, command);
}

/** A registration, standing for the sink unless said otherwise. */
export async function seedRegistration(
  world: EffectWorld,
  caller: Caller,
  overrides: Partial<RegistrationRow> = {},
): Promise<RegistrationRow> {
  const reconciler = caller.spiffeId.includes('/reconciler/');
  const registration: RegistrationRow = {
    registrationId: freshId('reg'),
    workloadId: reconciler ? 'effect-system:bank-ledger' : 'payments',
    role: reconciler ? 'effect_reconciler' : 'effect_executor',
    recipientScope: '*',
    processId: '4711',
    processStartTime: nowMicros(),
    sessionId: freshId('session'),
    spiffeId: caller.spiffeId,
    certificateBinding: 'spiffe_id',
    certificateDigest: null,
    proofKeyThumbprint: freshId('key'),
    credentialEpoch: 1n,
    revocationEpoch: 1n,
    parentEventId: null,
    grantId: null,
    sinks: [SINK],
    status: 'active',
    issuedAt: nowMicros(),
    expiresAt: nowMicros() + YEAR,
    renewableUntil: null,
    firstIssuedAt: nowMicros(),
    possessionDigest: sha256('possession'),
    updatedAt: nowMicros(),
    ...overrides,
  };
  await world.seed('registrations', [registration]);
  await world.seed('registration_versions', [
    {
      registrationId: registration.registrationId,
      credentialEpoch: registration.credentialEpoch,
      role: registration.role,
      spiffeId: registration.spiffeId,
      certificateDigest: registration.certificateDigest,
      proofKeyThumbprint: registration.proofKeyThumbprint,
      status: registration.status,
      possessionJws: null,
      storedAt: nowMicros(),
    },
  ]);
  return registration;
}

/** Evidence whose bytes are its JSON: the ledger takes bytes as they are. */
export function evidence<K extends EvidenceKind>(fields: EvidenceFields[K]): Evidence<K> {
  const bytes = Buffer.from(
    JSON.stringify(fields, (_, value) => (typeof value === 'bigint' ? `${value}` : value)),
  );
  return { bytes, digest: sha256(bytes), fields };
}

/** A transition as the rpc layer would hand it over: the signature has verified. */
export function transitionOf<K extends EvidenceKind>(
  caller: Caller,
  registration: RegistrationRow,
  effect: EffectRow,
  to: EffectState,
  proofOf: Evidence<K>,
  overrides: Partial<TransitionCommand['proof']['statement']> = {},
): TransitionCommand<K> {
  const statement = {
    audience: AUDIENCE,
    incarnation: 1n,
    domainId: DOMAIN,
    registrationId: registration.registrationId,
    workloadId: registration.workloadId,
    role: registration.role,
    processId: registration.processId,
    processStart: registration.processStartTime,
    sessionId: registration.sessionId,
    credentialEpoch: registration.credentialEpoch,
    revocationEpoch: registration.revocationEpoch,
    parentEventId: effect.eventId,
    grantId: effect.grantId,
    effectId: effect.effectId,
    fence: effect.fence,
    fromState: effect.state,
    toState: to,
    evidenceDigest: proofOf.digest,
    issuedAt: nowMicros(),
    nonce: randomBytes(24).toString('base64url'),
    ...overrides,
  };
  const bytes = Buffer.from(
    JSON.stringify(statement, (_, value) => (typeof value === 'bigint' ? `${value}` : value)),
  );
  return {
    domainId: DOMAIN,
    commandId: freshId('cmd'),
    caller,
    effectId: effect.effectId,
    evidence: proofOf,
    proof: {
      statement,
      keyThumbprint: registration.proofKeyThumbprint,
      statementDigest: sha256(bytes),
      // A token in form alone: the lanes get it verified.
      proofBytes: Buffer.from(`e30.${bytes.toString('base64url')}.c2ln`, 'latin1'),
      encoding: 'jws',
    },
  };
}

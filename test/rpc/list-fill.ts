import { ObjectType } from '../../src/gen/surety/provenance/v1/record_pb.js';
import { DEFAULT_LIMITS } from '../../src/ledger/admission/limits.js';
import { reserveEffect } from '../../src/ledger/effect/reserve-effect.js';
import { sha256 } from '../../src/ledger/encoding.js';
import type { ProvenanceRow } from '../../src/ledger/provenance/records.js';
import type { RegistrationRow } from '../../src/ledger/identity/records.js';
import { MAX_STEPS } from '../../src/ledger/provenance/derivation.js';
import { insertDomain, insertHead } from '../../src/store/domain-statements.js';
import { FIXTURE_NOW } from '../support/ledger-fixture.js';
import {
  EXECUTOR_B,
  freshId,
  nowMicros,
  publish,
  reservation,
  seedGrant,
  SINK,
} from '../support/effect-world.js';
import { GraphRows } from '../ledger/provenance/graph-rows.js';
import { eventRecord } from '../ledger/provenance/provenance-fixture.js';
import type { ServiceWorld } from './effect-service-world.js';

// How the lists are filled that are not plain rows of one table.

const number = (i: number): string => String(i).padStart(5, '0');

/** Domains, large ones with more sinks than are shown. */
export async function addDomains(
  { world }: ServiceWorld,
  numbers: readonly number[],
  large: boolean,
): Promise<void> {
  for (const i of numbers) {
    const domainId = `${large ? 'l' : 'k'}${number(i)}.test`;
    await addDomain(world.admin, domainId);
    if (!large) continue;
    await world.admin.query(
      `INSERT INTO sinks (domain_id, sink, authority_systems, send_window, settle_time, frozen, freeze_reason, revision)
       SELECT $1, lpad(i::text, 256, 's'), ARRAY(SELECT lpad(j::text, 256, 'a') FROM generate_series(1, 16) AS j),
         60000000, 60000000, true, repeat('r', 512), 1 FROM generate_series(1, 300) AS i`,
      [domainId],
    );
  }
}

/** A domain with nothing in it. */
export async function addDomain(admin: ServiceWorld['world']['admin'], domainId: string): Promise<void> {
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

/** Registrations that stand; large ones name as many sinks as one may. */
export async function addWorkloads(
  { world }: ServiceWorld,
  numbers: readonly number[],
  large: boolean,
): Promise<void> {
  const proofKeyThumbprint = freshId('key');
  await world.seed('proof_keys', [
    { thumbprint: proofKeyThumbprint, publicJwk: '{}', firstSeenAt: nowMicros() },
  ]);
  const row = (i: number): RegistrationRow => ({
    ...{
      registrationId: `${large ? 'l' : 'k'}-${number(i)}`,
      workloadId: 'payments',
      role: 'effect_executor',
    },
    ...{ recipientScope: '*', processId: '1', processStartTime: 1n, sessionId: 's', proofKeyThumbprint },
    ...{ spiffeId: EXECUTOR_B.spiffeId, certificateBinding: 'spiffe_id', certificateDigest: null },
    ...{ credentialEpoch: 1n, revocationEpoch: 1n, parentEventId: null, grantId: null, status: 'active' },
    sinks: large ? Array.from({ length: 64 }, (_, j) => `${j}-`.padEnd(256, 's')) : [SINK],
    ...{ issuedAt: 1n, expiresAt: nowMicros(), renewableUntil: null, firstIssuedAt: 1n, updatedAt: 1n },
    possessionDigest: sha256('possession'),
  });
  await world.seed('registrations', numbers.map(row));
}

/** Effects of one event and one grant; large ones with a resource that is longer than a reservation takes it. */
export async function reserveMany(
  service: ServiceWorld,
  numbers: readonly number[],
  large: boolean,
): Promise<void> {
  const { world, replica } = service;
  const { grantId } = await seedGrant(world);
  const eventId = await publish(replica);
  const outcomes = await Promise.all(
    numbers.map(() =>
      replica.lanes.submit(
        reserveEffect,
        reservation(eventId, grantId, { effectKey: freshId('key'), requestDigest: sha256(freshId('r')) }),
      ),
    ),
  );
  for (const outcome of outcomes) if (!outcome.ok) throw new Error(outcome.refusal.reason);
  if (!large) return;
  await service.tamper("UPDATE effects SET resource = repeat('r', 20000) WHERE event_id = $1", [eventId]);
}

/** A domain with nothing but a log, that nobody verifies. */
export const LARGE_LOG = 'large-log.test';

/** Entries; large ones are larger than any entry is. */
export async function addLog(
  service: ServiceWorld,
  numbers: readonly number[],
  large: boolean,
): Promise<void> {
  if (!large) return void (await Promise.all(numbers.map(() => publish(service.replica))));
  const { admin } = service.world;
  await addDomain(admin, LARGE_LOG);
  await admin.query(
    `INSERT INTO audit_entries (domain_id, seq, entry, leaf_hash, chain_hash)
     SELECT $1, seq, decode(repeat(md5(seq::text), 300), 'hex'), sha256(''), sha256('')
     FROM generate_series(1, $2::integer) AS seq`,
    [LARGE_LOG, numbers.length],
  );
  await admin.query('UPDATE domain_heads SET seq = $2 WHERE domain_id = $1', [LARGE_LOG, numbers.length]);
}

/** The object whose versions are listed. */
export const VERSIONED = { objectType: ObjectType.ARTIFACT, objectId: 'versioned' };
let newest: ProvenanceRow | undefined;

/** Versions, each behind the last one. */
export async function addVersions(
  { world }: ServiceWorld,
  numbers: readonly number[],
  large: boolean,
): Promise<void> {
  const rows: ProvenanceRow[] = [];
  for (const _ of numbers) {
    newest = eventRecord({
      ...{ objectType: 'artifact', objectId: VERSIONED.objectId, version: (newest?.version ?? 0n) + 1n },
      ...{ predecessorDigest: newest?.provenanceDigest ?? null },
      allowedSinks: large ? Array.from({ length: 64 }, (_, j) => `${j}-`.padEnd(256, 's')) : [],
    });
    rows.push(newest);
  }
  await world.seed('provenance_records', rows);
}

/** What everything in the lineage is made of. */
export const LINEAGE_ROOT = 'lineage-root';
const graph = new GraphRows();

/** Records that are made of the root; large ones of many long steps. */
export async function addLineage(
  { world }: ServiceWorld,
  numbers: readonly number[],
  large: boolean,
): Promise<void> {
  const added = new GraphRows();
  if (graph.records.size === 0) {
    graph.origin(LINEAGE_ROOT);
    await graph.store(world);
  }
  added.records.set(LINEAGE_ROOT, graph.get(LINEAGE_ROOT));
  const text = 'x'.repeat(512);
  const steps = Array.from({ length: MAX_STEPS }, (_, i) => ({
    ...{ kind: 'model', operation: text, implementation: text, executor: text, implementationVersion: '1' },
    ...{
      inputDigests: [],
      outputDigest: Buffer.alloc(32, i),
      startedAt: FIXTURE_NOW,
      completedAt: FIXTURE_NOW,
    },
  })) as never;
  for (const i of numbers) {
    added.derived(`made-${large ? 'l' : 'k'}-${i}`, [LINEAGE_ROOT], large ? { steps } : {});
  }
  added.records.delete(LINEAGE_ROOT);
  await added.store(world);
}

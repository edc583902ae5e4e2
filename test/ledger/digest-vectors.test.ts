import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { actionDigest } from '../../src/ledger/action/action-digest.js';
import { chainHash, genesisHash, leafHash } from '../../src/ledger/audit/chain.js';
import { effectIdentity } from '../../src/ledger/effect/effect-identity.js';
import { effectKeyDigest } from '../../src/ledger/effect/effect-key.js';
import { canonicalDigest, type Part, sha256 } from '../../src/ledger/encoding.js';
import { eventDigest } from '../../src/ledger/event/event-digest.js';
import {
  type ProvenanceContent,
  provenanceDigest,
  stepsDigest,
  type StepContent,
} from '../../src/ledger/provenance/provenance-digest.js';
import type { ObjectType, OriginKind, StepKind } from '../../src/ledger/provenance/records.js';
import { nonceKey } from '../../src/ledger/replay/nonce-key.js';
import type { DataClass } from '../../src/ledger/types.js';

// The vectors are made by scripts/make-testvectors.mjs, which uses nothing of src.

type WirePart = Record<string, string | boolean | WirePart[]>;
interface DigestVector {
  name: string;
  label: string;
  parts: WirePart[];
  encoded_hex: string;
  sha256_hex: string;
}
interface ChainVector {
  name: string;
  domain_id: string;
  entry_hex: string;
  leaf_hash_hex: string;
  chain_hash_hex: string;
}
interface WireStep {
  ordinal: number;
  kind: StepKind;
  operation: string;
  implementation: string;
  implementation_version: string;
  executor: string;
  input_digests_hex: string[];
  output_digest_hex: string;
  started_micros: string;
  completed_micros: string;
}
interface WireRecord {
  object_type: ObjectType;
  object_id: string;
  version: string;
  content_digest_hex: string;
  classification: DataClass;
  policy_revision: string;
  allowed_sinks: string[];
  tainted: boolean;
  reviewed: boolean;
  scan_pending: boolean;
  predecessor_digest_hex: string | null;
  origin: {
    kind: OriginKind;
    source_id: string;
    source_digest_hex: string;
    observed_micros: string;
    principal_id: string | null;
    harness_id: string | null;
  } | null;
  parent_digests_hex: string[];
  steps: WireStep[];
  recorded_micros: string;
}
interface RecordVector {
  name: string;
  domain_id: string;
  record: WireRecord;
  encoded_hex: string;
  provenance_digest_hex: string;
  steps_digest_hex?: string;
}

function load<T>(file: string): T[] {
  return JSON.parse(readFileSync(new URL(`../../testvectors/${file}`, import.meta.url), 'utf8')) as T[];
}

const hex = (text: string) => Buffer.from(text, 'hex');

function partOf(wire: WirePart): Part {
  const [[kind, value] = ['absent', true]] = Object.entries(wire);
  switch (kind) {
    case 'text':
      return value as string;
    case 'bytes_hex':
      return hex(value as string);
    case 'integer':
      return BigInt(value as string);
    case 'boolean':
      return value as boolean;
    case 'list':
      return (value as WirePart[]).map(partOf);
    default:
      return undefined;
  }
}

function contentOf(record: WireRecord): ProvenanceContent {
  const { origin } = record;
  return {
    objectType: record.object_type,
    objectId: record.object_id,
    version: BigInt(record.version),
    contentDigest: hex(record.content_digest_hex),
    classification: record.classification,
    policyRevision: BigInt(record.policy_revision),
    allowedSinks: record.allowed_sinks,
    tainted: record.tainted,
    reviewed: record.reviewed,
    scanPending: record.scan_pending,
    predecessorDigest: record.predecessor_digest_hex === null ? null : hex(record.predecessor_digest_hex),
    originKind: origin?.kind ?? null,
    sourceId: origin?.source_id ?? null,
    sourceDigest: origin ? hex(origin.source_digest_hex) : null,
    observedAt: origin ? BigInt(origin.observed_micros) : null,
    principalId: origin?.principal_id ?? null,
    harnessId: origin?.harness_id ?? null,
    parentDigests: record.parent_digests_hex.map(hex),
    recordedAt: BigInt(record.recorded_micros),
  };
}

function stepOf(step: WireStep): StepContent {
  return {
    ordinal: step.ordinal,
    kind: step.kind,
    operation: step.operation,
    implementation: step.implementation,
    implementationVersion: step.implementation_version,
    executor: step.executor,
    inputDigests: step.input_digests_hex.map(hex),
    outputDigest: hex(step.output_digest_hex),
    startedAt: BigInt(step.started_micros),
    completedAt: BigInt(step.completed_micros),
  };
}

describe('the canonical encoding', () => {
  test.each(load<DigestVector>('digests.json').map((vector) => [vector.name, vector] as const))(
    '%s',
    (_, { label, parts, encoded_hex, sha256_hex }) => {
      expect(canonicalDigest(label, parts.map(partOf)).toString('hex')).toBe(sha256_hex);
      expect(sha256(hex(encoded_hex)).toString('hex')).toBe(sha256_hex);
    },
  );

  test('no two vectors have the same digest', () => {
    const digests = load<DigestVector>('digests.json').map((vector) => vector.sha256_hex);
    expect(new Set(digests).size).toBe(digests.length);
  });
});

describe('each digest is made of the parts that its vector names', () => {
  const vectors = new Map(load<DigestVector>('digests.json').map((vector) => [vector.name, vector]));
  const parts = (name: string) => vectors.get(name)?.parts.map(partOf) as never[];
  const expected = (name: string) => vectors.get(name)?.sha256_hex;

  test('effect identity', () => {
    const [domainId, eventId, sink, requestDigest] = parts('effect identity');
    const digest = effectIdentity({ domainId, eventId, sink, requestDigest } as never);
    expect(digest.toString('hex')).toBe(expected('effect identity'));
  });

  test('action', () => {
    const [domainId, actionId, idempotencyKey, source, sourceRef, type, toolName, payloadDigest] =
      parts('action');
    const identity = { actionId, idempotencyKey, source, sourceRef, type, toolName, payloadDigest } as never;
    expect(actionDigest(domainId as never, identity).toString('hex')).toBe(expected('action'));
  });

  test('effect keys', () => {
    const [eventId, resource] = parts('effect key, default');
    const byDefault = effectKeyDigest({ effectKey: '', eventId, resource } as never);
    expect(byDefault.toString('hex')).toBe(expected('effect key, default'));
    const [effectKey] = parts('effect key, explicit');
    const explicit = effectKeyDigest({ effectKey, eventId, resource } as never);
    expect(explicit.toString('hex')).toBe(expected('effect key, explicit'));
  });

  test('replay nonce', () => {
    const [spiffeId, scope, nonce] = parts('replay nonce') as unknown as [string, string, string];
    expect(nonceKey(spiffeId, scope, nonce).toString('hex')).toBe(expected('replay nonce'));
  });

  test('event', () => {
    const [
      domainId,
      eventId,
      type,
      originHarnessId,
      recipientHarnessIds,
      classification,
      payloadDigest,
      ,
      ...rest
    ] = parts('event');
    const [policyRevision, parentEventId, hops, publishedAt, objectType, provenance] = rest;
    const event = {
      eventId,
      type,
      originHarnessId,
      recipientHarnessIds,
      classification: Number(classification),
      payloadDigest,
      effectDeadline: null,
      policyRevision,
      parentEventId,
      hops: Number(hops),
      publishedAt,
      objectType,
      provenanceDigest: provenance,
    };
    expect(eventDigest(domainId as unknown as string, event as never).toString('hex')).toBe(
      expected('event'),
    );
  });
});

describe('provenance digests', () => {
  test.each(load<RecordVector>('provenance.json').map((vector) => [vector.name, vector] as const))(
    '%s',
    (_, { domain_id, record, encoded_hex, provenance_digest_hex, steps_digest_hex }) => {
      const steps = record.steps.map(stepOf);
      if (steps.length > 0) expect(stepsDigest(steps).toString('hex')).toBe(steps_digest_hex);
      expect(provenanceDigest(domain_id, contentOf(record), steps).toString('hex')).toBe(
        provenance_digest_hex,
      );
      // The order in which the database gives the steps means nothing.
      expect(provenanceDigest(domain_id, contentOf(record), steps.reverse()).toString('hex')).toBe(
        provenance_digest_hex,
      );
      expect(sha256(hex(encoded_hex)).toString('hex')).toBe(provenance_digest_hex);
    },
  );
});

test('the chain of a log', () => {
  const [genesis, ...entries] = load<ChainVector>('digests-chain.json');
  let chain = genesisHash(genesis?.domain_id ?? '');
  expect(chain.toString('hex')).toBe(genesis?.chain_hash_hex);
  for (const { entry_hex, leaf_hash_hex, chain_hash_hex } of entries) {
    const leaf = leafHash(hex(entry_hex));
    chain = chainHash(chain, leaf);
    expect([leaf.toString('hex'), chain.toString('hex')]).toEqual([leaf_hash_hex, chain_hash_hex]);
  }
  expect(entries.length).toBeGreaterThan(0);
});

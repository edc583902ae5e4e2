import { NO_COUNTS } from '../../src/ledger/admission/records.js';
import { callerActor, harnessActor } from '../../src/ledger/admission/admit-call.js';
import { DEFAULT_LIMITS } from '../../src/ledger/admission/limits.js';
import { genesisHash } from '../../src/ledger/audit/chain.js';
import type { AuditCodec, AuditFields, DomainHead } from '../../src/ledger/audit/records.js';
import type { DomainRow, OperatorRow } from '../../src/ledger/authority/records.js';
import { INDEXES, type IndexName } from '../../src/ledger/indexes.js';
import { type KeyPart, keyText, type TableName, type Tables } from '../../src/ledger/tables.js';
import { WorkingSet } from '../../src/ledger/working-set.js';

/** Microseconds: 2026-01-01T00:00:00Z. */
export const FIXTURE_NOW = 1_767_225_600_000_000n;
export const FIXTURE_DOMAIN = 'acme.test';
export const FIXTURE_SERVICE_DOMAIN = 'surety.test';

/** What a working set holds. Whatever is not named here was not gathered: reading it throws. */
export interface WorkingSetInput {
  readonly domainId?: string;
  readonly now?: bigint;
  readonly incarnation?: bigint;
  readonly domain?: Partial<DomainRow>;
  readonly head?: Partial<DomainHead>;
  readonly codec?: AuditCodec;
  readonly rows?: { readonly [T in TableName]?: readonly Tables[T][] };
  /** Keys that were asked for and are not there. */
  readonly absent?: { readonly [T in TableName]?: readonly (readonly KeyPart[])[] };
  /** Index keys that were asked for; the rows above that stand under them are found. */
  readonly indexes?: { readonly [I in IndexName]?: readonly (readonly KeyPart[])[] };
  readonly platformOperators?: Readonly<Record<string, OperatorRow | undefined>>;
  readonly otherDomains?: Readonly<Record<string, boolean>>;
}

/** A working set as a gathering would leave it, made by hand. */
export function workingSet(input: WorkingSetInput = {}): WorkingSet {
  const domainId = input.domainId ?? FIXTURE_DOMAIN;
  const now = input.now ?? FIXTURE_NOW;
  const incarnation = input.incarnation ?? 1n;
  const set = new WorkingSet({
    domainId,
    now,
    facts: {
      incarnation,
      audience: `spiffe://${FIXTURE_SERVICE_DOMAIN}/surety`,
      serviceDomainId: FIXTURE_SERVICE_DOMAIN,
    },
    codec: input.codec ?? jsonCodec,
    head: {
      seq: 0n,
      chainHash: genesisHash(domainId),
      incarnation,
      fenceCounter: 0n,
      lastTime: 0n,
      counters: NO_COUNTS,
      ...input.head,
    },
    domain: {
      status: 'active',
      policyRevision: 1n,
      revocationEpoch: 1n,
      frozen: false,
      freezeReason: null,
      allowStanding: false,
      limits: DEFAULT_LIMITS,
      revision: 1n,
      createdAt: 0n,
      ...input.domain,
    },
  });
  for (const [table, rows] of entries(input.rows)) for (const row of rows) set.loadRow(table, row);
  for (const [table, keys] of entries(input.absent)) for (const key of keys) set.markKey(table, key);
  markCounters(set, input);
  for (const [name, keys] of entries(input.indexes)) for (const key of keys) loadIndex(set, input, name, key);
  for (const [id, row] of Object.entries(input.platformOperators ?? {})) set.loadPlatformOperator(id, row);
  for (const [id, exists] of Object.entries(input.otherDomains ?? {})) set.loadOtherDomain(id, exists);
  return set;
}

/** What callers and sinks are counted by comes with them, as in a gathering; no call was counted unless rows say so. */
function markCounters(set: WorkingSet, { rows, absent, platformOperators }: WorkingSetInput): void {
  for (const { harnessId } of rows?.harnesses ?? []) set.markKey('actor_counters', [harnessActor(harnessId)]);
  const callers = [
    ...(rows?.callers ?? []).map(({ spiffeId }) => spiffeId),
    ...(rows?.operators ?? []).map(({ spiffeId }) => spiffeId),
    ...(absent?.callers ?? []).map(([spiffeId]) => String(spiffeId)),
    ...Object.keys(platformOperators ?? {}),
  ];
  for (const spiffeId of callers) set.markKey('actor_counters', [callerActor(spiffeId)]);
  for (const { sink } of rows?.sinks ?? []) set.markKey('sink_counters', [sink]);
}

function loadIndex(set: WorkingSet, input: WorkingSetInput, name: IndexName, key: readonly KeyPart[]): void {
  const { table, keyOf } = INDEXES[name];
  set.markIndex(name, key);
  for (const row of input.rows?.[table] ?? []) {
    if ((keyOf as (row: object) => string | undefined)(row) === keyText(key)) set.loadIndexed(name, key, row);
  }
}

function entries<K extends string, V>(record: { readonly [P in K]?: V } | undefined): [K, V][] {
  return Object.entries(record ?? {}) as [K, V][];
}

/** Entries as JSON, for tests of decisions: what was appended can be read back by {@link decodeJsonEntry}. */
export const jsonCodec: AuditCodec = {
  encode: (fields) => Buffer.from(JSON.stringify(fields, replaceBig)),
  decodeEffect: (entry) => {
    const { effect } = decodeJsonEntry(entry);
    if (!effect) return undefined;
    // Integers came as text.
    const { step, fence } = effect as unknown as { step: string; fence: string };
    return { ...effect, step: BigInt(step), fence: BigInt(fence) };
  },
};

/** An entry of {@link jsonCodec}; integers and digests come as text. */
export function decodeJsonEntry(entry: Uint8Array): AuditFields {
  return JSON.parse(Buffer.from(entry).toString('utf8')) as AuditFields;
}

/** `JSON.stringify` asks a Buffer for its own form first; only the original value tells a digest from an object. */
function replaceBig(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const original = this[key];
  if (original instanceof Uint8Array) return Buffer.from(original).toString('hex');
  return typeof value === 'bigint' ? value.toString() : value;
}

import type { DescMethodUnary } from '@bufbuild/protobuf';
import { ActionService } from '../../src/gen/surety/action/v1/action_service_pb.js';
import { AuditService } from '../../src/gen/surety/audit/v1/audit_service_pb.js';
import { AdminService } from '../../src/gen/surety/authority/v1/admin_service_pb.js';
import { EffectService } from '../../src/gen/surety/effect/v1/effect_service_pb.js';
import { WorkloadService } from '../../src/gen/surety/identity/v1/workload_service_pb.js';
import {
  LineageDirection,
  ProvenanceService,
} from '../../src/gen/surety/provenance/v1/provenance_service_pb.js';
import { ObjectType } from '../../src/gen/surety/provenance/v1/record_pb.js';
import { createSigningKey } from '../../src/identity/sign.js';
import { sha256 } from '../../src/ledger/encoding.js';
import type { TableName, Tables } from '../../src/ledger/tables.js';
import { MINUTE } from '../../src/ledger/types.js';
import {
  DOMAIN,
  EXECUTOR_A,
  HARNESS,
  nowMicros,
  RECONCILER,
  SERVICE_DOMAIN,
} from '../support/effect-world.js';
import { addDeadLetters, addReceipts, proposeMany, told as toldAction } from './action-list-fill.js';
import {
  addDomains,
  addLineage,
  addLog,
  addVersions,
  addWorkloads,
  LARGE_LOG,
  LINEAGE_ROOT,
  reserveMany,
  VERSIONED,
} from './list-fill.js';
import { reconcileRequest, type ServiceWorld, type Workload } from './effect-service-world.js';

/** The largest that the contract takes of each. */
export const ID_OCTETS = 256;
export const RESOURCE_OCTETS = 512;
const SPIFFE_ID_OCTETS = 2048;
const SET_SIZE = 64;

/** What a list is asked about, and how it is filled. */
export interface ListCase {
  readonly method: DescMethodUnary;
  /** The domain that is asked; that of the tests unless said. */
  readonly domainId?: string;
  /** The list's filter. */
  readonly request: object;
  /** Filters for which a token of the list is not good; another domain is one of every list's. */
  readonly others: readonly object[];
  /** The field that holds the records. */
  readonly records: string;
  readonly keyOf: (record: never) => unknown;
  /** How the records that come while somebody pages stand: anywhere by their keys, or behind all. */
  readonly grows: 'anywhere' | 'behind';
  /**
   * Adds records, which stand in the order of these numbers where the list grows `anywhere`. `large`: each as large as the
   * contract takes it.
   */
  readonly fill: (world: ServiceWorld, numbers: readonly number[], large: boolean) => Promise<unknown>;
  /** How many large ones: as many as a page may hold, or more than fit into a message. */
  readonly large: number;
  /** The list that the large ones are in, where it is another. */
  readonly largeRequest?: object;
  /** What a page size of 0 means; 100 unless said. */
  readonly defaultPageSize?: number;
  /** The largest page that it gives; 1000 unless said. */
  readonly maxPageSize?: number;
  /** A list by position instead of by token: the last position that the caller has. */
  readonly position?: string;
}

const key = (i: number, large: boolean, octets = ID_OCTETS): string =>
  `${large ? 'l' : 'k'}-${String(i).padStart(5, '0')}`.padEnd(large ? octets : 0, 'x');
const texts = (count: number, octets: number): string[] =>
  Array.from({ length: count }, (_, i) => `${i}-`.padEnd(octets, 'y'));
const later = () => nowMicros() + MINUTE * 60n;

/** A list of records that are rows of a table, by a key. */
function records<T extends TableName>(
  method: DescMethodUnary,
  field: string,
  keyField: string,
  table: T,
  large: number,
  row: (key: (octets?: number) => string, large: boolean) => Tables[T],
): ListCase {
  return {
    method,
    request: {},
    others: [],
    records: field,
    keyOf: (record: Record<string, unknown>) => record[keyField],
    grows: 'anywhere',
    fill: ({ world }, numbers, isLarge) =>
      world.seed(
        table,
        numbers.map((i) => row((octets) => key(i, isLarge, octets), isLarge)),
      ),
    large,
  };
}

const active = { status: 'active', revision: 1n } as const;
const name = 'n'.repeat(ID_OCTETS);
const spiffeId = (id: string): string => `spiffe://acme.test/${id}`;
const SPIFFE_PATH_OCTETS = SPIFFE_ID_OCTETS - spiffeId('').length;
const admin = AdminService.method;
const { jwk, thumbprint } = createSigningKey().publicKey;

const RECORDS: readonly ListCase[] = [
  records(admin.listPrincipals, 'principals', 'principalId', 'principals', 1000, (id) => ({
    ...{ principalId: id(), ...active },
  })),
  records(admin.listGuests, 'guests', 'guestId', 'guests', 1000, (id) => ({
    ...{ guestId: id(), expiresAt: later(), ...active },
  })),
  records(admin.listHarnesses, 'harnesses', 'harnessId', 'harnesses', 1000, (id) => ({
    ...{ harnessId: id(), ownerKind: 'principal', ownerId: 'paula', assurance: 'a'.repeat(64) },
    ...{ credentialEpoch: 1n, ...active },
  })),
  records(admin.listCredentials, 'credentials', 'credentialId', 'credentials', 1000, (id, large) => ({
    ...{ credentialId: id(), harnessId: 'planner', credentialEpoch: 1n, binding: 'spiffe_id' },
    ...{ spiffeId: spiffeId(id(large ? SPIFFE_PATH_OCTETS : 0)), certificateDigest: null },
    ...{ notBefore: 0n, expiresAt: later(), ...active },
  })),
  records(admin.listEntitlements, 'entitlements', 'entitlementId', 'entitlements', 1000, (id) => ({
    ...{ entitlementId: id(), principalId: 'paula', action: name, resource: id(RESOURCE_OCTETS) },
    ...{ policyRevision: 1n, expiresAt: later(), revokedAt: null, revision: 1n },
  })),
  records(admin.listGrants, 'grants', 'grantId', 'grants', 60, (id, large) => {
    const set = (octets: number) => (large ? texts(SET_SIZE, octets) : ['one']);
    return {
      ...{ grantId: id(), actorKind: 'principal', actorId: 'paula', harnessId: 'planner' },
      ...{ actions: set(ID_OCTETS), resources: set(RESOURCE_OCTETS), inputSources: set(ID_OCTETS) },
      ...{ outputSinks: set(ID_OCTETS), dataClasses: [2], maxUses: 1n, uses: 0n, repeatable: false },
      ...{ expiresAt: later(), revokedAt: null, policyRevision: 1n, credentialEpoch: 1n, revision: 1n },
    };
  }),
  records(admin.listOperators, 'operators', 'spiffeId', 'operators', 1000, (id, large) => ({
    ...{ spiffeId: spiffeId(id(large ? SPIFFE_PATH_OCTETS : 0)), signingKeyJwk: jwk, roles: ['ADMIN'] },
    ...{ signingKeyThumbprint: thumbprint, scopeDomainId: null, ...active },
  })),
  records(admin.listOwners, 'owners', 'spiffeId', 'owners', 150, (id, large) => ({
    ...{ spiffeId: spiffeId(id(large ? SPIFFE_PATH_OCTETS : 0)), signingKeyJwk: jwk, ...active },
    ...{ signingKeyThumbprint: thumbprint, sourceScopes: large ? texts(SET_SIZE, ID_OCTETS) : ['*'] },
    typeScopes: large ? texts(SET_SIZE, ID_OCTETS) : ['*'],
  })),
  records(admin.listGateShapes, 'gateShapes', 'gateShapeId', 'gate_shapes', 250, (id, large) => {
    const each = <Value>(value: Value) => Array.from({ length: large ? 32 : 1 }, () => value);
    return {
      ...{ gateShapeId: id(), fieldNames: each('f'.repeat(64)), fieldKinds: each('text' as const) },
      ...{ fieldValues: each(large ? 'v'.repeat(512) : ''), fieldsDigest: sha256(id()), ...active },
    };
  }),
  records(admin.listActionConditions, 'actionConditions', 'actionType', 'action_conditions', 1000, (id) => ({
    ...{ actionType: id(), expression: 'e'.repeat(2048), ...active },
  })),
  records(admin.listSinks, 'sinks', 'sink', 'sinks', 1000, (id, large) => ({
    ...{ sink: id(), authoritySystems: large ? texts(16, 256) : ['bank'], sendWindow: 1_000_000n },
    ...{ settleTime: 0n, frozen: false, freezeReason: null, breakerThreshold: 1, breakerReset: 1_000_000n },
    ...{ unknownCeiling: 1, unknownAge: 1_000_000n, revision: 1n },
  })),
  records(admin.listTools, 'tools', 'toolName', 'tools', 1000, (id) => ({
    ...{ toolName: id(), nonGrantable: false, ...active },
  })),
  records(admin.getAdmissionStatus, 'actors', 'actor', 'actor_counters', 1000, (id, large) => ({
    ...{ actor: `caller:${spiffeId(id(large ? SPIFFE_PATH_OCTETS : 0))}`, minuteStart: 0n, calls: 0 },
    ...{ safetyCalls: 0, windowStart: 0n, windowCalls: 0 },
  })),
];

/** The effect whose history is told, when it is there. */
let told: { readonly effectId: string; readonly reconciler: Workload } | undefined;

async function addSteps(service: ServiceWorld): Promise<void> {
  if (told === undefined) {
    const effect = await service.lose(await service.workload(EXECUTOR_A));
    told = { effectId: effect.effectId, reconciler: await service.workload(RECONCILER) };
    return;
  }
  const { effectId, reconciler } = told;
  const request = await reconcileRequest(reconciler, await service.show(effectId), 'SUCCEEDED');
  await service.call('reconcile', reconciler, request);
}

const lineage = { objectType: ObjectType.ARTIFACT, objectId: LINEAGE_ROOT, version: 1n };
const DESCENDANTS = { ...lineage, direction: LineageDirection.DESCENDANTS };

/** Every list but those of governed actions. */
const OTHERS: readonly ListCase[] = [
  ...RECORDS,
  {
    method: admin.listDomains,
    domainId: SERVICE_DOMAIN,
    request: {},
    others: [],
    records: 'domains',
    keyOf: ({ domainId }: { domainId: string }) => domainId,
    grows: 'anywhere',
    fill: addDomains,
    large: 6,
  },
  {
    method: WorkloadService.method.listWorkloads,
    request: { status: 1 },
    others: [{}, { status: 2 }, { status: 1, spiffeId: HARNESS.spiffeId }],
    records: 'registrations',
    keyOf: ({ spec }: { spec: { registrationId: string } }) => spec.registrationId,
    grows: 'anywhere',
    fill: addWorkloads,
    large: 300,
  },
  {
    method: EffectService.method.listEffects,
    request: { state: 1 },
    others: [{}, { state: 2 }, { state: 1, outputSink: 'bank' }, { state: 1, eventId: 'e' }],
    records: 'effects',
    keyOf: ({ effectId }: { effectId: string }) => effectId,
    grows: 'behind',
    fill: reserveMany,
    large: 250,
  },
  {
    method: EffectService.method.getEffectHistory,
    get request() {
      return { effectId: told?.effectId ?? '' };
    },
    others: [{ effectId: 'eff_other' }],
    records: 'steps',
    keyOf: ({ step }: { step: bigint }) => step,
    grows: 'behind',
    // A step names its effect, its sink, its attempt and who acted: a thousand are some 2 MiB, and no effect has so many.
    fill: (world, _numbers, large) => (large ? Promise.resolve() : addSteps(world)),
    large: 0,
  },
  {
    method: AuditService.method.listEntries,
    request: {},
    others: [],
    records: 'entries',
    keyOf: ({ seq }: { seq: bigint }) => seq,
    grows: 'behind',
    fill: addLog,
    large: 1200,
    largeRequest: { domainId: LARGE_LOG },
    position: 'afterSeq',
  },
  {
    method: ProvenanceService.method.listVersions,
    request: VERSIONED,
    others: [
      { ...VERSIONED, objectId: 'other' },
      { ...VERSIONED, objectType: ObjectType.EVENT },
    ],
    records: 'records',
    keyOf: ({ reference }: { reference: { version: bigint } }) => reference.version,
    grows: 'behind',
    fill: addVersions,
    large: 300,
  },
  {
    method: ProvenanceService.method.getLineage,
    request: DESCENDANTS,
    others: [
      { ...DESCENDANTS, direction: LineageDirection.ANCESTORS },
      { ...DESCENDANTS, maxDepth: 3 },
      { ...DESCENDANTS, version: 0n },
      { ...DESCENDANTS, objectId: 'other' },
    ],
    records: 'nodes',
    keyOf: ({ record }: { record: { reference: { objectId: string } } }) => record.reference.objectId,
    grows: 'anywhere',
    fill: addLineage,
    large: 85,
  },
];

const action = ActionService.method;

/** The lists of governed actions. */
const ACTIONS: readonly ListCase[] = [
  {
    method: action.listActions,
    request: { state: 1 },
    others: [{}, { state: 2 }, { state: 1, source: 's' }, { state: 1, type: 't' }],
    records: 'actions',
    keyOf: ({ actionId }: { actionId: string }) => actionId,
    grows: 'behind',
    fill: proposeMany,
    large: 1000,
  },
  {
    method: action.listReceipts,
    get request() {
      return { actionId: toldAction };
    },
    others: [{ actionId: 'act_other' }],
    records: 'receipts',
    keyOf: ({ receiptKey }: { receiptKey: string }) => receiptKey,
    grows: 'behind',
    fill: addReceipts,
    large: 0,
    maxPageSize: 100,
    defaultPageSize: 20,
  },
  {
    method: action.listEvents,
    get request() {
      return { actionId: toldAction };
    },
    others: [{ actionId: 'act_other' }],
    records: 'events',
    keyOf: ({ eventNumber }: { eventNumber: bigint }) => eventNumber,
    grows: 'behind',
    fill: addReceipts,
    // An event names its action, its receipt and who acted: a thousand are some 3 MiB at their largest, and few have so many.
    large: 0,
  },
  {
    method: action.listDeadLetters,
    request: { failureReason: 1 },
    others: [{}, { failureReason: 2 }],
    records: 'deadLetters',
    keyOf: ({ actionId }: { actionId: string }) => actionId,
    grows: 'behind',
    fill: addDeadLetters,
    large: 600,
  },
];

/** Every list of the contract. */
export const LIST_CASES: readonly ListCase[] = [...OTHERS, ...ACTIONS];

/** What a case asks of: the tests' domain unless it says another. */
export function requestOf({ request, domainId = DOMAIN }: ListCase, over: object = {}): object {
  return { domainId, ...request, ...over };
}

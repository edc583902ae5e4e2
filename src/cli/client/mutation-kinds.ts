import { clone, create, type DescMessage, fromBinary, type Message } from '@bufbuild/protobuf';
import type { Timestamp } from '@bufbuild/protobuf/wkt';
import type { AdminCommand } from '../../gen/surety/authority/v1/command_pb.js';
import { type Limits, LimitsSchema, type Sink } from '../../gen/surety/authority/v1/records_pb.js';
import {
  PossessionStatementSchema,
  RecordStatus,
  type RegistrationSpec,
} from '../../gen/surety/identity/v1/workload_pb.js';
import { decodeBase64url } from '../../identity/base64url.js';
import { DEFAULT_LIMITS, initialLimits } from '../../ledger/admission/limits.js';
import type { Fields } from './message-fields.js';
import type { RecordName, Target } from './record-kinds.js';

/** The cases of a command's oneof. */
export type MutationCase = NonNullable<AdminCommand['mutation']['case']>;

/** What is known besides the record when a command is shown before it is sent. */
export interface Facts {
  /** The domain's. */
  readonly policyRevision: bigint;
  /** The store's clock. */
  readonly now: Timestamp;
  /** Why, as the operator says. */
  readonly reason: string;
}

/** What one mutation is to its client. The rules are the service's: here is only what it changes. */
export interface MutationKind {
  /** One line, for the list. */
  readonly summary: string;
  /** Whether the record must not be there yet. */
  readonly creates: boolean;
  /** The field of the mutation that holds the whole record; undefined where it only names one. */
  readonly record?: string;
  /** The record that it makes or changes. Its id is empty where none is named. */
  readonly target: (mutation: Fields, domainId: string) => Target;
  /** What the service sets in the record, besides its revision; undefined: nothing changes at all. */
  readonly change: (before: Fields, mutation: Fields, facts: Facts) => Fields | undefined;
}

type Change = MutationKind['change'];

/** Makes or changes a record that the mutation holds. */
function put(kind: Target['kind'], summary: string, key: string, change: Change = () => ({})): MutationKind {
  return {
    summary,
    creates: false,
    record: kind,
    target: (mutation) => ({ kind, id: textOf(mutation[kind] as Fields | undefined, key) }),
    change,
  };
}

function textOf(message: Fields | undefined, field: string): string {
  const value = message?.[field];
  return typeof value === 'string' ? value : '';
}

/** Changes a record that the mutation names. */
function change(kind: RecordName, summary: string, key: string, change: Change): MutationKind {
  return {
    summary,
    creates: false,
    target: (mutation) => ({ kind, id: textOf(mutation, key) }),
    change,
  };
}

/** Changes the domain that the command acts in. */
function changeDomain(summary: string, change: Change): MutationKind {
  return { summary, creates: false, target: (_mutation, id) => ({ kind: 'domain', id }), change };
}

/** Makes or changes a registration that a workload proves. */
function prove(summary: string, creates: boolean): MutationKind {
  return {
    summary,
    creates,
    target: (mutation) => ({ kind: 'workload', id: registrationOf(mutation)?.registrationId ?? '' }),
    change: (before, mutation) => ({
      spec: registrationOf(mutation),
      status: before['status'] ?? RecordStatus.ACTIVE,
      proofKeyThumbprint: '',
      updateTime: undefined,
    }),
  };
}

/** The limits that a mutation gives; what is 0 stays. */
function changedLimits({ actorRequestsPerMinute, pendingCeiling, fairnessBurst, maxHops }: Fields): Fields {
  const given = { actorRequestsPerMinute, pendingCeiling, fairnessBurst, maxHops };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== 0));
}

const revokeOnce: Change = ({ revokeTime }, _mutation, { now }) =>
  revokeTime === undefined ? { revokeTime: now } : undefined;

/** Every mutation, by its case. */
export const MUTATION_KINDS: { readonly [Case in MutationCase]: MutationKind } = {
  createDomain: {
    ...change('domain', "makes a domain; a command of the service's own domain", 'domainId', () => ({})),
    creates: true,
    change: (_before, { domainId, allowStandingRegistrations, requestsPerMinute }) => ({
      ...{ domainId, allowStandingRegistrations, status: RecordStatus.ACTIVE },
      ...{ policyRevision: 1n, revocationEpoch: 1n },
      limits: create(
        LimitsSchema,
        initialLimits(Number(requestsPerMinute) || DEFAULT_LIMITS.requestsPerMinute),
      ),
    }),
  },
  updateDomain: changeDomain(
    'suspends or resumes a domain, allows standing registrations in it or not',
    (_before, { status, allowStandingRegistrations }) => ({ status, allowStandingRegistrations }),
  ),
  putSink: put('sink', 'makes or changes a sink', 'sink', (before, { sink }) => {
    const { frozen = false, freezeReason = '' } = before;
    const { breakerThreshold, unknownCeiling } = sink as Sink;
    // What is 0 is the service's default, whatever that is.
    const ceilings = {
      breakerThreshold: breakerThreshold || undefined,
      unknownCeiling: unknownCeiling || undefined,
    };
    return { frozen, freezeReason, ...ceilings };
  }),
  bumpPolicyRevision: changeDomain(
    'makes entitlements, grants and events of the present policy revision stale',
    ({ policyRevision }) => ({ policyRevision: (policyRevision as bigint) + 1n }),
  ),
  bumpRevocationEpoch: changeDomain(
    'makes every registration of a workload stale',
    ({ revocationEpoch }) => ({ revocationEpoch: (revocationEpoch as bigint) + 1n }),
  ),
  setFreeze: {
    ...changeDomain('stops all that would begin', (_before, { frozen }, { reason }) => ({
      frozen,
      freezeReason: frozen === true ? reason : '',
    })),
    target: ({ sink }, domainId) =>
      sink === '' ? { kind: 'domain', id: domainId } : { kind: 'sink', id: String(sink) },
  },
  setLimits: changeDomain("changes a domain's limits; what is 0 stays", ({ limits }, mutation) => ({
    limits: Object.assign(clone(LimitsSchema, limits as Limits), changedLimits(mutation)),
  })),
  setShare: changeDomain(
    "changes a domain's share of the service's limit; by an operator of all domains",
    ({ limits }, { requestsPerMinute }) => ({
      limits: Object.assign(clone(LimitsSchema, limits as Limits), { requestsPerMinute }),
    }),
  ),
  setServiceLimit: changeDomain(
    "changes the service's limit; a command of the service's own domain",
    (_before, { requestsPerMinute }) => ({ serviceRequestsPerMinute: requestsPerMinute }),
  ),
  resetBreaker: {
    ...changeDomain("closes a sink's circuit breaker", () => undefined),
    target: ({ sink }) => ({ kind: 'sink', id: String(sink) }),
  },
  putPrincipal: put('principal', 'makes or changes a principal', 'principalId'),
  putGuest: put('guest', 'makes or changes a guest', 'guestId'),
  putHarness: put(
    'harness',
    'makes a harness, or changes its assurance or status; its owner stays',
    'harnessId',
    ({ credentialEpoch = 1n }) => ({ credentialEpoch }),
  ),
  bumpCredentialEpoch: change(
    'harness',
    "makes a harness's credentials and grants stale",
    'harnessId',
    ({ credentialEpoch }) => ({ credentialEpoch: (credentialEpoch as bigint) + 1n }),
  ),
  createCredential: {
    ...put('credential', 'binds certificates to a harness', 'credentialId', () => ({
      status: RecordStatus.ACTIVE,
      // The harness's, whatever it is by then.
      credentialEpoch: undefined,
    })),
    creates: true,
  },
  revokeCredential: change('credential', 'revokes a credential', 'credentialId', ({ status }) =>
    status === RecordStatus.REVOKED ? undefined : { status: RecordStatus.REVOKED },
  ),
  putEntitlement: put(
    'entitlement',
    'makes, renews or changes an entitlement; a revoked one is in force again',
    'entitlementId',
    (_before, _mutation, { policyRevision }) => ({ policyRevision, revokeTime: undefined }),
  ),
  revokeEntitlement: change('entitlement', 'revokes an entitlement', 'entitlementId', revokeOnce),
  createGrant: {
    ...put('grant', 'issues a task grant', 'grantId', (_before, _mutation, { policyRevision }) => ({
      policyRevision,
      credentialEpoch: undefined,
    })),
    creates: true,
  },
  revokeGrant: change('grant', 'revokes a task grant', 'grantId', revokeOnce),
  putOperator: put('operator', 'makes or changes an operator, its signing key too', 'spiffeId'),
  putOwner: put('owner', 'makes or changes an owner, its signing key too', 'spiffeId'),
  putGateShape: put('gateShape', 'makes a shape of gates, or changes its status', 'gateShapeId'),
  putActionCondition: put(
    'actionCondition',
    'makes or changes the condition of a type of actions',
    'actionType',
  ),
  putTool: put('tool', 'enters a tool into the catalogue, or changes its mark or status', 'toolName'),
  registerWorkload: prove('registers a workload by its proof of possession', true),
  renewWorkload: prove("renews a workload's registration by its proof of possession", false),
  revokeWorkload: change('workload', "ends a workload's registration", 'registrationId', (before) => {
    const spec = before['spec'] as RegistrationSpec | undefined;
    if (spec === undefined || before['status'] === RecordStatus.REVOKED) return undefined;
    return {
      spec: { ...spec, credentialEpoch: spec.credentialEpoch + 1n },
      status: RecordStatus.REVOKED,
      updateTime: undefined,
    };
  }),
};

/**
 * The record as it will be, for people, as far as that is known before the service has decided.
 *
 * @returns undefined where there is no record to change
 */
export function recordAfter(
  kind: MutationKind,
  schema: DescMessage,
  mutation: Fields,
  before: Message | undefined,
  facts: Facts,
): Message | undefined {
  const given = kind.record === undefined ? undefined : (mutation[kind.record] as Message | undefined);
  const base = given ?? before ?? (kind.creates ? create(schema) : undefined);
  if (base === undefined) return undefined;
  const old = (before ?? {}) as Fields;
  const change = kind.change(old, mutation, facts);
  if (change === undefined) return before;
  const after = Object.assign(clone(schema, base), change);
  if (schema.fields.some(({ name }) => name === 'revision')) {
    Object.assign(after, { revision: ((old['revision'] as bigint | undefined) ?? 0n) + 1n });
  }
  return after;
}

/**
 * What a proof of possession registers; its signature is the service's to verify.
 *
 * @returns undefined where it cannot be read
 */
function registrationOf({ possessionJws }: Fields): RegistrationSpec | undefined {
  const payload = decodeBase64url(String(possessionJws).split('.')[1] ?? '');
  if (payload === undefined) return undefined;
  try {
    return fromBinary(PossessionStatementSchema, payload).registration;
  } catch {
    return undefined;
  }
}

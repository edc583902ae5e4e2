import type { CallerKind } from '../ledger/types.js';

/**
 * How the domain of a call is found.
 *
 * - `own`: the trust domain of the caller's SPIFFE ID; the request names none.
 * - `named`: the request's field, always.
 * - `either`: harnesses and workloads act in their own domain and leave the field empty; operators, owners and auditors
 *   name the one that they act in (identity.md, Callers).
 * - `optional`: like `either`, but who may name a domain need not.
 * - `command`: the header of the signed command, read before its signature is verified. It only selects whose rows are
 *   looked at; what is acted on is the verified payload.
 */
export type DomainSource =
  | { readonly from: 'own' }
  | { readonly from: 'named' | 'either' | 'optional'; readonly field: string }
  | { readonly from: 'command' };

/** Who may call a method. */
export interface MethodRow {
  readonly kinds: ReadonlySet<CallerKind>;
  readonly domain: DomainSource;
  /** Also the service under its own certificate, which is no caller's: its own health check. */
  readonly serviceItself?: boolean;
  /** Answered while the service drains, so that clients see it go. */
  readonly whileDraining?: boolean;
}

const OWN: DomainSource = { from: 'own' };
const COMMAND: DomainSource = { from: 'command' };
const named = (field = 'domain_id'): DomainSource => ({ from: 'named', field });
const either = (field = 'domain_id'): DomainSource => ({ from: 'either', field });

const row = (kinds: readonly CallerKind[], domain: DomainSource): MethodRow => ({
  kinds: new Set(kinds),
  domain,
});

const EVERY_KIND: readonly CallerKind[] = [
  'harness',
  'executor',
  'reconciler',
  'worker',
  'owner',
  'operator',
  'auditor',
];
const ACTION_READERS: readonly CallerKind[] = ['harness', 'worker', 'owner', 'operator', 'auditor'];
const OVERSEERS: readonly CallerKind[] = ['operator', 'auditor'];
const EFFECT_PARTIES: readonly CallerKind[] = ['harness', 'executor', 'reconciler'];
const WORKLOADS: readonly CallerKind[] = ['executor', 'reconciler', 'worker'];

const health = (): MethodRow => ({ ...row(EVERY_KIND, OWN), serviceItself: true, whileDraining: true });
const adminRead = (): MethodRow => row(['operator'], named());

/**
 * One row per method, by `package.Service/Method`; a method without one is open to nobody (identity.md, Callers; the
 * callers of each are those of api.md and effects.md).
 */
export const METHOD_TABLE: ReadonlyMap<string, MethodRow> = new Map<string, MethodRow>([
  ['surety.effect.v1.EffectService/ReserveEffect', row(['harness'], OWN)],
  ['surety.effect.v1.EffectService/StartExecution', row(['executor'], OWN)],
  ['surety.effect.v1.EffectService/MarkUnknown', row(['executor'], OWN)],
  ['surety.effect.v1.EffectService/AcknowledgeTerminal', row(['executor'], OWN)],
  ['surety.effect.v1.EffectService/Reconcile', row(['reconciler'], OWN)],
  ['surety.effect.v1.EffectService/CancelEffect', row(['harness'], OWN)],
  ['surety.effect.v1.EffectService/CheckRetry', row([...EFFECT_PARTIES, ...OVERSEERS], either())],
  ['surety.effect.v1.EffectService/GetEffect', row([...EFFECT_PARTIES, ...OVERSEERS], either())],
  ['surety.effect.v1.EffectService/GetEffectHistory', row([...EFFECT_PARTIES, ...OVERSEERS], either())],
  ['surety.effect.v1.EffectService/ListEffects', row(['reconciler', ...OVERSEERS], either())],
  ['surety.effect.v1.EffectService/WatchEffects', row(['reconciler', ...OVERSEERS], either())],

  ['surety.action.v1.ActionService/ProposeAction', row(['harness', 'worker'], OWN)],
  ['surety.action.v1.ActionService/GateAction', row(['harness', 'worker', 'owner'], either())],
  ['surety.action.v1.ActionService/RejectAction', row(['owner'], named())],
  ['surety.action.v1.ActionService/AddBoundedGrant', row(['owner'], named())],
  ['surety.action.v1.ActionService/RevokeBoundedGrant', row(['owner'], named())],
  ['surety.action.v1.ActionService/AddReceipt', row(['harness', 'worker', 'owner'], either())],
  ['surety.action.v1.ActionService/LeaseNext', row(['worker'], OWN)],
  ['surety.action.v1.ActionService/LeaseObservation', row(['worker'], OWN)],
  ['surety.action.v1.ActionService/GetDispatchView', row(['worker'], OWN)],
  ['surety.action.v1.ActionService/BeginDispatch', row(['worker'], OWN)],
  ['surety.action.v1.ActionService/BeginObservation', row(['worker'], OWN)],
  ['surety.action.v1.ActionService/DeferObservation', row(['worker'], OWN)],
  ['surety.action.v1.ActionService/DeferLeased', row(['worker'], OWN)],
  ['surety.action.v1.ActionService/AcceptAction', row(['worker'], OWN)],
  ['surety.action.v1.ActionService/VerifyAction', row(['worker'], OWN)],
  ['surety.action.v1.ActionService/CompleteAction', row(['worker'], OWN)],
  ['surety.action.v1.ActionService/FailAction', row(['worker'], OWN)],
  ['surety.action.v1.ActionService/ReapLeases', row(['operator'], named())],
  ['surety.action.v1.ActionService/GetAction', row(ACTION_READERS, either())],
  ['surety.action.v1.ActionService/ListActions', row(ACTION_READERS, either())],
  ['surety.action.v1.ActionService/ListReceipts', row(ACTION_READERS, either())],
  ['surety.action.v1.ActionService/ListEvents', row(ACTION_READERS, either())],
  ['surety.action.v1.ActionService/ListDeadLetters', row(ACTION_READERS, either())],
  ['surety.action.v1.ActionService/WatchActions', row(ACTION_READERS, either())],

  ['surety.replay.v1.ReplayService/ConsumeNonce', row(EVERY_KIND, either())],

  ['surety.provenance.v1.ProvenanceService/RegisterOrigin', row(['harness', 'operator'], either())],
  ['surety.provenance.v1.ProvenanceService/DeriveRecord', row(['harness', 'operator'], either())],
  ['surety.provenance.v1.ProvenanceService/GetRecord', row(['harness', ...OVERSEERS], either())],
  ['surety.provenance.v1.ProvenanceService/ListVersions', row(['harness', ...OVERSEERS], either())],
  [
    'surety.provenance.v1.ProvenanceService/VerifyReference',
    row(['harness', ...OVERSEERS], either('reference.domain_id')),
  ],
  ['surety.provenance.v1.ProvenanceService/GetLineage', row(['harness', ...OVERSEERS], either())],

  ['surety.audit.v1.AuditService/ListEntries', row(OVERSEERS, named())],
  ['surety.audit.v1.AuditService/WatchEntries', row(OVERSEERS, named())],
  ['surety.audit.v1.AuditService/VerifyChain', row(OVERSEERS, named())],

  ['surety.identity.v1.WorkloadService/RenewWorkload', row(WORKLOADS, OWN)],
  ['surety.identity.v1.WorkloadService/GetWorkload', row([...WORKLOADS, ...OVERSEERS], either())],
  ['surety.identity.v1.WorkloadService/ListWorkloads', row(OVERSEERS, named())],
  ['surety.identity.v1.WorkloadService/WhoAmI', row(EVERY_KIND, { from: 'optional', field: 'domain_id' })],

  // An operator is answered too: it has no authority to act, and Decide is where that is said.
  ['surety.authority.v1.PolicyService/Decide', row(['harness', 'operator'], OWN)],
  ['surety.authority.v1.PolicyService/GetDecision', row(['harness', ...OVERSEERS], either())],

  ['surety.authority.v1.AdminService/ExecuteCommand', row(['operator'], COMMAND)],
  ['surety.authority.v1.AdminService/GetDomain', adminRead()],
  ['surety.authority.v1.AdminService/ListDomains', adminRead()],
  ['surety.authority.v1.AdminService/GetPrincipal', adminRead()],
  ['surety.authority.v1.AdminService/ListPrincipals', adminRead()],
  ['surety.authority.v1.AdminService/GetGuest', adminRead()],
  ['surety.authority.v1.AdminService/ListGuests', adminRead()],
  ['surety.authority.v1.AdminService/GetHarness', adminRead()],
  ['surety.authority.v1.AdminService/ListHarnesses', adminRead()],
  ['surety.authority.v1.AdminService/GetCredential', adminRead()],
  ['surety.authority.v1.AdminService/ListCredentials', adminRead()],
  ['surety.authority.v1.AdminService/GetEntitlement', adminRead()],
  ['surety.authority.v1.AdminService/ListEntitlements', adminRead()],
  ['surety.authority.v1.AdminService/GetGrant', adminRead()],
  ['surety.authority.v1.AdminService/ListGrants', adminRead()],
  ['surety.authority.v1.AdminService/GetOperator', adminRead()],
  ['surety.authority.v1.AdminService/ListOperators', adminRead()],
  ['surety.authority.v1.AdminService/GetOwner', adminRead()],
  ['surety.authority.v1.AdminService/ListOwners', adminRead()],
  ['surety.authority.v1.AdminService/GetGateShape', adminRead()],
  ['surety.authority.v1.AdminService/ListGateShapes', adminRead()],
  ['surety.authority.v1.AdminService/GetActionCondition', adminRead()],
  ['surety.authority.v1.AdminService/ListActionConditions', adminRead()],
  ['surety.authority.v1.AdminService/GetTool', adminRead()],
  ['surety.authority.v1.AdminService/ListTools', adminRead()],
  ['surety.authority.v1.AdminService/GetSink', adminRead()],
  ['surety.authority.v1.AdminService/ListSinks', adminRead()],
  ['surety.authority.v1.AdminService/GetAdmissionStatus', adminRead()],

  ['surety.event.v1.EventService/PublishEvent', row(['harness'], OWN)],
  ['surety.event.v1.EventService/GetEvent', row(['harness'], OWN)],

  ['surety.testing.v1.ClockService/Now', row(['operator'], OWN)],
  ['surety.testing.v1.ClockService/Advance', row(['operator'], OWN)],

  ['grpc.health.v1.Health/Check', health()],
  ['grpc.health.v1.Health/List', health()],
  ['grpc.health.v1.Health/Watch', health()],

  ['grpc.reflection.v1.ServerReflection/ServerReflectionInfo', row(['operator'], OWN)],
  ['grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo', row(['operator'], OWN)],
]);

/** The part of a service's descriptor that is compared with the table. */
export interface ServiceMethods {
  readonly typeName: string;
  readonly methods: readonly { readonly name: string }[];
}

/** The table and the contract differ: the service does not start. */
export class MethodTableError extends Error {
  override readonly name = 'MethodTableError';
  constructor(
    readonly withoutRow: readonly string[],
    readonly withoutMethod: readonly string[],
  ) {
    super(
      [
        ...withoutRow.map((method) => `${method} has no row in the method table`),
        ...withoutMethod.map((method) => `${method} is in the method table and not in the contract`),
      ].join('; '),
    );
  }
}

/**
 * Compares the table with every descriptor of the contract, before anything is served.
 *
 * @throws {MethodTableError} if a method has no row, or a row no method
 */
export function checkMethodTable(
  services: readonly ServiceMethods[],
  table: ReadonlyMap<string, MethodRow> = METHOD_TABLE,
): void {
  const methods = new Set(
    services.flatMap(({ typeName, methods }) => methods.map(({ name }) => `${typeName}/${name}`)),
  );
  const withoutRow = [...methods].filter((method) => !table.has(method));
  const withoutMethod = [...table.keys()].filter((method) => !methods.has(method));
  if (withoutRow.length + withoutMethod.length > 0) throw new MethodTableError(withoutRow, withoutMethod);
}

import type {
  ActionEventRow,
  ActionLeaseRow,
  ActionReceiptRow,
  ActionRow,
  BoundedGrantRow,
  BoundedGrantUseRow,
  DeadLetterRow,
} from './action/records.js';
import type { ActionConditionRow, GateShapeRow, ToolRow } from './action/gate-records.js';
import type { ActorCounterRow, SinkCounterRow } from './admission/records.js';
import type { AuditRow } from './audit/records.js';
import type {
  AdminCommandRow,
  CallerRow,
  CredentialRow,
  DecisionRow,
  DecisionUseRow,
  EntitlementRow,
  GrantRow,
  GuestRow,
  HarnessRow,
  OperatorRow,
  OwnerRow,
  PrincipalRow,
  SinkRow,
} from './authority/records.js';
import type {
  ArchiveRow,
  EffectRow,
  PendingWorkRow,
  TombstoneRow,
  TransitionNonceRow,
  TransitionRow,
} from './effect/records.js';
import type { EventRow } from './event/records.js';
import type { ProofKeyRow, RegistrationRow, RegistrationVersionRow } from './identity/records.js';
import type {
  ClearanceReceiptRow,
  ProvenanceParentRow,
  ProvenanceRow,
  ProvenanceStepRow,
} from './provenance/records.js';
import type { ReplayCallerRow, ReplayNonceRow } from './replay/records.js';

/** The rows that decisions read and write, by the name of their table. */
export interface Tables {
  sinks: SinkRow;
  callers: CallerRow;
  principals: PrincipalRow;
  guests: GuestRow;
  harnesses: HarnessRow;
  credentials: CredentialRow;
  entitlements: EntitlementRow;
  grants: GrantRow;
  decisions: DecisionRow;
  decision_uses: DecisionUseRow;
  operators: OperatorRow;
  owners: OwnerRow;
  admin_commands: AdminCommandRow;
  registrations: RegistrationRow;
  registration_versions: RegistrationVersionRow;
  proof_keys: ProofKeyRow;
  events: EventRow;
  effects: EffectRow;
  effect_tombstones: TombstoneRow;
  archives: ArchiveRow;
  pending_work: PendingWorkRow;
  transitions: TransitionRow;
  transition_nonces: TransitionNonceRow;
  replay_nonces: ReplayNonceRow;
  replay_callers: ReplayCallerRow;
  provenance_records: ProvenanceRow;
  provenance_parents: ProvenanceParentRow;
  provenance_steps: ProvenanceStepRow;
  clearance_receipts: ClearanceReceiptRow;
  gate_shapes: GateShapeRow;
  action_conditions: ActionConditionRow;
  tools: ToolRow;
  actions: ActionRow;
  action_receipts: ActionReceiptRow;
  action_events: ActionEventRow;
  action_leases: ActionLeaseRow;
  dead_letters: DeadLetterRow;
  bounded_grants: BoundedGrantRow;
  bounded_grant_uses: BoundedGrantUseRow;
  audit_entries: AuditRow;
  actor_counters: ActorCounterRow;
  sink_counters: SinkCounterRow;
}

export type TableName = keyof Tables;

/** The columns that make up a row's key within its domain, in order. */
export const KEY_FIELDS: { readonly [T in TableName]: readonly (keyof Tables[T] & string)[] } = {
  sinks: ['sink'],
  callers: ['spiffeId'],
  principals: ['principalId'],
  guests: ['guestId'],
  harnesses: ['harnessId'],
  credentials: ['credentialId'],
  entitlements: ['entitlementId'],
  grants: ['grantId'],
  decisions: ['decisionId'],
  decision_uses: ['decisionId'],
  operators: ['spiffeId'],
  owners: ['spiffeId'],
  admin_commands: ['adminCommandId'],
  registrations: ['registrationId'],
  registration_versions: ['registrationId', 'credentialEpoch'],
  proof_keys: ['thumbprint'],
  events: ['eventId'],
  effects: ['effectId'],
  effect_tombstones: ['effectId'],
  archives: ['archiveNumber'],
  pending_work: ['effectId'],
  transitions: ['effectId', 'step'],
  transition_nonces: ['registrationId', 'nonceDigest'],
  replay_nonces: ['nonceKey'],
  replay_callers: ['spiffeId'],
  provenance_records: ['objectType', 'objectId', 'version'],
  provenance_parents: ['provenanceDigest', 'parentDigest'],
  provenance_steps: ['provenanceDigest', 'ordinal'],
  clearance_receipts: ['approverSpiffeId', 'receiptId'],
  gate_shapes: ['gateShapeId'],
  action_conditions: ['actionType'],
  tools: ['toolName'],
  actions: ['actionId'],
  action_receipts: ['actionId', 'receiptClass', 'receiptKey'],
  action_events: ['actionId', 'eventNumber'],
  action_leases: ['leaseToken'],
  dead_letters: ['actionId'],
  bounded_grants: ['boundedGrantId'],
  bounded_grant_uses: ['boundedGrantId', 'actionId'],
  audit_entries: ['seq'],
  actor_counters: ['actor'],
  sink_counters: ['sink'],
};

export type KeyPart = string | bigint | number | Uint8Array;

/** One text for a row's key, fit for a Map. NUL never occurs in a key's text: such input is refused at the door. */
export function keyText(parts: readonly KeyPart[]): string {
  let text = partText(parts[0] as KeyPart);
  for (let i = 1; i < parts.length; i += 1) text += `\0${partText(parts[i] as KeyPart)}`;
  return text;
}

/** The key of a row. */
export function rowKey<T extends TableName>(table: T, row: Tables[T]): string {
  const fields = KEY_FIELDS[table];
  let text = partText(row[fields[0] as keyof Tables[T]] as KeyPart);
  for (let i = 1; i < fields.length; i += 1) {
    text += `\0${partText(row[fields[i] as keyof Tables[T]] as KeyPart)}`;
  }
  return text;
}

function partText(part: KeyPart): string {
  if (typeof part === 'string') return part;
  return part instanceof Uint8Array ? hex(part) : String(part);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}
